"""The segments of one source as entities, read when the first unit wants them.

The first stage of a query enters here, from many threads. A unit whose segments no other unit wants
is given unread, and reads what its clauses ask for.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from tessel.clauses.units.bound_unit import BoundUnit, bound_unit
from tessel.clauses.units.pieces import load_piece, piece_of
from tessel.ecs import Columns, ComponentManager, FetchCount, Piece, ProcessingUnit
from tessel.errors import TesselError
from tessel.pipeline.late_materialization import read_joined, read_together
from tessel.pipeline.plan import SourcePlan
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.piece import PieceSource

__all__ = ["SourceLoader"]


class SourceLoader:
    """The entities of one source.

    Parameters
    ----------
    manager
        Where the entities are made.
    source
        The segments, and which of them each unit has.
    symbol
        Ordinal of the input, in a query over several symbols.
    """

    def __init__(self, manager: ComponentManager, source: SourcePlan, symbol: int) -> None:
        self._manager = manager
        self.source = source
        self._read = read = source.read
        self._segments = source.view.source()
        self._symbol = symbol
        planned = read.fetches
        components: dict[type, Sequence[object]] = {
            PieceSource: list(map(read.index.source, planned)),
            FetchCount: [FetchCount(count, count) for count in planned.values()],
        }
        self._entities = dict(zip(planned, manager.add(len(planned), components), strict=True))
        # Only an entity that several units want can be asked for by two threads at once.
        self._locks = {position: threading.Lock() for position, n in planned.items() if n > 1}

    @property
    def are_alone(self) -> bool:
        """Whether no segment is wanted by two units."""
        return not self._locks

    @property
    def is_far(self) -> bool:
        """Whether units wait for a store that is far."""
        return self._segments.is_far

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Let errors name the symbol that is read."""
        try:
            yield
        except TesselError as error:
            view = self.source.view
            error.with_context(symbol=f"{view.name!r} (version {view.version})")
            raise

    def unit(self, ordinal: int) -> ProcessingUnit:
        """Return a unit: not read yet, where no other unit wants its segments."""
        positions = self._read.units[ordinal]
        if positions and self._locks.keys().isdisjoint(positions):
            sources, bindings = self._sources(positions), self._read.bindings
            return bound_unit(sources, self._segments, bindings, ordinal, self._symbol)
        return ProcessingUnit(ordinal, self._read.index.schema, map(self._gather, positions))

    def read_selected(self, batches: Sequence[Batch], ordinal: int) -> ProcessingUnit:
        """Return the unit of the rows that are left of batches, few of several in one pass."""
        first = batches[0]
        if len(batches) > 1 and first.bindings.keeps_names:
            pieces = read_together(batches, self._segments, self._symbol)
            unit = ProcessingUnit(ordinal, first.source.schema, pieces)
            return unit.select(first.schema.names)
        return BoundUnit(ordinal, first.schema, batches, self._symbol)

    def joined(self, units: range) -> list[Piece] | None:
        """Return small units as the pieces of one; None to read them one by one.

        No other unit wants their segments.
        """
        pieces = [self._sources(self._read.units[unit]) for unit in units]
        return read_joined(pieces, self._segments, self._symbol)

    def whole(self, ordinal: int) -> ProcessingUnit:
        """Return a unit that was to be read with others, or of few rows, with all of its rows."""
        positions = self._read.units[ordinal]
        pieces = [
            load_piece(source, self._segments.load, self._symbol, self._read.fetches[position])
            for position, source in zip(positions, self._sources(positions), strict=True)
        ]
        return ProcessingUnit(ordinal, self._read.index.schema, pieces)

    def _sources(self, positions: Sequence[int]) -> Sequence[PieceSource]:
        """Return where segments lie, each given by its position in the index."""
        entities = [self._entities[position] for position in positions]
        (sources,) = self._manager.get(entities, PieceSource)
        return sources

    def _gather(self, position: int) -> Piece:
        """Return a piece that other threads may be asking for, read now or before."""
        (source,) = self._sources([position])
        if position not in self._locks:
            return load_piece(source, self._segments.load, self._symbol)
        entity, planned = self._entities[position], self._read.fetches[position]
        with self._locks[position]:
            ((count,),) = self._manager.get([entity], FetchCount)
            if count.live < planned:
                ((columns,),) = self._manager.gather([entity], Columns)
                return piece_of(source, columns.table, self._symbol, planned)
            piece = load_piece(source, self._segments.load, self._symbol, planned)
            self._manager.attach([entity], {Columns: [Columns(piece.table)]})
            self._manager.gather([entity])
            return piece
