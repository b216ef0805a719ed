"""What kernels add up of a column, so that its exact sums can be made of that.

Groups and runs of rows that are reduced as they are stored enter here for each column that they
sum: integers and times as they are, decimals as the integers that they are kept as and what
rounding took from them, other doubles in limbs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.integer_sum import IntegerSums
from tessel.clauses.values import is_temporal, missing_rows, plain
from tessel.expression.schema import TableSchema
from tessel.kernels import DecimalSum, SumField
from tessel.store import OpenedScan

__all__ = ["StoredSum", "is_summable", "may_hold_nan", "stored_sum"]

Parts = Mapping[int, NDArray[np.int64]]


@dataclass(frozen=True)
class StoredSum:
    """The sum of one column.

    Attributes
    ----------
    fields
        What kernels sum, one or two.
    is_float
        Whether the values are doubles.
    decimal
        How the sums of two fields become that of doubles; None where the one field is the sum.
    """

    fields: tuple[SumField, ...]
    is_float: bool
    decimal: DecimalSum | None = None

    def sums(self, found: Sequence[Parts], groups: int) -> Any:
        """Return the exact sums, `FloatSums` or `IntegerSums`, from those of the fields.

        Parameters
        ----------
        found
            For each field, int64 sums, shape ``(groups,)``, by bit position.
        groups
            How many sums there are.
        """
        parts = dict(found[0]) if self.decimal is None else self.decimal.sums(list(found))
        kind = FloatSums if self.is_float else IntegerSums
        return kind.of_parts(parts, groups)


def stored_sum(opened: OpenedScan, name: str) -> StoredSum | None:
    """Return what is summed of a column; None where its numbers are not known well enough."""
    decimal = _decimal_sum(opened, name)
    if decimal is not None:
        return decimal
    number = opened.program.number(name)
    if number is None:
        return None
    largest = max(abs(number.low), abs(number.high))
    if not number.is_float:
        return StoredSum((SumField.of_integers(number.register, int(largest)),), False)
    if not np.isfinite(largest):
        return None
    return StoredSum((SumField.of_floats(number.register, float(largest)),), True)


def _decimal_sum(opened: OpenedScan, name: str) -> StoredSum | None:
    """Return the sum of a stored column whose pages are all decimals of one scale."""
    place = opened.program.place(name)
    if place is None:
        return None
    column = opened.columns[place]
    if column.exponents is None or column.bounds is None:
        return None
    places = int(column.exponents[0])
    if (column.exponents != places).any():
        return None
    decimal = DecimalSum.of_bounds(places, *column.bounds)
    if decimal is None:
        return None
    integers = opened.program.integers(name)
    residuals = opened.program.residuals(name, decimal.up) if places else None
    return StoredSum(tuple(decimal.fields(integers, residuals)), True, decimal)


def may_hold_nan(opened: OpenedScan, name: str, schema: TableSchema) -> bool:
    """Say whether a column may hold a NaN, which is stored like a value and is none to count."""
    if not pa.types.is_floating(schema.type_of(name)):
        return False
    coded = opened.program.codes(name)
    return coded is None or missing_rows(plain(coded[1])) is not None


def is_summable(kind: pa.DataType) -> bool:
    """Return whether the exact sum of a type is that of its integers, or of its doubles."""
    if pa.types.is_integer(kind) or pa.types.is_float64(kind):
        return True
    return is_temporal(kind) and not pa.types.is_date64(kind)
