"""Finding rows by key: each key column becomes codes, and the codes of a row one number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tessel.arrays import arrow_scalar, fill_null, numpy_array, scalar_text
from tessel.errors import InvalidInputError
from tessel.store.encodings.base import Integers

__all__ = ["KeyLookup"]


class KeyLookup:
    """The keys of a frame, each of them once.

    0.0 and -0.0 are one key. A key with a missing value is refused.

    Parameters
    ----------
    table
        The frame.
    keys
        Its key columns.

    Raises
    ------
    InvalidInputError
        For a missing key, and for a key that two rows have.
    """

    def __init__(self, table: pa.Table, keys: Sequence[str]) -> None:
        self.rows = table.num_rows
        self._keys = list(keys)
        self._table = table.select(self._keys)
        self._values: list[pa.Array] = []
        self._known: list[Integers] = []
        for name in self._keys:
            column = table.column(name)
            missing = np.flatnonzero(_missing(column))
            if len(missing):
                raise InvalidInputError(
                    f"the key column {name!r} is missing in row {int(missing[0])} "
                    f"({len(missing)} missing values)",
                    hint="drop these rows, or fill the column",
                    column=name,
                    row=int(missing[0]),
                )
            values = _plain(column)
            self._values.append(values.unique())
        codes = self._codes(table, learn=True)
        order = np.argsort(codes, kind="stable")
        twice = np.flatnonzero(codes[order][1:] == codes[order][:-1])
        if len(twice):
            first, second = sorted(order[twice[0] : twice[0] + 2].tolist())
            raise InvalidInputError(
                f"rows {first} and {second} of the table have the key {self.shown(first)}",
                hint="keep one row of each key",
            )
        self._sorted, self._order = codes[order], order

    def places(self, table: pa.Table) -> Integers:
        """Return the row of the frame with the key of each row of a table; -1 where none has."""
        codes = self._codes(table, learn=False)
        place = np.minimum(np.searchsorted(self._sorted, codes), max(self.rows - 1, 0))
        hit = (codes >= 0) & (self._sorted[place] == codes)
        found: Integers = np.where(hit, self._order[place], -1)
        return found

    def shown(self, row: int) -> str:
        """Return the key of a row of the frame, for people."""
        return ", ".join(
            f"{name}={scalar_text(self._table.column(name)[row])}" for name in self._keys
        )

    def _codes(self, table: pa.Table, *, learn: bool) -> Integers:
        """Return one number for the key of each row; -1 for a key that the frame has not."""
        total = np.zeros(table.num_rows, dtype=np.int64)
        for at, name in enumerate(self._keys):
            values = _plain(table.column(name)).cast(self._values[at].type)
            found = fill_null(pc.index_in(values, value_set=self._values[at]), -1)
            own = numpy_array(found).astype(np.int64)
            # Numbers stay below the square of the frame's rows: after each column they are
            # replaced by their ranks among those that the frame has.
            wide = total * len(self._values[at]) + own
            wide[(total < 0) | (own < 0)] = -1
            if learn:
                self._known.append(np.unique(wide))
            ranks = np.searchsorted(self._known[at], wide)
            inside = np.minimum(ranks, max(len(self._known[at]) - 1, 0))
            known = (wide >= 0) & (self._known[at][inside] == wide) if table.num_rows else wide >= 0
            total = np.where(known, inside, -1)
        return total


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """Return values as one array without dictionaries, -0.0 as 0.0."""
    if pat.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pat.is_floating(column.type):
        column = pc.add(column, arrow_scalar(0.0, column.type))
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _missing(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    plain = _plain(column)
    nulls = pc.is_null(plain, nan_is_null=pat.is_floating(plain.type))
    return np.asarray(numpy_array(nulls), dtype=np.bool_)
