"""One piece of a segment, described so fully that a worker elsewhere can load it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from tessel.ecs.piece import ColRange, RowRange, SegmentKey, TimeRange
from tessel.errors import (
    CorruptSegmentError,
    NotFoundError,
    PlanFormatError,
    StoreError,
)
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.encodings.values import Integers
from tessel.store.names import segment_name
from tessel.store.objects.base import ObjectStore
from tessel.store.segment.reader import SegmentReader

if TYPE_CHECKING:
    from tessel.store.segment.fetch import Wanted
    from tessel.store.segment.lazy_rows import LazyRows

PIECES: pa.DataType = pa.struct(
    [("object", pa.binary(16))]
    + [
        (name, pa.int64())
        for name in (
            "offset", "length", "checksum", "metadata_start", "row_start", "row_stop",
            "segment_row_start", "column_start", "column_end", "first_time", "last_time",
        )
    ]
    + [("shape", pa.dictionary(pa.int32(), pa.string()))]
)  # fmt: skip
"""Pieces as columns, in which they travel: what they hold in common is their ``shape``, as JSON."""
_TIMES = ("first_time", "last_time")
_Column = TypeVar("_Column", pa.Array, pa.ChunkedArray)


@dataclass(frozen=True, slots=True)
class PieceSource:
    """Where one piece of a symbol is found.

    Attributes
    ----------
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


def pieces_of(sent: pa.Array) -> list[PieceSource]:
    """Return pieces that were sent as columns, of type :data:`PIECES`, to another process.

    Raises PlanFormatError for columns that are not those of pieces.
    """
    if not sent.type.equals(PIECES) or sent.null_count:
        raise _format_error(f"its columns are {sent.type}")
    found = dict(zip(PIECES.names, sent.flatten(), strict=True))
    for name, values in found.items():
        if name in _TIMES:
            continue  # of any sign; none without an index
        if values.null_count:
            raise _format_error(f"it lacks {name}")
        if pa.types.is_integer(values.type) and min(values.to_pylist(), default=0) < 0:
            raise _format_error(f"its {name} is below 0")
    shapes = [_shape(text) for text in found["shape"].dictionary.to_pylist()]
    numbers = found["shape"].indices.to_pylist()
    pieces = []
    for (identifier, offset, length, checksum, metadata_start, *rest), number in zip(
        zip(*(found[name].to_pylist() for name in PIECES.names[:-1]), strict=True),
        numbers,
        strict=True,
    ):
        row_start, row_stop, segment_row_start, low, high, first, last = rest
        columns, ids, absent = shapes[number]
        if row_stop < row_start:
            raise _format_error(f"its rows end at {row_stop}, before they begin at {row_start}")
        if metadata_start >= length:
            raise _format_error(f"no metadata begin at {metadata_start} of {length} bytes")
        pieces.append(
            PieceSource(
                SegmentKey(segment_name(identifier), offset, length, checksum, metadata_start),
                row_start,
                row_stop,
                segment_row_start,
                columns,
                ids,
                absent,
                ColRange(low, high),
                None if first is None or last is None else TimeRange(first, last),
            )
        )
    return pieces


@functools.lru_cache(maxsize=256)
def _shape(text: str) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """Return columns, their ids and the absent columns, which many pieces have in common."""
    try:
        columns, ids, absent = json.loads(text)
    except (TypeError, ValueError) as error:
        raise _format_error(f"{text!r} names no columns") from error
    if not isinstance(ids, list) or not all(type(each) is int and each >= 0 for each in ids):
        raise _format_error(f"{ids!r} are no ids of columns")
    names = _names(columns)
    if len(ids) != len(names):
        raise _format_error(f"{len(ids)} ids for {len(names)} columns")
    return names, tuple(ids), _names(absent)


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise _format_error(f"{values!r} is no list of names")
    return tuple(values)


def _format_error(what: str) -> PlanFormatError:
    return PlanFormatError(f"a piece of a plan cannot be read: {what}")


class SegmentSource:
    """Loads pieces of one symbol; safe to use from several threads.

    Parameters
    ----------
    objects
        Where the segments lie; in another process, ``open_objects(uri)``.

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

        Raises CorruptSegmentError when the segment is damaged or missing; PlanFormatError when the
        piece is not one of this symbol.

        Returns
        -------
        pa.Table
            The columns of the piece in the order of the schema, with the declared types; columns
            that these rows do not have are null throughout.
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
        from tessel.store.segment.fetch import fetch

        fetch(self._reader.source, wanted)

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
        what = f"is damaged, column {name!r}: it holds {column.type}, not {type_}"
        raise CorruptSegmentError.for_object(key.object, what, column=name) from error
