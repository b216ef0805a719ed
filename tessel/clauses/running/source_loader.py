"""The segments of one source as entities, read when the first unit wants them.

The first stage of a query enters here, from many threads. A unit whose segments no other unit wants
is given unread, and reads what its clauses ask for.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.plan import SourcePlan
from tessel.clauses.running.bound_unit import BoundUnit, bound_unit
from tessel.clauses.running.late_materialization import ChosenRows, read_joined, read_together
from tessel.clauses.running.pieces import load_piece, piece_of
from tessel.ecs import Columns, ComponentManager, FetchCount, Piece, ProcessingUnit
from tessel.errors import TesselError
from tessel.store.manifest.bindings import Bindings
from tessel.store.manifest.piece import PieceSource

__all__ = ["SourceLoader"]

_NO_LOCK = contextlib.nullcontext()


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
        self._segments = source.view.source()
        self._bindings = source.bindings or Bindings(source.index.schema)
        self._symbol = symbol
        planned = source.planned_fetches()
        self._bytes = source.index.bytes
        components: dict[type, Sequence[object]] = {
            PieceSource: list(map(source.index.source, planned)),
            FetchCount: [FetchCount(count, count) for count in planned.values()],
        }
        self._entities = dict(zip(planned, manager.add(len(planned), components), strict=True))
        # Only an entity that several units want can be asked for by two threads at once.
        self._locks = {p: threading.Lock() for p, count in planned.items() if count > 1}

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

    def bytes(self, positions: Sequence[int]) -> int:
        """Return the estimated bytes of a unit."""
        return int(self._bytes[list(positions)].sum())

    def rows(self, positions: Sequence[int]) -> int:
        """Return how many rows a unit of one row range has."""
        index = self.source.index
        return int(index.row_end[positions[0]] - index.row_start[positions[0]])

    def sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows and the stored bytes of each unit, int64, shape ``(units,)``."""
        index, units = self.source.index, self.source.units
        first = [unit[0] for unit in units]
        bytes_of = np.fromiter((self._bytes[unit].sum() for unit in units), np.int64, len(units))
        return index.row_end[first] - index.row_start[first], bytes_of

    def row_bytes(self) -> int:
        """Return the fewest bytes of a row in memory, where text and lists are not counted."""
        types = self.source.index.schema.arrow.types
        bits: int = sum(type_.bit_width for type_ in types if pa.types.is_primitive(type_))
        return bits // 8

    def follow(self) -> NDArray[np.bool_]:
        """Return which units begin where the one before ends; shape ``(units,)``."""
        index = self.source.index
        first = [unit[0] for unit in self.source.units]
        starts, ends = index.row_start[first], index.row_end[first]
        return np.concatenate([[False], starts[1:] == ends[:-1]])

    def unit(self, ordinal: int) -> ProcessingUnit:
        """Return a unit: not read yet, where no other unit wants its segments."""
        positions = self.source.units[ordinal]
        schema = self.source.index.schema
        if positions and self._locks.keys().isdisjoint(positions):
            entities = [self._entities[position] for position in positions]
            (sources,) = self._manager.get(entities, PieceSource)
            return bound_unit(sources, self._segments, self._bindings, ordinal, self._symbol)
        pieces: list[Piece] = []
        for position in positions:
            with self._locks.get(position, _NO_LOCK):
                pieces.append(self._gather(position))
        return ProcessingUnit(ordinal, schema, pieces)

    def read_chosen(self, chosen: Sequence[ChosenRows], ordinal: int) -> ProcessingUnit:
        """Return the unit of rows that were chosen, few of several batches in one pass."""
        batch = chosen[0].batch
        if len(chosen) > 1 and batch.bindings.keeps_names:
            piece = read_together(chosen, self._segments, self._symbol)
            if piece is not None:
                unit = ProcessingUnit(ordinal, batch.source.schema, [piece])
                return unit.select(batch.schema.names)
        batches = [each.selected() for each in chosen]
        return BoundUnit(ordinal, batch.schema, batches, self._symbol)

    def joined(self, units: range) -> list[Piece] | None:
        """Return small units as the pieces of one; None to read them one by one.

        No other unit wants their segments.
        """
        own = [self.source.units[unit] for unit in units]
        entities = [self._entities[position] for unit in own for position in unit]
        (sources,) = self._manager.gather(entities, PieceSource)
        left = iter(sources)
        pieces = [[next(left) for _ in unit] for unit in own]
        return read_joined(pieces, self._segments, self._symbol)

    def whole(self, ordinal: int) -> ProcessingUnit:
        """Return a unit that was to be read with others, or of few rows, with all of its rows."""
        entities = [self._entities[position] for position in self.source.units[ordinal]]
        sources, counts = self._manager.get(entities, PieceSource, FetchCount)
        pieces = [
            load_piece(source, self._segments, self._symbol, count.planned)
            for source, count in zip(sources, counts, strict=True)
        ]
        return ProcessingUnit(ordinal, self.source.index.schema, pieces)

    def _gather(self, position: int) -> Piece:
        """Return a piece that other threads may be asking for, read now or before."""
        entity = self._entities[position]
        ((source,), (count,)) = self._manager.get([entity], PieceSource, FetchCount)
        if count.live == count.planned:
            piece = load_piece(source, self._segments, self._symbol, count.planned)
            if count.planned != 1:
                self._manager.attach([entity], {Columns: [Columns(piece.table)]})
            self._manager.gather([entity])
            return piece
        ((columns,),) = self._manager.gather([entity], Columns)
        return piece_of(source, columns.table, self._symbol, count.planned)
