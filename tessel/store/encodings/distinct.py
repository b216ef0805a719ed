"""How many distinct values so many rows have, judging by those of a sample.

The writer enters here before it makes a dictionary, and the planner before it chooses how rows are
grouped.
"""

from __future__ import annotations

import math

__all__ = ["expected_distinct"]


def expected_distinct(sampled: int, found: int, rows: int) -> float:
    """Return how many distinct values so many rows have, judging by those that a sample has.

    As if each row took one of a number of values by chance: ``found = n (1 - exp(-sampled / n))``.
    Rows whose values come in runs have fewer than that for their number, in a sample as well.
    """
    if found >= sampled:
        return rows
    low, high = float(found), float(sampled) * sampled
    while high - low > 0.01 * low:
        middle = math.sqrt(low * high)
        if -middle * math.expm1(-sampled / middle) < found:
            low = middle
        else:
            high = middle
    return -high * math.expm1(-rows / high)
