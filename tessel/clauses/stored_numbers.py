"""Columns as the integers of a program: decimals by what they are kept as, others by themselves.

What orders or counts values without decoding them enters here; integers of a column stand for its
values, one for one and in their order.
"""

from __future__ import annotations

import math

import pyarrow as pa

from tessel.expression.block_columns import Number
from tessel.expression.encoded import BlockProgram

_LARGEST_DECIMALS = {pa.float64(): 1 << 52, pa.float32(): 1 << 23}
"""Decimals below are different floats of a type where their integers are different."""


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
    largest, places = _LARGEST_DECIMALS.get(kind), None if column is None else column.places
    if column is None or column.bounds is None or largest is None or places is None:
        return None
    scale = 10**places
    low = math.floor(float(column.bounds[0]) * scale) - 1
    high = math.ceil(float(column.bounds[1]) * scale) + 1
    if max(-low, high) >= largest:
        return None
    known = program.known([name])
    return Number(False, program.integers(name), low, high, known), places
