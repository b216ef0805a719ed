"""Columns as the integers of a program: decimals by what they are kept as, others by themselves.

What orders or counts values without decoding them enters here; integers of a column stand for its
values, one for one and in their order.
"""

from __future__ import annotations

import math

import pyarrow as pa

from tessel.expression.block_columns import Number
from tessel.expression.encoded import BlockProgram

_LARGEST_DECIMAL = 1 << 52
"""Decimals below are different doubles where their integers are different."""


def decimal_integers(
    program: BlockProgram, name: str, kind: pa.DataType
) -> tuple[Number, int] | None:
    """Return a column of decimals of one scale as what they are kept as, and its decimal places.

    Parameters
    ----------
    program
        Has the column, or one that is the same, with its very bounds.

    Returns
    -------
    tuple or None
        Integers in the order of the values, and how many places they have; None for other columns.
    """
    column = program.column(name)
    if column is None or not pa.types.is_float64(kind) or column.bounds is None:
        return None
    places = column.places
    if places is None:
        return None
    scale = 10**places
    low = math.floor(float(column.bounds[0]) * scale) - 1
    high = math.ceil(float(column.bounds[1]) * scale) + 1
    if max(-low, high) >= _LARGEST_DECIMAL:
        return None
    known = program.known([name])
    return Number(False, program.integers(name), low, high, known), places
