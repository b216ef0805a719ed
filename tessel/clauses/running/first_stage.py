"""The first stage of a query: units of segments, read in the way that their clauses allow.

The pipeline enters here. Where a clause reduces rows as they are stored, neighbouring units make
one task. Where one chooses rows as they are stored, all units choose before the rest of a row is
read: what one found may rule out what others chose before, and the little that is left is read
together. All other units are read one by one, each in a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tessel.clauses.plan import Stage
from tessel.clauses.running.late_reading import (
    ChosenRows,
    chooses,
    done_by_choosing,
    settle_rows,
)
from tessel.clauses.running.local_pool import LocalPool, Task
from tessel.clauses.running.packing import joins_slices, packs_of
from tessel.clauses.running.source_loader import SourceLoader
from tessel.clauses.running.stage import run_clauses
from tessel.ecs import ProcessingUnit

__all__ = ["loaded_units"]

_ROWS_TOGETHER = 1 << 14
"""So many chosen rows of several units are read in one task, and are one unit."""

_ROWS_WAITING = 1 << 20
"""So many chosen rows may wait for others to choose."""


def loaded_units(
    loader: SourceLoader, stage: Stage, pool: LocalPool, live_bytes: int
) -> Iterator[ProcessingUnit]:
    """Give the units of a source as the first stage leaves them, in plan order.

    Parameters
    ----------
    loader
        Reads the units.
    stage
        What is run on them; for this run (see ``begun_stage``).
    pool
        Where.
    live_bytes
        The byte budget of the query.
    """
    first = _FirstStage(loader, stage)
    ordinals = range(len(loader.source.units))
    if joins_slices(stage.clauses):
        return first.reduced_units(packs_of(*loader.sizes(), pool.workers, live_bytes), pool)
    if len(ordinals) > 1 and loader.are_alone and chooses(stage.clauses):
        packs = packs_of(*loader.sizes(), pool.workers, live_bytes)
        return first.chosen_units(packs, pool, live_bytes)
    return pool.map(map(first.read, ordinals))


@dataclass(slots=True, eq=False)
class _Waiting:
    """A unit that chose rows; None where it must be read."""

    ordinal: int
    chosen: list[ChosenRows] | None
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _FirstStage:
    """What makes tasks of units."""

    loader: SourceLoader
    stage: Stage

    def read(self, ordinal: int) -> Task[ProcessingUnit]:
        """Return the task of one unit."""
        positions = self.loader.source.units[ordinal]

        def run() -> ProcessingUnit:
            stage = self.stage
            with self.loader.naming():
                pieces, done = self.loader.gather(positions, stage.clauses, ordinal)
                unit = ProcessingUnit(ordinal, stage.schemas[done], pieces)
                return run_clauses(stage.clauses[done:], stage.schemas[done:], unit)

        return Task(run, self.loader.bytes(positions))

    # --- rows that are reduced --------------------------------------------------------------------

    def reduced_units(self, packs: list[range], pool: LocalPool) -> Iterator[ProcessingUnit]:
        """Give packs of units, each reduced to one; those that need values say so at once.

        These run together, in their places.
        """
        left: list[int] = []
        for pack, unit in zip(packs, pool.map(map(self._reduced, packs)), strict=True):
            if unit is None:
                left += pack
                continue
            if left:
                yield from pool.map(map(self.read, left))
                left = []
            yield unit
        yield from pool.map(map(self.read, left))

    def _reduced(self, pack: range) -> Task[ProcessingUnit | None]:
        if len(pack) == 1:
            alone = self.read(pack.start)
            return Task(alone.run, alone.bytes)
        units = self.loader.source.units
        positions = [position for unit in pack for position in units[unit]]

        def run() -> ProcessingUnit | None:
            stage = self.stage
            with self.loader.naming():
                found = self.loader.reduced(positions, stage.clauses, pack.start)
                if found is None:
                    return None
                piece, done = found
                unit = ProcessingUnit(pack.start, stage.schemas[done], [piece])
                return run_clauses(stage.clauses[done:], stage.schemas[done:], unit)

        return Task(run, self.loader.bytes(positions))

    # --- rows that are chosen ---------------------------------------------------------------------

    def chosen_units(
        self, packs: list[range], pool: LocalPool, most_bytes: int
    ) -> Iterator[ProcessingUnit]:
        """Give what is left of units that choose rows, once as many as may wait have chosen.

        Bytes are counted as they are stored, of which those that wait hold a part at the most.
        """
        waiting: list[_Waiting] = []
        rows = size = 0
        for found in pool.map(map(self._choosing, packs)):
            waiting += found
            rows += sum(each.rows for each in found)
            size += sum(each.bytes for each in found)
            if rows > _ROWS_WAITING or size > most_bytes:
                yield from pool.map(self._left(waiting))
                waiting, rows, size = [], 0, 0
        yield from pool.map(self._left(waiting))

    def _choosing(self, pack: range) -> Task[list[_Waiting]]:
        loader, clauses = self.loader, self.stage.clauses
        units = loader.source.units

        def run() -> list[_Waiting]:
            found: list[_Waiting] = []
            with loader.naming():
                for ordinal in pack:
                    chosen = loader.chosen(units[ordinal], clauses, ordinal)
                    if chosen is None:
                        found.append(_Waiting(ordinal, None, 0, 0))
                    elif rows := sum(map(len, chosen)):
                        size = loader.bytes(units[ordinal])
                        found.append(_Waiting(ordinal, chosen, rows, size))
            return found

        return Task(run, loader.bytes([position for unit in pack for position in units[unit]]))

    def _left(self, waiting: list[_Waiting]) -> Iterator[Task[ProcessingUnit]]:
        """Give the tasks of units that have chosen, few rows of several units together."""
        together: list[ChosenRows] = []
        begin = size = 0
        for each in waiting:
            if each.chosen is None:
                if together:
                    yield self._reading(begin, together, size)
                    together, size = [], 0
                yield self.read(each.ordinal)
                continue
            settle_rows(self.stage.clauses, each.chosen)
            rows = sum(map(len, each.chosen))
            if not rows:
                continue
            if together and sum(map(len, together)) + rows > _ROWS_TOGETHER:
                yield self._reading(begin, together, size)
                together, size = [], 0
            if not together:
                begin = each.ordinal
            together = together + each.chosen
            total = sum(len(chosen.rows) for chosen in each.chosen)
            size += each.bytes * rows // total
        if together:
            yield self._reading(begin, together, size)

    def _reading(self, ordinal: int, chosen: list[ChosenRows], size: int) -> Task[ProcessingUnit]:
        done = done_by_choosing(self.stage.clauses)

        def run() -> ProcessingUnit:
            stage = self.stage
            with self.loader.naming():
                unit = ProcessingUnit(ordinal, stage.schemas[done], self.loader.read_chosen(chosen))
                return run_clauses(stage.clauses[done:], stage.schemas[done:], unit)

        return Task(run, size)
