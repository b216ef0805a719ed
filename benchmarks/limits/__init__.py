"""Whether what plans, texts and stores cost grows with their size and no faster.

``python -m benchmarks.limits`` doubles sizes (terms, values, clauses of each kind, columns, keys,
aggregates, groups, symbols, segments, branches, tags, characters, nesting) and prints the exponent
with which processor time grows, or the number of calls where all sizes take less than 20 ms; above
1.2 it says so and ends with 1.

- ``slopes``: the two ways to count a cost, and the exponent
- ``queries``, ``tables``: what is measured
"""

from benchmarks.limits.queries import CASES as _QUERIES
from benchmarks.limits.slopes import Case, Measured, calls, calls_slope, measured, slope
from benchmarks.limits.tables import CASES as _TABLES

__all__ = [
    "ALLOWED",
    "CASES",
    "Case",
    "Measured",
    "calls",
    "calls_slope",
    "measured",
    "slope",
]

ALLOWED = 1.2
CASES = (*_QUERIES, *_TABLES)
