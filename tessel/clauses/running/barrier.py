"""The barrier between two stages: pieces become entities, and wait for the units that want them.

What a stage leaves is pushed, the next clause groups it by its facts alone, and each new unit
gathers what it was given. Past what a query may hold (see :mod:`tessel.clauses.spill`) the data of
a piece go to a temporary file: its entity then carries a ``SpillBlock`` instead of ``Columns``, and
its facts all the same.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from tessel.clauses.spill import SpillBlock, Workspace
from tessel.clauses.structures import UnitFacts
from tessel.ecs import (
    Bucket,
    ColRange,
    Columns,
    ComponentManager,
    FetchCount,
    Piece,
    ProcessingUnit,
    RowRange,
)
from tessel.expression.schema import TableSchema

__all__ = ["Barrier"]


class Barrier:
    """The pieces between two stages; use as a context manager.

    Attributes
    ----------
    facts
        What is known of each piece, in plan order; groups name pieces by their position here.
    """

    def __init__(self, manager: ComponentManager, workspace: Workspace) -> None:
        self.facts: list[UnitFacts] = []
        self._manager = manager
        self._account = workspace.account
        self._file = workspace.file()
        self._entities: list[int] = []
        self._sizes: list[int] = []
        self._in_file: set[int] = set()
        self._held = 0
        self._closed = False
        self._lock = threading.Lock()
        self._fetches: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            held, self._closed = self._held, True
        self._account.hold(-held)
        self._file.close()

    def push(self, unit: ProcessingUnit) -> None:
        """Put the pieces of a unit down."""
        pieces = unit.pieces
        components: dict[type, Sequence[object]] = {
            RowRange: [piece.row_range for piece in pieces],
            ColRange: [piece.col_range for piece in pieces],
            FetchCount: [FetchCount(1, 1) for _ in pieces],
        }
        buckets = [Bucket(piece.bucket) for piece in pieces if piece.bucket is not None]
        if len(buckets) == len(pieces):
            components[Bucket] = buckets
        entities = self._manager.add(len(pieces), components)
        data: dict[type, dict[int, object]] = {Columns: {}, SpillBlock: {}}
        for entity, piece in zip(entities, pieces, strict=True):
            held = self._put(piece)
            data[type(held)][entity] = held
            self._sizes.append(piece.table.nbytes)
        for kind, found in data.items():
            if found:
                self._manager.attach(list(found), {kind: list(found.values())})
        self._in_file.update(data[SpillBlock])
        self._entities += entities
        self.facts += [_facts(unit, piece) for piece in pieces]

    @property
    def nbytes(self) -> int:
        """The bytes of all pieces."""
        return sum(self._sizes)

    def expect(self, groups: Sequence[Sequence[int]]) -> None:
        """Plan how often each piece will be fetched: once for every group that it is in."""
        self._fetches = [0] * len(self._entities)
        for group in groups:
            for position in group:
                self._fetches[position] += 1
        self._manager.set_fetch_counts(self._entities, self._fetches)
        self._let_go(at for at, count in enumerate(self._fetches) if not count)

    def hand_over(self, group: Sequence[int]) -> int:
        """Return the bytes of a unit, which who runs it accounts for from now on."""
        with self._lock:
            for position in group:
                self._fetches[position] -= 1
            done = [position for position in group if not self._fetches[position]]
        self._let_go(done)
        return sum(self._sizes[position] for position in group)

    def gather(self, group: Sequence[int]) -> list[Piece]:
        """Return the pieces of a unit; from any thread."""
        data: dict[int, tuple[int, Columns]] = {}
        for kind in (Columns, SpillBlock):
            chosen = [at for at in group if self._is_in_file(at) == (kind is SpillBlock)]
            members = [self._entities[at] for at in chosen]
            found: tuple[list[Any], ...] = ([], [])
            if members:
                found = self._manager.gather(members, FetchCount, kind)
            for at, count, held in zip(chosen, *found, strict=True):
                if isinstance(held, SpillBlock):
                    held = Columns(self._file.read(held))
                data[at] = (count.planned, held)
        return [_piece(self.facts[at], *data[at]) for at in group]

    def is_too_much(self, group: Sequence[int]) -> bool:
        """Return whether the pieces of a unit are more than may be held."""
        return sum(self._sizes[position] for position in group) > self._account.held_limit

    def parts(
        self, group: Sequence[int], ordinal: int, schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Give the pieces of a unit in parts, those that one unit before left together.

        From any thread; each part is handed over as it is given.
        """
        for _, positions in itertools.groupby(group, key=lambda at: self.facts[at].unit):
            part = list(positions)
            pieces = self.gather(part)
            self.hand_over(part)
            yield ProcessingUnit(ordinal, schema, pieces)

    def _put(self, piece: Piece) -> Columns | SpillBlock:
        size = piece.table.nbytes
        fits = self._account.fits(size)
        # A table without columns takes nothing, and Arrow's files would lose its rows.
        if not fits and piece.table.num_columns:
            return self._file.write(piece.table)
        self._count(size)
        return Columns(piece.table)

    def _let_go(self, positions: Iterable[int]) -> None:
        self._count(-sum(self._sizes[at] for at in positions if not self._is_in_file(at)))

    def _is_in_file(self, position: int) -> bool:
        return self._entities[position] in self._in_file

    def _count(self, size: int) -> None:
        with self._lock:
            if self._closed:
                return  # a unit that had begun when the query was given up
            self._held += size
        self._account.hold(size)


def _facts(unit: ProcessingUnit, piece: Piece) -> UnitFacts:
    return UnitFacts(
        unit.ordinal,
        piece.table.num_rows,
        piece.row_range,
        piece.col_range,
        piece.time_range,
        piece.symbol,
        piece.bucket,
    )


def _piece(facts: UnitFacts, planned: int, held: Columns) -> Piece:
    return Piece(
        held.table,
        facts.row_range,
        facts.col_range,
        facts.time_range,
        facts.symbol,
        facts.bucket,
        planned,
    )
