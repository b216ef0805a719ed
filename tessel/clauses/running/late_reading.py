"""Reading a unit: the first clauses choose rows from some columns, the rest is read for those.

Executors enter here with the segments of a unit. Where the first clauses end in one that reduces
rows as they are stored, nothing is read but what its kernels look at. Where no clause at the front
selects, or a segment is shared between units, everything is read and all clauses are left to run.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import cast

import pyarrow as pa

from tessel import telemetry
from tessel.clauses.base import Clause
from tessel.clauses.powers import Reduces, Scans, Selects, TakesCodes
from tessel.clauses.running.stage import failed_clause, load_piece, piece_of
from tessel.ecs import ColRange, Piece
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.store import BlockScan, CandidateRows, PieceSource, SegmentSource

__all__ = ["read_pieces"]


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
    alone = bool(sources) and all(count == 1 for count in planned)
    if alone:
        reduced = _reduced(sources, segments, schema, clauses, symbol=symbol, unit=unit)
        if reduced is not None:
            return reduced
    selecting = list(itertools.takewhile(_selects, clauses))
    coded = _coded(clauses[len(selecting) :])
    if not alone or not (selecting or coded):
        loaded = [
            load_piece(source, segments, symbol, count)
            for source, count in zip(sources, planned, strict=True)
        ]
        return loaded, 0
    strips = [CandidateRows(segments, strip, schema) for strip in _strips(sources)]
    done = 0
    try:
        for clause in selecting:
            if not _select(clause, strips, unit):
                break
            done += 1
    except TesselError as error:
        if "object" in error.attributes:
            raise
        # Which row fails first, in this clause or in one behind it, is seen on whole rows.
        return [load_piece(source, segments, symbol, 1) for source in sources], 0
    coded = coded if done == len(selecting) else frozenset()
    pieces = [_read(strip, source, symbol, coded) for strip in strips for source in strip.pieces]
    return pieces, done


def _coded(clauses: Sequence[Clause]) -> frozenset[str]:
    """Return the columns that may be dictionaries for the first of some clauses."""
    if not clauses or not _powered(clauses[0], TakesCodes, "coded"):
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


def _reduced(
    sources: Sequence[PieceSource],
    segments: SegmentSource,
    schema: TableSchema,
    clauses: Sequence[Clause],
    *,
    symbol: int,
    unit: int,
) -> tuple[list[Piece], int] | None:
    """Let the first clauses run on what is stored, where one of them reduces it; else None."""
    scanning = list(itertools.takewhile(_scans, clauses))
    done = len(scanning) + 1
    if done > len(clauses) or not _powered(clauses[done - 1], Reduces, "reduce"):
        return None
    last = clauses[done - 1]
    pieces = []
    with telemetry.span("clause.process", clause=last.name, unit=unit) as facts:
        for strip in _strips(sources):
            rows = BlockScan(CandidateRows(segments, strip, schema))
            table = _table_of(rows, scanning, last)
            if table is None:
                facts.update(stored=False)
                return None
            read = piece_of(strip[0], table, symbol, 1)
            pieces.append(dataclasses.replace(read, col_range=ColRange(0, table.num_columns)))
        facts.update(
            stored=True,
            rows_in=sum(strip[0].row_stop - strip[0].row_start for strip in _strips(sources)),
            rows_out=sum(piece.table.num_rows for piece in pieces),
        )
    return pieces, done


def _table_of(rows: BlockScan, scanning: Sequence[Clause], last: Clause) -> pa.Table | None:
    try:
        for clause in scanning:
            if not cast(Scans, clause).scan(rows):
                return None
        return cast(Reduces, last).reduce(rows)
    except TesselError:
        return None  # the values say what is wrong, and which clause it belongs to


def _scans(clause: Clause) -> bool:
    return _powered(clause, Scans, "scan")


def _selects(clause: Clause) -> bool:
    return _powered(clause, Selects, "select")


def _powered(clause: Clause, power: type, method: str) -> bool:
    # Whether an object satisfies a protocol takes 40 µs to say: it is remembered by class.
    return _class_powered(type(clause), power, method)


@functools.lru_cache(maxsize=512)
def _class_powered(kind: type[Clause], power: type, method: str) -> bool:
    """Return whether clauses have a power, and their ``process`` was not made after its method."""
    if not issubclass(kind, power):
        return False
    order = kind.__mro__
    makers = [
        next(at for at, cls in enumerate(order) if name in vars(cls))
        for name in (method, "process")
    ]
    return makers[0] <= makers[1]


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
