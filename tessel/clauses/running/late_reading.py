"""Reading a unit: the first clauses choose rows from some columns, the rest is read for those.

Executors enter here with the segments of a unit. Where the first clauses end in one that reduces
rows as they are stored, nothing is read but what its kernels look at. Where no clause at the front
selects, or a segment is shared between units, everything is read and all clauses are left to run.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel import telemetry
from tessel.cancelling import check_cancelled
from tessel.clauses.base import Clause
from tessel.clauses.powers import (
    Chooses,
    Reduced,
    Reduces,
    Scans,
    Selects,
    Settles,
    TakesCodes,
    has_power,
)
from tessel.clauses.running.reduced import ReducedPiece
from tessel.clauses.running.stage import failed_clause, load_piece, piece_of
from tessel.ecs import ColRange, Piece, RowRange, TimeRange
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.store.manifest.block_scan import BlockScan
from tessel.store.manifest.candidate_rows import CandidateRows
from tessel.store.manifest.piece import PieceSource, SegmentSource

__all__ = [
    "ChosenRows",
    "choose_rows",
    "chooses",
    "coded_after",
    "done_by_choosing",
    "read_chosen",
    "read_joined",
    "read_pieces",
    "read_selected",
    "read_together",
    "read_unit",
    "reduce_stored",
    "select_rows",
    "selects",
    "settle_rows",
]


@dataclass(slots=True, eq=False)
class ChosenRows:
    """Rows of one row range that may be needed, none of them read yet.

    Attributes
    ----------
    rows
        All of the row range, not narrowed.
    places
        Where those lie, ascending, int64.
    """

    rows: CandidateRows
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.places)


def read_pieces(
    sources: Sequence[PieceSource],
    planned: Sequence[int],
    segments: SegmentSource,
    schema: TableSchema,
    clauses: Sequence[Clause],
    *,
    symbol: int = 0,
    unit: int = 0,
) -> tuple[list[Piece], int]:
    """Read the pieces of a unit as its first clauses leave them.

    Parameters
    ----------
    sources, planned
        Where the pieces are found, and how many units fetch each.
    schema
        The columns of the unit.
    clauses
        Those of the first stage.
    symbol, unit
        Ordinals of the symbol and of the unit.

    Returns
    -------
    pieces, done
        The pieces, and how many of the clauses they have been through.
    """
    found, done = read_unit(sources, planned, segments, schema, clauses, symbol=symbol, unit=unit)
    return [found.made()] if isinstance(found, ReducedPiece) else found, done


def read_unit(
    sources: Sequence[PieceSource],
    planned: Sequence[int],
    segments: SegmentSource,
    schema: TableSchema,
    clauses: Sequence[Clause],
    *,
    symbol: int = 0,
    unit: int = 0,
) -> tuple[list[Piece] | ReducedPiece, int]:
    """Read a unit as `read_pieces` does; of what was reduced there may be no table yet."""
    alone = bool(sources) and all(count == 1 for count in planned)
    if alone:
        reduced = reduce_stored(sources, segments, schema, clauses, symbol=symbol, unit=unit)
        if reduced is not None:
            return reduced
        chosen = choose_rows(sources, segments, schema, clauses, unit=unit)
        if chosen is not None:
            pieces = [piece for each in chosen for piece in read_chosen(each, schema, symbol)]
            return pieces, done_by_choosing(clauses)
    selecting = sum(1 for _ in itertools.takewhile(_selects, clauses))
    coded = _coded(clauses[selecting:])
    if not alone or not (selecting or coded):
        return _loaded(sources, planned, segments, symbol), 0
    selected = select_rows(sources, segments, schema, clauses, unit=unit)
    if selected is None:
        return _loaded(sources, planned, segments, symbol), 0
    return read_selected(*selected, clauses, symbol), selected[1]


def select_rows(
    sources: Sequence[PieceSource],
    segments: SegmentSource,
    schema: TableSchema,
    clauses: Sequence[Clause],
    *,
    unit: int = 0,
) -> tuple[list[CandidateRows], int] | None:
    """Let the first clauses drop rows before all columns are read.

    Parameters are those of `read_pieces`; no other unit fetches the pieces.

    Returns
    -------
    tuple or None
        What is left of each row range, and how many of the clauses it has been through. None where
        a row fails: which one is first, in this clause or in one behind it, is seen on whole rows.
    """
    strips = [CandidateRows(segments, strip, schema) for strip in _strips(sources)]
    done = 0
    try:
        for clause in itertools.takewhile(_selects, clauses):
            if not _select(clause, strips, unit):
                break
            done += 1
    except TesselError as error:
        if "object" in error.attributes:
            raise
        return None
    return strips, done


def read_selected(
    strips: Sequence[CandidateRows], done: int, clauses: Sequence[Clause], symbol: int = 0
) -> list[Piece]:
    """Return the pieces of what the first ``done`` clauses left."""
    coded = coded_after(clauses, done)
    return [_read(strip, source, symbol, coded) for strip in strips for source in strip.pieces]


def coded_after(clauses: Sequence[Clause], done: int) -> frozenset[str]:
    """Return the columns that may be dictionaries for what the first ``done`` clauses left."""
    if done < len(clauses) and _selects(clauses[done]):
        return frozenset()
    return _coded(clauses[done:])


def selects(clauses: Sequence[Clause]) -> bool:
    """Return whether the first clauses of a stage drop rows before all columns are read.

    Not where a clause behind them may reduce the rows as they are stored.
    """
    left = _behind_scans(clauses)
    reduces = left is not None and has_power(left, Reduces, "reduce")
    return bool(clauses) and _selects(clauses[0]) and not reduces


def _loaded(
    sources: Sequence[PieceSource], planned: Sequence[int], segments: SegmentSource, symbol: int
) -> list[Piece]:
    return [
        load_piece(source, segments, symbol, count)
        for source, count in zip(sources, planned, strict=True)
    ]


def _coded(clauses: Sequence[Clause]) -> frozenset[str]:
    """Return the columns that may be dictionaries for the first of some clauses."""
    if not clauses or not has_power(clauses[0], TakesCodes, "coded"):
        return frozenset()
    return cast(TakesCodes, clauses[0]).coded()


def _read(strip: CandidateRows, source: PieceSource, symbol: int, coded: frozenset[str]) -> Piece:
    with telemetry.span("segment.read", object=source.key.object) as facts:
        try:
            table = strip.read(source, coded)
        except TesselError as error:
            _place(error)
            raise
        facts.update(rows=table.num_rows, bytes=table.nbytes)
    return piece_of(source, table, symbol, 1)


def _strips(sources: Sequence[PieceSource]) -> list[list[PieceSource]]:
    """Return the pieces of each row range."""
    found = itertools.groupby(sources, lambda source: (source.row_start, source.row_stop))
    return [list(strip) for _, strip in found]


def reduce_stored(
    sources: Sequence[PieceSource],
    segments: SegmentSource,
    schema: TableSchema,
    clauses: Sequence[Clause],
    *,
    symbol: int = 0,
    unit: int = 0,
) -> tuple[ReducedPiece, int] | None:
    """Let the first clauses run on what is stored, where one of them reduces it.

    Parameters are those of `read_pieces`; no other unit fetches the pieces.

    Returns
    -------
    tuple or None
        What the rows of all pieces were reduced to, and how many of the clauses did it. None where
        values are needed; nothing is lost by asking.
    """
    scanning = list(itertools.takewhile(_scans, clauses))
    done = len(scanning) + 1
    if done > len(clauses) or not has_power(clauses[done - 1], Reduces, "reduce"):
        return None
    last = clauses[done - 1]
    strips = _strips(sources)
    with telemetry.span("clause.process", clause=last.name, unit=unit) as facts:
        rows = [BlockScan(CandidateRows(segments, strip, schema)) for strip in strips]
        table = _table_of(rows, scanning, last)
        facts.update(stored=table is not None)
        if table is None:
            return None
        facts.update(
            rows_in=sum(strip[0].row_stop - strip[0].row_start for strip in strips),
            rows_out=table.num_rows,
        )
    place = _place_of(strips[0][0], strips[-1][0], symbol)
    return ReducedPiece(table, place), done


def choose_rows(
    sources: Sequence[PieceSource],
    segments: SegmentSource,
    schema: TableSchema,
    clauses: Sequence[Clause],
    *,
    unit: int = 0,
) -> list[ChosenRows] | None:
    """Let the first clauses choose rows from what is stored, where one of them can.

    Parameters are those of `read_pieces`; no other unit fetches the pieces.

    Returns
    -------
    list or None
        What they may need of each row range; None where values are needed.
    """
    scanning = list(itertools.takewhile(_scans, clauses))
    if len(scanning) == len(clauses) or not has_power(clauses[len(scanning)], Chooses, "choose"):
        return None
    last = cast(Chooses, clauses[len(scanning)])
    strips = [CandidateRows(segments, strip, schema) for strip in _strips(sources)]
    chosen: list[ChosenRows] = []
    with telemetry.span("clause.choose", clause=clauses[len(scanning)].name, unit=unit) as facts:
        facts.update(rows_in=sum(map(len, strips)), stored=False)
        try:
            for rows in strips:
                scan = BlockScan(rows)
                if not all(cast(Scans, clause).scan(scan) for clause in scanning):
                    return None
                places = last.choose(scan)
                if places is None:
                    return None
                chosen.append(ChosenRows(rows, places))
        except TesselError:
            return None  # the values say what is wrong, and which clause it belongs to
        facts.update(rows_out=sum(map(len, chosen)), stored=True)
    return chosen


def done_by_choosing(clauses: Sequence[Clause]) -> int:
    """Return how many clauses are done with once rows are chosen: none where some make columns."""
    scanning = list(itertools.takewhile(_scans, clauses))
    return len(scanning) + 1 if all(map(_selects, scanning)) else 0


def chooses(clauses: Sequence[Clause]) -> bool:
    """Return whether the first clauses of a stage end in one that chooses rows as stored."""
    left = _behind_scans(clauses)
    return left is not None and has_power(left, Chooses, "choose")


def settle_rows(clauses: Sequence[Clause], chosen: Iterable[ChosenRows]) -> None:
    """Drop rows that units which chose later have ruled out, where the clause can tell."""
    last: object = _behind_scans(clauses)
    if not isinstance(last, Settles):
        return
    for each in chosen:
        places = last.settle(each.rows.first_row)
        if places is not None and len(each):
            each.places = places


def read_together(
    chosen: Sequence[ChosenRows], segments: SegmentSource, schema: TableSchema, symbol: int = 0
) -> Piece | None:
    """Return few rows of several row ranges as one piece, found in one pass over all segments.

    Parameters
    ----------
    chosen
        At least one, each of at least one row, in the order of the rows.

    Returns
    -------
    Piece or None
        None where columns are cut or stored so that they must be read segment by segment.
    """
    pieces = [each.rows.pieces[0] for each in chosen]
    first = pieces[0]
    if any(
        len(each.rows.pieces) > 1 or piece.absent or piece.columns != first.columns
        for each, piece in zip(chosen, pieces, strict=True)
    ):
        return None
    if first.columns != tuple(schema.names):
        return None
    stops = list(itertools.accumulate(map(len, chosen)))
    inside = [
        each.places + piece.segment_row_start for each, piece in zip(chosen, pieces, strict=True)
    ]
    with telemetry.span("segment.read", object=first.key.object) as facts:
        try:
            columns = segments.gather(pieces, np.concatenate(inside), stops, None)
        except TesselError as error:
            _place(error)
            raise
        if any(column is None for column in columns):
            return None
        table = pa.table(columns, schema=schema.arrow)
        facts.update(rows=table.num_rows, bytes=table.nbytes)
    return _joined_piece(table, first, pieces[-1], symbol)


def read_joined(
    units: Sequence[Sequence[PieceSource]], segments: SegmentSource, symbol: int = 0
) -> list[Piece] | None:
    """Return small units that follow one another as the pieces of one, read in one pass.

    Parameters
    ----------
    units
        The pieces of each, all of one row range.

    Returns
    -------
    list or None
        A piece for each column slice. None where they must be read one by one.
    """
    if len({len(unit) for unit in units}) > 1:
        return None
    found: list[Piece] = []
    for pieces in zip(*units, strict=True):
        check_cancelled()
        with telemetry.span("segment.read", object=pieces[0].key.object) as facts:
            table = segments.load_joined(pieces)
            if table is None:
                return None
            facts.update(rows=table.num_rows, bytes=table.nbytes)
        place = _place_of(pieces[0], pieces[-1], symbol)
        found.append(place.with_table(table))
    return found


def read_chosen(chosen: ChosenRows, schema: TableSchema, symbol: int = 0) -> list[Piece]:
    """Return the pieces of rows that were chosen: one, which is not read, where there are none."""
    rows = chosen.rows
    rows.keep(chosen.places)
    if len(rows):
        return [_read(rows, source, symbol, frozenset()) for source in rows.pieces]
    empty = piece_of(rows.pieces[0], schema.empty(), symbol, 1)
    return [dataclasses.replace(empty, col_range=ColRange(0, len(schema.names)))]


def _table_of(
    rows: Sequence[BlockScan], scanning: Sequence[Clause], last: Clause
) -> pa.Table | Reduced | None:
    try:
        for each in rows:
            for clause in scanning:
                if not cast(Scans, clause).scan(each):
                    return None
        return cast(Reduces, last).reduce(rows)
    except TesselError:
        return None  # the values say what is wrong, and which clause it belongs to


def _joined_piece(table: pa.Table, first: PieceSource, last: PieceSource, symbol: int) -> Piece:
    """Return a table as one piece over all rows from one source to another."""
    place = _place_of(first, last, symbol)
    return dataclasses.replace(place, table=table, col_range=ColRange(0, table.num_columns))


def _place_of(first: PieceSource, last: PieceSource, symbol: int) -> Piece:
    """Return one piece over all rows from one source to another, without its table."""
    times = None
    if first.time_range is not None and last.time_range is not None:
        times = TimeRange(first.time_range.first, last.time_range.last)
    return dataclasses.replace(
        piece_of(first, pa.table({}), symbol, 1),
        row_range=RowRange(first.row_start, last.row_stop),
        time_range=times,
        segments=(first.key.object,) if first is last else (),
    )


def _scans(clause: Clause) -> bool:
    return has_power(clause, Scans, "scan")


def _behind_scans(clauses: Sequence[Clause]) -> Clause | None:
    """Return the first clause that does more with stored rows than let some of them pass."""
    return next(itertools.dropwhile(_scans, clauses), None)


def _selects(clause: Clause) -> bool:
    return has_power(clause, Selects, "select")


def _select(clause: Clause, strips: Sequence[CandidateRows], unit: int) -> bool:
    assert isinstance(clause, Selects)
    with telemetry.span("clause.process", clause=clause.name, unit=unit) as facts:
        rows = sum(len(strip) for strip in strips)
        try:
            answers = [clause.select(strip) for strip in strips if len(strip)]
        except TesselError as error:
            _place(error)
            raise
        except Exception as error:
            raise failed_clause(clause, error) from error
        facts.update(rows_in=rows, rows_out=sum(len(strip) for strip in strips))
    return all(answers)


def _place(error: TesselError) -> None:
    """Let an error name the segment that it came from, where it came from one."""
    found = error.attributes.get("object")
    error.with_context(segment=found if isinstance(found, str) else None)
