"""What integers a type holds, and whether all integers of a page are among them.

The checks of integer encodings enter here. Without them, a page of 8-bit values could say 300: it
would be one number where it is decoded, and another where its linear form is compared.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.base import Page
from tessel.store.encodings.codes import ValueKind

__all__ = ["check_bounds", "kind_bounds"]


def kind_bounds(kind: ValueKind, width: int) -> tuple[int, int] | None:
    """Return the least and the largest integer of a type; None where 64 bits hold no other.

    Floats are meant as the unsigned integers of the same bits.
    """
    if kind == ValueKind.BOOLEAN:
        return 0, 1
    if width >= 8:
        return None
    if kind == ValueKind.SIGNED:
        return -(1 << 8 * width - 1), (1 << 8 * width - 1) - 1
    return 0, (1 << 8 * width) - 1


def check_bounds(page: Page, integers: npt.NDArray[np.int64], lowest: int, highest: int) -> None:
    """Raise ``CorruptSegmentError`` where one of the integers of a page is outside the bounds."""
    if not len(integers):
        return
    least, most = int(integers.min()), int(integers.max())
    if least < lowest or most > highest:
        wrong = least if least < lowest else most
        raise page.damaged(f"it holds {wrong}, which is not in [{lowest}, {highest}]")
