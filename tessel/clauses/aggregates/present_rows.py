"""The rows of columns that have a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.cached import cached
from tessel.clauses.aggregates.base import Codes
from tessel.clauses.values import BoolArray, missing_rows, plain

Values = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs


class PresentRows:
    """The rows of some columns in which none is missing.

    Parameters
    ----------
    values
        Array or chunked array; None for the rows themselves, of which all count.
    codes
        int64, shape ``(rows,)``: the group of each row.
    several
        Whether values are structs of one field a column.
    """

    def __init__(self, values: Values | None, codes: Codes, *, several: bool = False) -> None:
        self.values, self.all_codes = values, codes
        self._several = several

    @cached
    def _given(self) -> list[pa.Array]:
        if self.values is None:
            return []
        return [plain(each) for each in (self.values.flatten() if self._several else [self.values])]

    @cached
    def _kept(self) -> BoolArray | None:
        missing = [rows for rows in map(missing_rows, self._given) if rows is not None]
        return ~np.logical_or.reduce(missing) if missing else None

    @cached
    def codes(self) -> Codes:
        """The group of each of the rows that count."""
        return self.all_codes if self._kept is None else self.all_codes[self._kept]

    @cached
    def columns(self) -> list[pa.Array]:
        """One plain array a column, of the rows that count."""
        if self._kept is None:
            return self._given
        mask = arrow_array(self._kept)
        return [column.filter(mask) for column in self._given]

    def taken(self, rows: Codes) -> pa.Array:
        """Return the values of the first column at some of the rows that count; null at -1."""
        absent = rows < 0
        if self._kept is not None:
            places = np.append(np.flatnonzero(self._kept), -1)
            rows = places[rows]
        return self._given[0].take(arrow_array(rows, mask=absent))


def whole_structs(values: Values) -> pa.StructArray:
    """Return structs that are null where one of their fields is missing: no value of the row."""
    columns = [plain(column) for column in values.flatten()]
    missing = [rows for rows in map(missing_rows, columns) if rows is not None]
    mask = arrow_array(np.logical_or.reduce(missing)) if missing else None
    names = [field.name for field in values.type]
    return pa.StructArray.from_arrays(columns, names, mask=mask)
