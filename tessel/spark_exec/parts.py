"""Units as wire rows and back: what every stage does at both of its ends.

A unit is sent as one part for each of its row groups, column slices joined; its facts travel with
each part. The wire rows of a unit are numbered from the ``seq`` of the unit on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables, numpy_array
from tessel.clauses.structures import UnitFacts
from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.piece import ColRange, RowRange, TimeRange
from tessel.errors import SparkError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.spark_exec.blobs import PartFacts, decode, encode
from tessel.spark_exec.plugins import received_components, sent_components
from tessel.spark_exec.wire import (
    MAX_BLOB_BYTES,
    MOST_UNITS,
    UNIT_SHIFT,
    ReceivedPart,
    WireRow,
    read_parts,
    sequences,
    wire_rows,
)

_PIECES = (1 << UNIT_SHIFT) - 1
_MOST_ROW_GROUPS = 4096


def place_of_unit(seq: int) -> int:
    """Return the ``seq`` of the unit that a wire row is of: that of its first row."""
    return seq & ~_PIECES


def unit_number(seq: int) -> int:
    """Return the ordinal of the unit in a ``seq``."""
    return (seq >> UNIT_SHIFT) & MOST_UNITS


def unit_rows(
    unit: ProcessingUnit, seq: int, max_blob_bytes: int = MAX_BLOB_BYTES
) -> list[WireRow]:
    """Return a unit as wire rows.

    Parameters
    ----------
    unit
        Without pieces it makes no row.
    seq
        Its place, from :func:`tessel.spark_exec.wire.sequence`.
    max_blob_bytes
        Aimed-for bound of what travels in one row.
    """
    rows: list[WireRow] = []
    for group in _groups(unit):
        whole = unit.with_pieces(group, unit.schema)
        joined = whole.replace(whole.table, index=unit.schema.index).pieces[0]
        bucket = group[0].bucket
        facts = PartFacts(
            joined.row_range,
            joined.time_range,
            joined.symbol,
            joined.planned_fetches,
            unit.schema.index,
            bucket,
            joined.segments,
            sent_components(joined.components),
        )
        rows += wire_rows(
            joined.table,
            facts,
            seq=seq + len(rows),
            bucket=bucket or 0,
            max_blob_bytes=max_blob_bytes,
        )
    if len(rows) > _PIECES + 1:
        raise SparkError(
            f"one unit's result needs {len(rows)} blobs; at most {_PIECES + 1} are possible",
            hint="write the result to the store instead of collecting it",
        )
    return rows


def _groups(unit: ProcessingUnit) -> list[Sequence[Piece]]:
    """Return the pieces that travel as one part: row groups, or all of a bucket if too many."""
    if len(unit.row_groups) <= _MOST_ROW_GROUPS:
        return list(unit.row_groups)
    by_bucket: dict[int | None, list[Piece]] = {}
    for piece in unit.pieces:
        by_bucket.setdefault(piece.bucket, []).append(piece)
    return list(by_bucket.values())


def rows_by_unit(rows: Iterable[WireRow]) -> Iterator[tuple[int, list[WireRow]]]:
    """Yield the place of each unit with its wire rows, all in order."""
    ordered = sorted(rows, key=lambda row: row.seq)
    for place, found in itertools.groupby(ordered, key=lambda row: place_of_unit(row.seq)):
        yield place, list(found)


def piece_of_part(
    part: ReceivedPart, kinds: Mapping[str, type], planned: int | None = None
) -> Piece:
    """Return a part as a piece; ``planned`` replaces its planned fetch count.

    ``kinds`` are the classes of components by name.
    """
    facts = part.facts
    return Piece(
        part.table,
        facts.row_range,
        ColRange(0, part.table.num_columns),
        facts.time_range,
        facts.symbol,
        facts.bucket,
        facts.fetches if planned is None else planned,
        facts.segments,
        received_components(facts.components, kinds),
    )


def unit_of_rows(place: int, rows: Iterable[WireRow], kinds: Mapping[str, type]) -> ProcessingUnit:
    """Return the unit that was sent as these wire rows."""
    parts = sorted(read_parts(rows), key=lambda part: part.seq)
    pieces = [piece_of_part(part, kinds) for part in parts]
    return ProcessingUnit(unit_number(place), schema_of_part(parts[0]), pieces)


def schema_of_part(part: ReceivedPart) -> TableSchema:
    """Return the schema of the unit that a part is of."""
    return TableSchema(part.table.schema.remove_metadata(), part.facts.index)


_NUMBERS = (
    *("seq", "rows", "piece", "bytes"),  # of a wire row; the others are of a part
    *("columns", "start", "stop", "is_timed", "first", "last", "symbol", "bucket"),
)
_KNOWN: pa.Schema = pa.schema(
    [(name, pa.int64()) for name in _NUMBERS]
    + [("segments", pa.list_(pa.string())), ("components", pa.list_(pa.string()))]
)
_NO_BUCKET = -1


def known_of(rows: Iterable[WireRow]) -> WireRow | None:
    """Return a wire row with the facts of the parts in other rows, without their data."""
    told: list[tuple[Any, ...]] = []
    for row in rows:
        part = decode(row.blob)
        facts, times = part.facts, part.facts.time_range
        told.append(
            (
                *(row.seq, row.rows, part.piece, len(row.blob), part.table.num_columns),
                *(facts.row_range.start, facts.row_range.end, times is not None),
                *((times.first, times.last) if times is not None else (0, 0)),
                *(facts.symbol, _NO_BUCKET if facts.bucket is None else facts.bucket),
                *(facts.segments, list(itertools.chain.from_iterable(facts.components))),
            )
        )
    if not told:
        return None
    columns = [
        pa.array(map(int, values) if pa.types.is_int64(field.type) else values, field.type)
        for field, values in zip(_KNOWN, zip(*told, strict=True), strict=True)
    ]
    table = pa.table(columns, schema=_KNOWN)
    return WireRow(0, told[0][0], len(told), encode(table, PartFacts(RowRange(0, len(told)))))


class SentParts(Sequence[UnitFacts]):
    """What is known of parts that lie in tasks, as columns: an object is made when it is asked for.

    Parameters
    ----------
    rows
        Of :func:`known_of`.
    kinds
        The classes of components by name.
    """

    def __init__(self, rows: Iterable[WireRow], kinds: Mapping[str, type]) -> None:
        told = [_KNOWN.empty_table(), *(decode(row.blob).table for row in rows)]
        table = concat_tables(told).sort_by("seq")
        numbers = {name: numpy_array(table.column(name)) for name in _NUMBERS}
        self._seqs = numbers["seq"]
        self._starts = np.flatnonzero(numbers["piece"] == 0)
        rows_before = np.append(0, np.cumsum(numbers["rows"]))
        self._rows = np.diff(rows_before[np.append(self._starts, len(self._seqs))])
        self._numbers = [numbers[name][self._starts] for name in _NUMBERS[4:]]
        self._named = table.select(["segments", "components"]).take(arrow_array(self._starts))
        self._kinds = kinds
        self.bytes = int(numbers["bytes"].sum())

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        columns, start, stop, timed, first, last, symbol, bucket = (
            int(each[at]) for each in self._numbers
        )
        segments, told = (
            self._named.column(name)[at].as_py() for name in ("segments", "components")
        )
        return UnitFacts(
            unit_number(int(self._seqs[self._starts[at]])),
            int(self._rows[at]),
            RowRange(start, stop),
            ColRange(0, columns),
            TimeRange(first, last) if timed else None,
            symbol,
            None if bucket == _NO_BUCKET else bucket,
            tuple(segments),
            received_components(zip(told[::2], told[1::2], strict=True), self._kinds),
        )

    def routes(self, groups: Sequence[Sequence[int]]) -> Routes:
        """Return where wire rows go, for units that want the parts at some positions each."""
        counts = np.fromiter(map(len, groups), np.int64, len(groups))
        wanted = np.fromiter(itertools.chain.from_iterable(groups), np.int64, int(counts.sum()))
        units = np.repeat(np.arange(len(groups)), counts)
        places = np.arange(len(wanted)) - np.repeat(np.cumsum(counts) - counts, counts)
        seqs = sequences(np.zeros_like(places), places)
        times = np.bincount(wanted, minlength=len(self))[wanted]
        planned = Fetches(*np.stack([units, seqs, times])[:, times > 1])
        pieces = np.diff(np.append(self._starts, len(self._seqs)))[wanted]
        piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        sources = self._seqs[np.repeat(self._starts[wanted], pieces) + piece]
        order = np.argsort(sources, kind="stable")
        to = np.stack([np.repeat(units, pieces), np.repeat(seqs, pieces) + piece])
        return Routes(sources[order], to[:, order], planned)


@dataclass(frozen=True, eq=False)
class Fetches:
    """In how many units parts are wanted that several want.

    Attributes
    ----------
    units, seqs
        Of the parts in their units, in that order; int64, ``(parts,)``.
    times
        How many units want each; likewise.
    """

    units: NDArray[np.int64]
    seqs: NDArray[np.int64]
    times: NDArray[np.int64]

    def of(self, unit: int, seq: int) -> int:
        """Return in how many units a part of one is wanted."""
        low, high = np.searchsorted(self.units, [unit, unit + 1])
        at = low + np.searchsorted(self.seqs[low:high], seq)
        return int(self.times[at]) if at < high and self.seqs[at] == seq else 1


@dataclass(frozen=True, eq=False)
class Routes:
    """Where wire rows go: to units that want them.

    Attributes
    ----------
    sources
        The ``seq`` of rows, ascending, once for each unit that wants it.
    to
        The units, and the ``seq`` that the rows have there; int64, ``(2, rows)``.
    planned
        In how many units each part is wanted.
    """

    sources: NDArray[np.int64]
    to: NDArray[np.int64]
    planned: Fetches

    def rows(self, row: WireRow) -> list[WireRow]:
        """Return a row as each unit gets it."""
        low, high = np.searchsorted(self.sources, [row.seq, row.seq + 1])
        return [WireRow(u, seq, row.rows, row.blob) for u, seq in self.to[:, low:high].T.tolist()]
