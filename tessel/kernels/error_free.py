"""What a sum or a product of doubles is off from the exact one; for kernels of pairs of doubles.

References
----------
T. J. Dekker, *A floating-point technique for extending the available precision*, 1971; D. E. Knuth,
*The Art of Computer Programming*, volume 2, 4.2.2.
"""

from __future__ import annotations

from typing import Any

from tessel.kernels.declare import inner

_SPLITTER = 2.0**27 + 1


@inner
def two_sum(left: float, right: float) -> Any:
    """Return the rounded sum, and what the exact one is more."""
    total = left + right
    share = total - left
    return total, (left - (total - share)) + (right - share)


@inner
def two_product(left: float, right: float) -> Any:
    """Return the rounded product, and what the exact one is more; nothing may overflow."""
    found = left * right
    scaled = left * _SPLITTER
    left_high = scaled - (scaled - left)
    left_low = left - left_high
    scaled = right * _SPLITTER
    right_high = scaled - (scaled - right)
    right_low = right - right_high
    error = left_high * right_high - found
    error += left_high * right_low
    error += left_low * right_high
    error += left_low * right_low
    return found, error
