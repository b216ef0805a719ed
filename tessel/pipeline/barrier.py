"""Pieces of hash buckets on their way to a barrier: those of one bucket are laid down together.

A unit leaves a piece in each bucket. With a hundred buckets such a piece has a few hundred rows;
what is known of it, and the objects around its columns, would take as much memory as the rows, and
a block of a file for each would be read back one by one. So pieces of one bucket are joined, in
plan order, until they are laid down: when no more may be held, or when the last has come.

The barrier between two stages: pieces become entities, and wait for the units that want them.

What a stage leaves is pushed, the next clause groups it by its facts alone, and each new unit
gathers what it was given. Past what a query may hold (see :mod:`tessel.clauses.spill`) the data of
a piece go to a temporary file: its entity then carries a ``SpillBlock`` instead of ``Columns``, and
its facts all the same. Pieces of one hash bucket become one entity, or a few
(:mod:`tessel.pipeline.barrier`); once some of them are in the file, all go there: what
is done with the buckets has need of the room.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tessel.arrays import concat_tables, empty_table
from tessel.clauses.spill.file import SpillBlock, give_back
from tessel.clauses.spill.workspace import WORTH_GIVING_BACK_BYTES, Workspace
from tessel.clauses.structures import UnitFacts
from tessel.closing import Closing
from tessel.ecs import (
    Columns,
    ComponentManager,
    FetchCount,
    Piece,
    ProcessingUnit,
    RowRange,
    TimeRange,
)
from tessel.expression.schema import TableSchema

_PIECES_COMBINED = 16
"""So many small pieces of a bucket become one: each has objects of its own for every column."""

_SMALL_BYTES = 1 << 17


class OpenBuckets:
    """Pieces that are not laid down yet.

    Parameters
    ----------
    most_bytes
        Of a table that is laid down; a bucket that has more becomes several.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = max(1, most_bytes)
        self._schemas: dict[int, pa.Schema] = {}
        self._buckets: dict[tuple[int, int], _OpenBucket] = {}
        self._latest = 0
        self.nbytes = 0
        """Of the pieces that are open."""

    def takes(self, unit: ProcessingUnit) -> bool:
        """Return whether all pieces of a unit are in buckets and look like those before.

        Those of a symbol come together, so that none may follow one of a later symbol.
        """
        symbols = [self._latest, *(piece.symbol for piece in unit.pieces)]
        return len(symbols) > 1 and all(
            before <= piece.symbol
            and piece.bucket is not None
            and piece.table.num_columns > 0
            and self._schemas.setdefault(piece.symbol, piece.table.schema) == piece.table.schema
            for before, piece in zip(symbols, unit.pieces, strict=False)
        )

    def add(self, unit: ProcessingUnit) -> None:
        """Put the pieces of a unit in, which is one that it takes."""
        for piece in unit.pieces:
            assert piece.bucket is not None
            self._latest = piece.symbol
            key = (piece.bucket, piece.symbol)
            bucket = self._buckets.get(key)
            if bucket is None:
                self._buckets[key] = bucket = _OpenBucket(unit.ordinal, piece)
            bucket.add(piece)
        self.nbytes += unit.nbytes

    def laid_down(self) -> Iterator[tuple[UnitFacts, pa.Table]]:
        """Give what is open, bucket by bucket, and hold it no more."""
        buckets, self._buckets, self._latest, self.nbytes = self._buckets, {}, 0, 0
        for key in sorted(buckets):
            yield from buckets.pop(key).tables(self._most)


class _OpenBucket:
    """The pieces of one bucket of one symbol, in plan order."""

    def __init__(self, unit: int, first: Piece) -> None:
        self._unit = unit
        self._first = first.with_table(empty_table(first.table.schema))
        self._rows = first.row_range
        self._times = first.time_range
        self._tables: list[pa.Table] = []
        self._small: list[pa.Table] = []

    def add(self, piece: Piece) -> None:
        rows, times = piece.row_range, piece.time_range
        self._rows = RowRange(min(self._rows.start, rows.start), max(self._rows.end, rows.end))
        if self._times is None or times is None:
            self._times = None
        else:
            self._times = TimeRange(
                min(self._times.first, times.first), max(self._times.last, times.last)
            )
        self._small.append(piece.table)
        if piece.table.nbytes > _SMALL_BYTES or len(self._small) == _PIECES_COMBINED:
            self._combine()

    def tables(self, most: int) -> Iterator[tuple[UnitFacts, pa.Table]]:
        self._combine()
        whole = concat_tables(self._tables)
        rows = max(1, whole.num_rows * most // max(1, whole.nbytes))
        facts = self._first
        for start in range(0, max(1, whole.num_rows), rows):
            table = whole.slice(start, rows)
            yield (
                UnitFacts(
                    self._unit,
                    table.num_rows,
                    self._rows,
                    facts.col_range,
                    self._times,
                    facts.symbol,
                    facts.bucket,
                ),
                table,
            )

    def _combine(self) -> None:
        if self._small:
            self._tables.append(_combined(self._small))
            self._small = []


def _combined(tables: list[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    table = concat_tables(tables)
    # Chunks of codes may have different dictionaries, which not all can be made one.
    if any(_has_codes(field.type) for field in table.schema):
        return table
    return table.combine_chunks()


def _has_codes(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_codes(kind.field(at).type) for at in range(kind.num_fields))


_BLOCKS_IN_BUDGET = 32
"""Tables of a bucket that are laid down are no larger than this part of the budget."""

_LEAST_BLOCK_BYTES = 1 << 16

_OPEN_EIGHTHS = 3
_OPEN_EIGHTHS_IN_FILE = 2
"""What part of the budget is open at most, before something is in the file and from there on.

The rest of what may be held is for those who take the buckets on.
"""


class Barrier(Closing):
    """The pieces between two stages; use as a context manager.

    Parameters
    ----------
    joins_pieces
        Whether pieces of one hash bucket may become one.

    Attributes
    ----------
    facts
        What is known of each piece, in plan order, or bucket by bucket; complete once all pieces
        are. Groups name pieces by their position here.
    """

    def __init__(
        self, manager: ComponentManager, workspace: Workspace, *, joins_pieces: bool
    ) -> None:
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
        most = max(self._account.limit // _BLOCKS_IN_BUDGET, _LEAST_BLOCK_BYTES)
        self._open = OpenBuckets(most)
        self._joins_pieces = joins_pieces
        self._laid_down: set[int] = set()

    def close(self) -> None:
        """Let go of the pieces that nobody took."""
        with self._lock:
            held, self._closed = self._held, True
        self._account.hold(-held)
        self._file.close()

    def push(self, unit: ProcessingUnit) -> None:
        """Put the pieces of a unit down."""
        if not (self._joins_pieces and self._open.takes(unit)):
            self._lay_down(to_file=False)  # to keep the order
            self._put([(_facts(unit, piece), piece.table) for piece in unit.pieces])
            return
        size = unit.nbytes
        eighths = _OPEN_EIGHTHS_IN_FILE if self._in_file else _OPEN_EIGHTHS
        full = self._open.nbytes + size > self._account.limit * eighths // 8
        if full or not self._account.fits(size):
            self._lay_down(to_file=True)
        self._open.add(unit)
        self._count(size)
        if not self._account.fits(0):
            self._lay_down(to_file=True)  # others hold much

    def complete(self) -> None:
        """Say that the last unit has been pushed."""
        self._lay_down(to_file=bool(self._in_file))

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
        pieces: dict[int, Piece] = {}
        for kind in (Columns, SpillBlock):
            chosen = [at for at in group if self._is_in_file(at) == (kind is SpillBlock)]
            members = [self._entities[at] for at in chosen]
            found: tuple[list[Any], ...] = ([], [], [])
            if members:
                found = self._manager.gather(members, UnitFacts, FetchCount, kind)
            for at, facts, count, held in zip(chosen, *found, strict=True):
                is_in_file = isinstance(held, SpillBlock)
                table = self._file.read(held) if is_in_file else held.table
                pieces[at] = _piece(facts, count.planned, table)
        return [pieces[at] for at in group]

    def is_too_much(self, group: Sequence[int]) -> bool:
        """Return whether the pieces of a unit are more than may be held."""
        return sum(self._sizes[position] for position in group) > self._account.held_limit

    def parts(
        self, group: Sequence[int], ordinal: int, schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Give the pieces of a unit in parts, those that one unit before left together.

        From any thread; each part is handed over as it is given. Pieces of hash buckets that were
        joined come one by one.
        """

        def part_of(at: int) -> tuple[int, int]:
            return self.facts[at].unit, at if at in self._laid_down else -1

        for _, positions in itertools.groupby(group, key=part_of):
            part = list(positions)
            pieces = self.gather(part)
            self.hand_over(part)
            yield ProcessingUnit(ordinal, schema, pieces)

    def _lay_down(self, *, to_file: bool) -> None:
        """Make entities of what is open."""
        size = whole = self._open.nbytes
        count = len(self.facts)
        for facts, table in self._open.laid_down():
            self._count(-min(size, table.nbytes))
            size -= min(size, table.nbytes)
            self._put([(facts, table)], to_file=to_file)
        self._count(-size)
        self._laid_down.update(range(count, len(self.facts)))
        if to_file and whole >= WORTH_GIVING_BACK_BYTES:
            give_back()

    def _put(self, pieces: Sequence[tuple[UnitFacts, pa.Table]], *, to_file: bool = False) -> None:
        """Make entities of pieces."""
        components: dict[type, Sequence[object]] = {
            UnitFacts: [facts for facts, _ in pieces],
            FetchCount: [FetchCount(1, 1) for _ in pieces],
        }
        entities = self._manager.add(len(pieces), components)
        data: dict[type, dict[int, object]] = {Columns: {}, SpillBlock: {}}
        for entity, (_, table) in zip(entities, pieces, strict=True):
            held = self._held_or_written(table, to_file=to_file)
            data[type(held)][entity] = held
            self._sizes.append(table.nbytes)
        for kind, found in data.items():
            if found:
                self._manager.attach(list(found), {kind: list(found.values())})
        self._in_file.update(data[SpillBlock])
        self._entities += entities
        self.facts += [facts for facts, _ in pieces]

    def _held_or_written(self, table: pa.Table, *, to_file: bool) -> Columns | SpillBlock:
        size = table.nbytes
        fits = self._account.fits(size) and not to_file
        # A table without columns takes nothing, and Arrow's files would lose its rows.
        if not fits and table.num_columns:
            return self._file.write(table)
        self._count(size)
        return Columns(table)

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
        piece.segments,
        piece.components,
    )


def _piece(facts: UnitFacts, planned: int, table: pa.Table) -> Piece:
    return Piece(
        table,
        facts.row_range,
        facts.col_range,
        facts.time_range,
        facts.symbol,
        facts.bucket,
        planned,
        facts.segments,
        facts.components,
    )
