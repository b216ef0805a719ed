"""One piece of a segment, described so fully that a worker elsewhere can load it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from tessel.ecs.components import ColRange, RowRange, SegmentKey, TimeRange
from tessel.errors import (
    CorruptSegmentError,
    NotFoundError,
    PlanFormatError,
    StoreError,
)
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.encodings.base import Integers
from tessel.store.names import segment_id
from tessel.store.objects.base import ObjectStore
from tessel.store.segment.reader import SegmentReader

if TYPE_CHECKING:
    from tessel.store.segment.fetch import Wanted
    from tessel.store.segment.lazy_rows import LazyRows

__all__ = ["PieceSource", "SegmentSource"]

_KEY_FIELDS = {"object", "offset", "length", "checksum", "metadata_start"}
_FIELDS = {
    "key", "row_start", "row_stop", "segment_row_start", "columns", "column_ids", "absent",
    "col_range", "time_range",
}  # fmt: skip
_Column = TypeVar("_Column", pa.Array, pa.ChunkedArray)
_LARGEST = 2**63 - 1
_LEAST = -(2**63)


@dataclass(frozen=True, slots=True)
class PieceSource:
    """Where one piece of a symbol is found.

    Attributes
    ----------
    key
        The segment.
    row_start, row_stop
        Rows ``[start, stop)`` of the symbol that the piece holds.
    segment_row_start
        Row of the segment at which they begin.
    columns, column_ids
        Names and ids of the columns to read from it, in the order of the schema.
    absent
        Names of columns that no segment of these rows holds; the piece has them as missing.
    col_range
        Column range of the segment in stored order (the index first).
    time_range
        Bounds of the index over the rows; None without an index.
    """

    key: SegmentKey
    row_start: int
    row_stop: int
    segment_row_start: int
    columns: tuple[str, ...]
    column_ids: tuple[int, ...]
    absent: tuple[str, ...]
    col_range: ColRange
    time_range: TimeRange | None = None

    @property
    def row_range(self) -> RowRange:
        """The rows of the symbol that the piece holds."""
        return RowRange(self.row_start, self.row_stop)

    def to_json(self) -> dict[str, Any]:
        """Return the piece as plain data."""
        times = self.time_range
        return {
            "key": {
                "object": self.key.object,
                "offset": self.key.offset,
                "length": self.key.length,
                "checksum": self.key.checksum,
                "metadata_start": self.key.metadata_start,
            },
            "row_start": self.row_start,
            "row_stop": self.row_stop,
            "segment_row_start": self.segment_row_start,
            "columns": list(self.columns),
            "column_ids": list(self.column_ids),
            "absent": list(self.absent),
            "col_range": [self.col_range.start, self.col_range.end],
            "time_range": None if times is None else [times.first, times.last],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PieceSource:
        """Rebuild a piece from its plain data; raises ``PlanFormatError`` on anything else."""
        if not isinstance(data, Mapping) or set(data) != _FIELDS:
            raise _format_error("its fields are not those of a piece")
        key = data["key"]
        if not isinstance(key, Mapping) or set(key) != _KEY_FIELDS:
            raise _format_error("its key is not one")
        if not isinstance(key["object"], str) or segment_id(key["object"]) is None:
            raise _format_error(f"{key['object']!r} names no segment")
        row_start, row_stop = _integers([data["row_start"], data["row_stop"]], 2)
        columns, absent = _names(data["columns"]), _names(data["absent"])
        ids = _integers(data["column_ids"], len(columns))
        times = data["time_range"]
        if row_stop < row_start:
            raise _format_error(f"its rows end at {row_stop}, before they begin at {row_start}")
        offset, length, checksum = _integers([key["offset"], key["length"], key["checksum"]], 3)
        metadata_start = key["metadata_start"]
        if metadata_start is not None:
            (metadata_start,) = _integers([metadata_start], 1)
            if metadata_start >= length:
                raise _format_error(f"no metadata begin at {metadata_start} of {length} bytes")
        (segment_row_start,) = _integers([data["segment_row_start"]], 1)
        return cls(
            key=SegmentKey(key["object"], offset, length, checksum, metadata_start),
            row_start=row_start,
            row_stop=row_stop,
            segment_row_start=segment_row_start,
            columns=columns,
            column_ids=ids,
            absent=absent,
            col_range=ColRange(*_integers(data["col_range"], 2)),
            time_range=None if times is None else TimeRange(*_integers(times, 2, least=_LEAST)),
        )


def _integers(values: Any, count: int, *, least: int = 0) -> tuple[int, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != count:
        raise _format_error(f"{values!r} is no list of {count} numbers")
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LARGEST:
            raise _format_error(f"{value!r} is no number from {least} on")
    return tuple(values)


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise _format_error(f"{values!r} is no list of names")
    if not all(isinstance(value, str) for value in values):
        raise _format_error(f"{values!r} holds something other than names")
    return tuple(values)


def _format_error(what: str) -> PlanFormatError:
    return PlanFormatError(f"a piece of a plan cannot be read: {what}")


class SegmentSource:
    """Loads pieces of one symbol; safe to use from several threads.

    Parameters
    ----------
    objects
        Where the segments lie; in another process, ``open_objects(uri)``.
    schema
        Columns and types of the symbol.
    column_ids
        The id of each column.

    Attributes
    ----------
    is_far
        Whether bytes are asked for and waited for; otherwise those of segments are all there.
    """

    def __init__(
        self, objects: ObjectStore, schema: TableSchema, column_ids: Mapping[str, int]
    ) -> None:
        self.objects = objects
        self.schema = schema
        self.column_ids = dict(column_ids)
        self._reader = SegmentReader(objects)
        self.is_far = not self._reader.views
        self._schemas: dict[tuple[tuple[object, ...], ...], pa.Schema] = {}

    def load(self, piece: PieceSource) -> pa.Table:
        """Read a piece.

        Returns
        -------
        pa.Table
            The columns of the piece in the order of the schema, with the declared types; columns
            that these rows do not have are null throughout.

        Raises
        ------
        CorruptSegmentError
            When the segment is damaged or missing.
        PlanFormatError
            When the piece is not one of this symbol.
        """
        start = piece.segment_row_start
        stop = start + piece.row_stop - piece.row_start
        return self.table_of(
            piece,
            piece.row_stop - piece.row_start,
            lambda: self._reader.read(piece.key, piece.column_ids, start, stop).columns,
        )

    def load_joined(self, pieces: Sequence[PieceSource]) -> pa.Table | None:
        """Read pieces of small segments that follow one another, in one pass.

        Returns
        -------
        pa.Table or None
            As of :meth:`load`, one after the other. None where they have not the same columns, are
            not stored alike, or one is damaged: then they are loaded one by one.
        """
        first = pieces[0]
        shape = first.columns, first.column_ids, first.absent
        if any((each.columns, each.column_ids, each.absent) != shape for each in pieces):
            return None
        keys = [piece.key for piece in pieces]
        lengths = [piece.row_stop - piece.row_start for piece in pieces]
        starts = [piece.segment_row_start for piece in pieces]
        spans = [(at, at + rows) for at, rows in zip(starts, lengths, strict=True)]
        try:
            return self.table_of(
                first,
                sum(lengths),
                lambda: self._reader.read_joined(keys, first.column_ids, spans).columns,
            )
        except (StoreError, NotFoundError, ValueError):
            return None

    def take(self, piece: PieceSource, rows: Integers) -> pa.Table:
        """Return single rows of a piece, counted in the symbol: any order, repeats allowed.

        Columns, types and errors are those of :meth:`load`; int64.
        """
        inside = rows - piece.row_start + piece.segment_row_start
        return self.table_of(
            piece, len(rows), lambda: self._reader.take(piece.key, piece.column_ids, inside).columns
        )

    def gather(
        self,
        pieces: Sequence[PieceSource],
        rows: Integers,
        stops: Sequence[int],
        places: Integers | None,
    ) -> list[pa.Array | None]:
        """Return single rows of pieces with the same columns; see ``SegmentReader.gather``.

        Rows are counted in the segments. Columns have their declared types.
        """
        first = pieces[0]
        keys = [piece.key for piece in pieces]
        found = self._reader.gather(keys, first.column_ids, rows, stops, places)
        return [
            None if values is None else self.declared(values, name, first)
            for name, values in zip(first.columns, found, strict=True)
        ]

    def fetch(self, wanted: Sequence[Wanted]) -> None:
        """Fetch rows of columns of several pieces in one round trip; they are far."""
        self._reader.fetch(wanted)

    def lazy_rows(self, piece: PieceSource) -> LazyRows:
        """Return the rows of a piece, each column of which is read when it is touched."""
        start = piece.segment_row_start
        stop = start + piece.row_stop - piece.row_start
        return self._reader.lazy_rows(piece.key, piece.column_ids, start, stop)

    def declared(self, values: _Column, name: str, piece: PieceSource) -> _Column:
        """Return values of a column in its type, where they were stored in a narrower one."""
        return _declared(values, self.schema.type_of(name), name, piece.key)

    def table_of(
        self,
        piece: PieceSource,
        rows: int,
        read: Callable[[], Sequence[pa.Array | pa.ChunkedArray]],
    ) -> pa.Table:
        """Return the table of a piece of which ``rows`` rows are wanted; as :meth:`load`.

        Parameters
        ----------
        read
            Gives the stored columns in the order of the piece; some maybe as dictionaries.
        """
        shape = piece.columns, piece.column_ids, piece.absent
        schema = self._schemas.get(shape)
        if schema is None:
            schema = self._schemas[shape] = self._schema_of(piece)
        if not schema.names:
            # The row count is known from the plan: nothing needs to be read for it.
            return pa.table({"": pa.nulls(rows)}).select([])
        found = dict(zip(piece.columns, read(), strict=True)) if piece.columns else {}
        columns: list[pa.Array | pa.ChunkedArray] = []
        for place, field in enumerate(schema):
            column = found.get(field.name)
            if column is None:
                column = pa.nulls(rows, field.type)
            elif column.type != field.type:
                column = self.declared(column, field.name, piece)
                schema = schema.set(place, field.with_type(column.type))
            columns.append(column)
        return pa.table(columns, schema=schema)

    def _schema_of(self, piece: PieceSource) -> pa.Schema:
        """Return the columns of a piece in the order of the symbol, with the declared types."""
        for name, column_id in zip(piece.columns, piece.column_ids, strict=True):
            if self.column_ids.get(name) != column_id:
                raise _format_error(f"column {name!r} has not the id {column_id} in this symbol")
        for name in piece.absent:
            if name not in self.schema:
                raise _format_error(f"this symbol has no column {name!r}")
        names = {*piece.columns, *piece.absent}
        return pa.schema([field for field in self.schema.arrow if field.name in names])


def _declared(column: _Column, type_: pa.DataType, name: str, key: SegmentKey) -> _Column:
    """Widen values that were stored before a column's type was widened."""
    if column.type == type_:
        return column
    if pa.types.is_dictionary(column.type) and column.type.value_type == type_:
        return column  # as it was asked for
    try:
        return column.cast(type_)
    except pa.ArrowException as error:
        raise CorruptSegmentError(
            f"{key.object} is damaged, column {name!r}: it holds {column.type}, not {type_}",
            hint="restore the object from a copy of the store",
            object=key.object,
            column=name,
        ) from error
