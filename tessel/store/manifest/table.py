"""All segments of one symbol at one version, as arrays: what every segment index is a view of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import CorruptStoreError
from tessel.store.manifest.format import SEGMENTS_SCHEMA
from tessel.store.manifest.manifest import Manifest

__all__ = ["Flags", "Integers", "SegmentTable", "SliceFacts"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SliceFacts:
    """Statistics of one column, one value per row slice.

    Attributes
    ----------
    minimum, maximum
        Bounds, null where unknown or where everything is missing; of null type for columns
        without an order. pa.Array.
    minimum_exact, maximum_exact
        Whether the bound is a value of the column.
    missing
        How many values are null or NaN. int64.
    """

    minimum: pa.Array
    maximum: pa.Array
    minimum_exact: Flags
    maximum_exact: Flags
    missing: Integers


@dataclass(frozen=True, eq=False)
class SegmentTable:
    """The segments of a symbol in manifest order, and the row slices they make up.

    Attributes
    ----------
    symbol
        Id of the symbol.
    manifests
        Where the rows came from, with the ordinal of the first segment of each.
    row_offset, column_from, column_to, offset, length, checksum, metadata_start
        As in the manifests, one per segment. int64.
    object
        Names of the objects without their prefix: 16 bytes each.
    slice_of
        The row slice of each segment. int64.
    slice_start, slice_end
        Rows ``[start, end)`` of each row slice. int64.
    slice_first, slice_last
        Bounds of the index in each row slice; None without an index. int64.
    """

    symbol: int
    manifests: tuple[tuple[Manifest, int], ...]
    row_offset: Integers
    column_from: Integers
    column_to: Integers
    offset: Integers
    length: Integers
    checksum: Integers
    metadata_start: Integers
    object: pa.Array
    slice_of: Integers
    slice_start: Integers
    slice_end: Integers
    slice_first: Integers | None
    slice_last: Integers | None

    @classmethod
    def from_manifests(
        cls, symbol: int, manifests: Sequence[Manifest], *, indexed: bool, rows: int
    ) -> SegmentTable:
        """Join manifests of a symbol, in row order.

        Parameters
        ----------
        symbol
            Id of the symbol.
        manifests
            All of them.
        indexed
            Whether the symbol has a time index.
        rows
            How many rows the symbol has; the manifests must agree.

        Raises
        ------
        CorruptStoreError
            When the manifests contradict one another or the number of rows.
        """
        parts = [manifest.segments_of(symbol) for manifest in manifests]
        table = pa.concat_tables([SEGMENTS_SCHEMA.empty_table(), *parts]).combine_chunks()
        counts = np.array([part.num_rows for part in parts], dtype=np.int64)
        firsts = np.cumsum(counts) - counts
        column_from = _integers(table, "column_from")
        row_count = _integers(table, "row_count")

        begins = np.ones(len(column_from), dtype=bool)
        begins[1:] = column_from[1:] <= column_from[:-1]
        begins[firsts[counts > 0]] = True
        slice_of = np.cumsum(begins, dtype=np.int64) - 1
        slice_rows = row_count[begins]
        slice_end = np.cumsum(slice_rows, dtype=np.int64)
        total = int(slice_end[-1]) if len(slice_end) else 0
        if total != rows or (row_count != slice_rows[slice_of]).any():
            raise CorruptStoreError(
                f"the manifests of symbol {symbol:#018x} hold {total} rows in slices that do not "
                f"fit together; the snapshot says {rows}",
                hint="restore the store from a copy",
                symbol=symbol,
            )
        times = [_times(table, name, begins) if indexed else None for name in _TIME_COLUMNS]
        return cls(
            symbol=symbol,
            manifests=tuple(zip(manifests, firsts.tolist(), strict=True)),
            row_offset=_integers(table, "row_offset"),
            column_from=column_from,
            column_to=_integers(table, "column_to"),
            offset=_integers(table, "offset"),
            length=_integers(table, "length"),
            checksum=_integers(table, "checksum"),
            metadata_start=_integers(table, "metadata_start"),
            object=_joined(table, "object"),
            slice_of=slice_of,
            slice_start=slice_end - slice_rows,
            slice_end=slice_end,
            slice_first=times[0],
            slice_last=times[1],
        )

    def __len__(self) -> int:
        return len(self.slice_of)

    @property
    def slices(self) -> int:
        """How many row slices there are."""
        return len(self.slice_start)

    def statistics(self, column_id: int, bounds: pa.DataType | None) -> SliceFacts:
        """Return the statistics of a column over all row slices.

        A slice whose segments do not hold the column has it missing throughout. ``bounds`` is the
        type to give the bounds in; narrower ones are widened.
        """
        kind = pa.null() if bounds is None else bounds
        tables: list[pa.Table] = []
        row_of_slice = np.full(self.slices, -1, dtype=np.int64)
        count = 0
        for manifest, first in self.manifests:
            found = manifest.statistics(self.symbol, column_id)
            if found is None:
                continue
            segments = _integers(found, "segment") + first
            row_of_slice[self.slice_of[segments]] = count + np.arange(len(segments))
            count += len(segments)
            tables.append(
                found.select(_FACTS).cast(pa.schema([(n, _fact_type(n, kind)) for n in _FACTS]))
            )
        absent = row_of_slice < 0
        rows = pa.array(row_of_slice, mask=absent)
        whole = pa.schema([(n, _fact_type(n, kind)) for n in _FACTS]).empty_table()
        facts = pa.concat_tables([whole, *tables]).combine_chunks().take(rows).combine_chunks()
        nulls = _joined(facts, "nulls").fill_null(0).to_numpy(zero_copy_only=False)
        nans = _joined(facts, "nans").fill_null(0).to_numpy(zero_copy_only=False)
        missing = np.where(absent, self.slice_end - self.slice_start, nulls + nans)
        return SliceFacts(
            minimum=_joined(facts, "minimum"),
            maximum=_joined(facts, "maximum"),
            minimum_exact=_flags(facts, "minimum_exact"),
            maximum_exact=_flags(facts, "maximum_exact"),
            missing=missing.astype(np.int64),
        )


_TIME_COLUMNS = ("first_time", "last_time")
_FACTS = ("minimum", "maximum", "minimum_exact", "maximum_exact", "nulls", "nans")


def _fact_type(name: str, bounds: pa.DataType) -> pa.DataType:
    if name.endswith("_exact"):
        return pa.bool_()
    return bounds if name in ("minimum", "maximum") else pa.int64()


def _joined(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )


def _integers(table: pa.Table, name: str) -> Integers:
    values: Integers = table.column(name).to_numpy().astype(np.int64, copy=False)
    return values


def _flags(table: pa.Table, name: str) -> Flags:
    values: Flags = _joined(table, name).fill_null(False).to_numpy(zero_copy_only=False)
    return values.astype(np.bool_)


def _times(table: pa.Table, name: str, begins: Flags) -> Integers:
    column = table.column(name)
    if column.null_count:
        raise CorruptStoreError(
            "a manifest of an indexed symbol lacks times", hint="restore the store from a copy"
        )
    return _integers(table, name)[begins]
