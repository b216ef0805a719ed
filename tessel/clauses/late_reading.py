"""Reading a unit: the first clauses choose rows from some columns, the rest is read for those.

Executors enter here with the segments of a unit. Where no clause at the front selects, or a segment
is shared between units, everything is read and all clauses are left to run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tessel import telemetry
from tessel.clauses.base import Clause, Selects
from tessel.clauses.stage import failed_clause, load_piece, piece_of
from tessel.ecs import Piece
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.store import CandidateRows, PieceSource, SegmentSource

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
    selecting = list(itertools.takewhile(_selects, clauses))
    if not selecting or not sources or any(count != 1 for count in planned):
        loaded = [
            load_piece(source, segments, symbol, count)
            for source, count in zip(sources, planned, strict=True)
        ]
        return loaded, 0
    strips = [
        CandidateRows(segments, list(strip), schema)
        for _, strip in itertools.groupby(sources, lambda s: (s.row_start, s.row_stop))
    ]
    done = 0
    for clause in selecting:
        if not _select(clause, strips, unit):
            break
        done += 1
    pieces = [_read(strip, source, symbol) for strip in strips for source in strip.pieces]
    return pieces, done


def _read(strip: CandidateRows, source: PieceSource, symbol: int) -> Piece:
    with telemetry.span("segment.read", object=source.key.object) as facts:
        try:
            table = strip.read(source)
        except TesselError as error:
            _place(error)
            raise
        facts.update(rows=table.num_rows, bytes=table.nbytes)
    return piece_of(source, table, symbol, 1)


def _selects(clause: Clause) -> bool:
    """Return whether a clause selects, and its ``process`` is not one made after its ``select``."""
    if not isinstance(clause, Selects):
        return False
    order = type(clause).__mro__
    makers = [
        next(at for at, cls in enumerate(order) if method in vars(cls))
        for method in ("select", "process")
    ]
    return makers[0] <= makers[1]


def _select(clause: Clause, strips: Sequence[CandidateRows], unit: int) -> bool:
    assert isinstance(clause, Selects)
    with telemetry.span("clause.process", clause=clause.name, unit=unit) as facts:
        rows = sum(len(strip) for strip in strips)
        try:
            answers = [clause.select(strip) for strip in strips if len(strip)]
        except TesselError as error:
            if "object" not in error.attributes:
                error.with_context(clause=clause.describe())
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
