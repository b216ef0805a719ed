"""The segments of one source as entities, read when the first unit wants them.

The first stage of a query enters here, from many threads: units are read whole, reduced as they
are stored, or asked which of their rows are needed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.base import Clause
from tessel.clauses.plan import SourcePlan
from tessel.clauses.running.late_reading import (
    ChosenRows,
    choose_rows,
    read_chosen,
    read_joined,
    read_selected,
    read_together,
    read_unit,
    reduce_stored,
    select_rows,
)
from tessel.clauses.running.reduced import ReducedPiece
from tessel.clauses.running.stage import load_piece, piece_of
from tessel.ecs import (
    ColRange,
    Columns,
    ComponentManager,
    FactColumn,
    FetchCount,
    Piece,
    RowRange,
    SegmentKey,
    Statistics,
    Symbol,
    TimeRange,
)
from tessel.errors import TesselError
from tessel.store.manifest.candidate_rows import CandidateRows
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
        self._symbol = symbol
        planned: dict[int, int] = {}
        for unit in source.units:
            for position in unit:
                planned[position] = planned.get(position, 0) + 1
        positions = sorted(planned)
        self._bytes = source.index.bytes
        entities = manager.add(len(positions), self._components(planned, positions))
        self._entities = dict(zip(positions, entities, strict=True))
        # Only an entity that several units want can be asked for by two threads at once.
        self._locks = {p: threading.Lock() for p, count in planned.items() if count > 1}

    def _components(
        self, planned: Mapping[int, int], positions: Sequence[int]
    ) -> dict[type, Sequence[object]]:
        index = self.source.index
        pieces = [index.source(position) for position in positions]
        symbol = Symbol(self._symbol, self.source.view.name)
        slices = index.slice_number[list(positions)]
        columns: dict[type, Sequence[object]] = {
            RowRange: [piece.row_range for piece in pieces],
            ColRange: [piece.col_range for piece in pieces],
            SegmentKey: [piece.key for piece in pieces],
            Symbol: [symbol] * len(pieces),
            Statistics: FactColumn(
                Statistics, view=[index.statistics] * len(pieces), row_slice=slices
            ),
            PieceSource: pieces,
            FetchCount: [FetchCount(planned[p], planned[p]) for p in positions],
        }
        times = [piece.time_range for piece in pieces if piece.time_range is not None]
        return columns | ({TimeRange: times} if len(times) == len(pieces) else {})

    @property
    def are_alone(self) -> bool:
        """Whether no segment is wanted by two units."""
        return not self._locks

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

    def reduced(
        self, positions: Sequence[int], clauses: Sequence[Clause], unit: int
    ) -> tuple[ReducedPiece, int] | None:
        """Return what the first clauses make of units as they are stored; None to read them."""
        entities = [self._entities[position] for position in positions]
        sources, counts = self._manager.get(entities, PieceSource, FetchCount)
        if any(count.planned != 1 for count in counts):
            return None
        found = reduce_stored(
            sources,
            self._segments,
            self.source.index.schema,
            clauses,
            symbol=self._symbol,
            unit=unit,
        )
        if found is not None:
            self._manager.gather(entities)
        return found

    def chosen(
        self, positions: Sequence[int], clauses: Sequence[Clause], unit: int
    ) -> list[ChosenRows] | None:
        """Return which rows of a unit the first clauses need, none of them read; None to read it.

        No other unit wants its segments.
        """
        entities = [self._entities[position] for position in positions]
        (sources,) = self._manager.get(entities, PieceSource)
        found = choose_rows(sources, self._segments, self.source.index.schema, clauses, unit=unit)
        if found is not None:
            self._manager.gather(entities)
        return found

    def selected(
        self, positions: Sequence[int], clauses: Sequence[Clause], unit: int
    ) -> tuple[list[CandidateRows], int] | None:
        """Return what the first clauses leave of a unit, and how many did; None to read it.

        No other unit wants its segments.
        """
        entities = [self._entities[position] for position in positions]
        (sources,) = self._manager.get(entities, PieceSource)
        schema = self.source.index.schema
        found = select_rows(sources, self._segments, schema, clauses, unit=unit)
        if found is not None:
            self._manager.gather(entities)
        return found

    def read_selected(
        self, strips: Sequence[CandidateRows], done: int, clauses: Sequence[Clause]
    ) -> list[Piece]:
        """Return the pieces of what the first ``done`` clauses left."""
        return read_selected(strips, done, clauses, self._symbol)

    def read_chosen(self, chosen: Sequence[ChosenRows]) -> list[Piece]:
        """Return the pieces of rows that were chosen."""
        schema = self.source.index.schema
        if len(chosen) > 1:
            piece = read_together(chosen, self._segments, schema, self._symbol)
            if piece is not None:
                return [piece]
        return [piece for each in chosen for piece in read_chosen(each, schema, self._symbol)]

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

    def pieces(self, unit: int) -> list[Piece]:
        """Return the pieces of a unit that was to be joined with others."""
        entities = [self._entities[position] for position in self.source.units[unit]]
        (sources,) = self._manager.get(entities, PieceSource)
        return [load_piece(source, self._segments, self._symbol) for source in sources]

    def gather(
        self, positions: Sequence[int], clauses: Sequence[Clause], unit: int
    ) -> tuple[list[Piece] | ReducedPiece, int]:
        """Return the pieces of a unit, and how many of the clauses have chosen what was read."""
        if self._locks.keys().isdisjoint(positions):
            return self._read(positions, clauses, unit)
        pieces: list[Piece] = []
        for position in positions:
            with self._locks.get(position, _NO_LOCK):
                pieces += self._gather(position)
        return pieces, 0

    def _gather(self, position: int) -> list[Piece]:
        """Return a piece that other threads may be asking for, read now or before."""
        entity = self._entities[position]
        ((source,), (count,)) = self._manager.get([entity], PieceSource, FetchCount)
        if count.live == count.planned:
            pieces, _ = self._read([position], (), 0)
            assert not isinstance(pieces, ReducedPiece)  # there is no clause to reduce it
            return pieces
        ((columns,),) = self._manager.gather([entity], Columns)
        return [piece_of(source, columns.table, self._symbol, count.planned)]

    def _read(
        self, positions: Sequence[int], clauses: Sequence[Clause], unit: int
    ) -> tuple[list[Piece] | ReducedPiece, int]:
        """Read pieces whose entities no other thread can be asking for now."""
        entities = [self._entities[position] for position in positions]
        sources, counts = self._manager.get(entities, PieceSource, FetchCount)
        pieces, done = read_unit(
            sources,
            [count.planned for count in counts],
            self._segments,
            self.source.index.schema,
            clauses,
            symbol=self._symbol,
            unit=unit,
        )
        # What was reduced is no longer the data of its segments; and what no other unit wants
        # would be let go of at once.
        shared = any(count.planned != 1 for count in counts)
        if shared and not isinstance(pieces, ReducedPiece) and len(pieces) == len(entities):
            self._manager.attach(entities, {Columns: [Columns(piece.table) for piece in pieces]})
        self._manager.gather(entities)
        return pieces, done
