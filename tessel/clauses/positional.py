"""head, tail and row_range keep one range of rows, known from row counts alone; take some rows."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.clauses.base import ClauseInfo, IndexEffect, StreamClause, Structure
from tessel.clauses.registry import register
from tessel.clauses.spill.workspace import workspace_of
from tessel.clauses.units.reduced import unit_of_table
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.manifest.index import SegmentIndex

if TYPE_CHECKING:
    from tessel.clauses.spill.spill_buffer import BufferedUnit


class Positional(StreamClause):
    """A clause that keeps one range of rows by their position.

    First in a query it cuts the index and reads only what it keeps. After clauses that drop rows it
    takes units in order; where ``demand`` is known it stops the stage before as soon as it can.
    """

    structure = ClauseInfo(Structure.ALL, columns=frozenset(), positional=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's schema."""
        return input_schema

    @property
    @abstractmethod
    def ends(self) -> tuple[int | None, int | None]:
        """Where the rows begin that are kept, and where they end, as in a slice of Python."""

    def ranges(self, total: int) -> tuple[int, int]:
        """Return the rows ``[start, stop)`` kept out of ``total``."""
        start, stop, _ = slice(*self.ends).indices(total)
        return start, max(start, stop)

    def demand(self) -> int | None:
        """Return how many leading rows suffice whatever the total; None when all must be seen."""
        start, stop = self.ends
        if (start or 0) < 0 or stop is None or stop < 0:
            return None
        return stop if stop > (start or 0) else 0

    def undecided(self) -> int:
        """Return of how many rows at the end it is open, until the total is known, if they stay.

        Of all rows before them ``ranges`` says with the rows seen so far what it will say in the
        end.
        """
        return max(0, *(-(end or 0) for end in self.ends))

    def cut(self, index: SegmentIndex) -> SegmentIndex:
        """Return the index cut to the rows that are kept."""
        start, stop = self.ranges(index.row_count)
        return index.cut_rows(
            start, stop, clause=self.name, reason=f"position: outside rows {start} to {stop}"
        )

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Cut a stream of units, stopping it once the rows in demand have passed."""
        demand = self.demand()
        if demand is None:
            yield from self._decided(units)
            return
        start, stop = self.ranges(demand)
        yield from cut_units(units, start, stop)

    def _decided(self, units: Iterable[ProcessingUnit]) -> Iterator[ProcessingUnit]:
        """Give rows when it is known that they stay; hold those of which it is not."""
        held: deque[BufferedUnit] = deque()
        first = total = 0
        with workspace_of(units) as workspace, workspace.spill_buffer() as buffer:
            from tessel.clauses.spill.spill_buffer import BufferedUnit

            for unit in units:
                held.append(BufferedUnit(unit, buffer))
                total += unit.num_rows
                start, stop = self.ranges(total)
                while held and first + held[0].rows <= total - self.undecided():
                    done = held.popleft()
                    yield from _cut_aside(done, start - first, stop - first)
                    first += done.rows
            start, stop = self.ranges(total)
            while held:
                done = held.popleft()
                yield from _cut_aside(done, start - first, stop - first)
                first += done.rows


def _cut_aside(aside: BufferedUnit, start: int, stop: int) -> Iterator[ProcessingUnit]:
    """Give the rows ``[start, stop)`` of a unit; what has none of them is not read back."""
    if stop <= 0 or start >= aside.rows:
        aside.drop()
        return
    yield from cut_units([aside.unit()], start, stop)


def check_count(clause: str, count: object) -> None:
    """Refuse what is not a whole number of rows."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise PlanError(f"{clause} takes whole numbers of rows, not {count!r}", clause=clause)


def cut_units(units: Iterable[ProcessingUnit], start: int, stop: int) -> Iterator[ProcessingUnit]:
    """Give the rows ``[start, stop)`` of a stream of units, and stop taking units after them."""
    at = 0
    if stop <= start:
        return
    for unit in units:
        rows = unit.num_rows
        low, high = max(start - at, 0), min(stop - at, rows)
        if low < high:
            yield unit if (low, high) == (0, rows) else unit.slice(low, high - low)
        at += rows
        if at >= stop:
            return


@register
@dataclass(frozen=True)
class Head(Positional):
    """Keep the first ``n`` rows; a negative ``n`` drops that many from the end."""

    name: ClassVar[str] = "head"
    n: int = 5

    def __post_init__(self) -> None:
        check_count(self.name, self.n)

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """From the first row, up to ``n`` of them, or that many from the end."""
        return 0, self.n


@register
@dataclass(frozen=True)
class Tail(Positional):
    """Keep the last ``n`` rows; a negative ``n`` drops that many from the start."""

    name: ClassVar[str] = "tail"
    n: int = 5

    def __post_init__(self) -> None:
        check_count(self.name, self.n)

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """From so many rows before the end on, or behind so many; none of 0."""
        return (-self.n, None) if self.n else (0, 0)


@register
@dataclass(frozen=True)
class RowRange(Positional):
    """Keep the rows ``[start, stop)``; negative positions count from the end, None is the end.

    Ends that are exchanged, both counted from the same end, are refused; equal ones keep nothing.
    """

    name: ClassVar[str] = "row_range"
    start: int | None = None
    stop: int | None = None

    def __post_init__(self) -> None:
        for position in (self.start, self.stop):
            if position is not None:
                check_count(self.name, position)
        start, stop = self.start, self.stop
        if start is not None and stop is not None and start > stop and (start < 0) == (stop < 0):
            raise PlanError.exchanged(self.name, start, stop)

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """As they were given."""
        return self.start, self.stop


@register
@dataclass(frozen=True)
class Take(StreamClause):
    """Keep the rows at some positions, in their order; one may come more than once.

    Attributes
    ----------
    rows
        Positions from 0 on; negative ones count from the end.
    before
        How many rows were cut off before, for errors.
    """

    name: ClassVar[str] = "take"
    rows: tuple[int, ...]
    before: int = 0

    def __post_init__(self) -> None:
        for row in self.rows:
            check_count(self.name, row)

    @property
    def structure(self) -> ClauseInfo:
        """Everything in order in, row slices out; only ascending positions keep the index."""
        ascends = all(a <= b for a, b in zip(self.rows, self.rows[1:], strict=False))
        ascends = ascends and len({row < 0 for row in self.rows}) < 2
        return ClauseInfo(
            Structure.ALL,
            columns=frozenset(),
            keeps_order=ascends,
            positional=True,
            index=IndexEffect.KEEP if ascends else IndexEffect.DROP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns; rows out of order have no time index."""
        kept = self.structure.index is IndexEffect.KEEP
        return input_schema if kept else TableSchema(input_schema.arrow)

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Keep the rows of each unit that may be asked for; order them when all are known."""
        found, numbers, total = [schema.empty()], [np.zeros(0, np.int64)], 0
        from_start = np.array([row for row in self.rows if row >= 0], np.int64)
        from_end = -min(self.rows, default=0)
        for unit in units:
            here = np.arange(total, total + unit.num_rows)
            total += unit.num_rows
            if from_end > 0:  # any row may be among the last: those that no longer can go
                found, numbers = _last(found, numbers, from_start, total, from_end)
                wanted = np.arange(unit.num_rows)
            else:
                wanted = np.flatnonzero(np.isin(here, from_start))
            if len(wanted):
                found.append(unit.take(wanted).table)
                numbers.append(here[wanted])
        asked = np.array([row + total if row < 0 else row for row in self.rows], np.int64)
        for row, position in zip(self.rows, asked.tolist(), strict=True):
            if not 0 <= position < total:
                raise PlanError(
                    f"take: there is no row {row + self.before if row >= 0 else row}",
                    hint=f"the query has {total + self.before:,} rows here"
                    if total
                    else "count() says how many rows the query has",
                    row=row + self.before,
                )
        table = concat_tables(found)
        places = np.searchsorted(np.concatenate(numbers), asked)
        index = self.output_schema(schema).index
        yield unit_of_table(0, 0, table.take(arrow_array(places)), index)


def _last(
    found: list[pa.Table],
    numbers: list[np.ndarray],
    from_start: np.ndarray,
    total: int,
    from_end: int,
) -> tuple[list[pa.Table], list[np.ndarray]]:
    """Return the rows held, less those that neither end asks for any more."""
    tables, kept = found[:1], numbers[:1]
    for table, here in zip(found[1:], numbers[1:], strict=True):
        wanted = (here >= total - from_end) | np.isin(here, from_start)
        if wanted.any():
            tables.append(table.filter(arrow_array(wanted)))
            kept.append(here[wanted])
    return tables, kept
