"""The first stage of a query: units of segments, read in the way that their clauses allow.

The pipeline enters here. Where a clause reduces rows as they are stored, neighbouring units make
one task. Where one chooses rows as they are stored, all units choose before the rest of a row is
read: what one found may rule out what others chose before, and the little that is left is read
together. Where the first clauses drop rows, so are units of which few are left. All other units are
read one by one, each in a task. Before all that, small neighbours are read as one unit, whatever
the clauses: opening a small segment costs more than what is saved of its rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tessel.clauses.base import Structure
from tessel.clauses.plan import Stage
from tessel.clauses.running.late_reading import (
    ChosenRows,
    chooses,
    coded_after,
    done_by_choosing,
    selects,
    settle_rows,
)
from tessel.clauses.running.local_pool import LocalPool, Task
from tessel.clauses.running.packing import (
    FEW_BYTES,
    FEW_ROWS,
    ROWS_TOGETHER,
    bytes_together,
    joins_slices,
    packs_of,
    small_runs,
)
from tessel.clauses.running.reduced import unit_of
from tessel.clauses.running.source_loader import SourceLoader
from tessel.clauses.running.stage import run_clauses
from tessel.ecs import Piece, ProcessingUnit
from tessel.errors import CancelledError, TesselError
from tessel.store.manifest.candidate_rows import CandidateRows

__all__ = ["loaded_units"]

Other = TypeVar("Other")

_UNITS_TOGETHER = 1 << 6

_ROWS_WAITING = 1 << 20
"""So many chosen rows may wait for others to choose."""


def loaded_units(
    loader: SourceLoader, stage: Stage, pool: LocalPool, live_bytes: int, *, joins_units: bool
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
    joins_units
        Whether few rows left of several units may be one unit.
    """
    first = _FirstStage(loader, stage, bytes_together(live_bytes))
    ordinals = range(len(loader.source.units))
    may_join = joins_units and _takes_any_slices(stage) and len(ordinals) > 1 and loader.are_alone
    if not may_join:
        yield from first.units(ordinals, pool, live_bytes, joins_units=False)
        return
    runs = small_runs(*loader.sizes(), loader.follow(), loader.row_bytes(), live_bytes)
    for is_small, group in itertools.groupby(runs, lambda run: len(run) > 1):
        own = list(group)
        if is_small:
            yield from pool.map(map(first.joined, own))
        else:
            section = range(own[0].start, own[-1].stop)
            yield from first.units(section, pool, live_bytes, joins_units=len(section) > 1)


def _takes_any_slices(stage: Stage) -> bool:
    """Return whether units may be joined: units of time, also where a filter is before, may not."""
    return all(clause.structure.input is Structure.ROW_SLICE for clause in stage.clauses)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A unit that chose rows; None where it must be read."""

    ordinal: int
    chosen: list[ChosenRows] | None


class _Few:
    """Some rows of a unit, or of several that follow one another, none of which are read yet.

    Parameters
    ----------
    ordinal
        Of the first unit.
    done
        How many of the clauses they have been through.
    chosen
        By row range.
    whole_bytes, whole_rows
        Of the unit, of which the rows are a part.
    """

    __slots__ = ("bytes", "chosen", "done", "ordinal", "rows")

    def __init__(
        self, ordinal: int, done: int, chosen: list[ChosenRows], whole_bytes: int, whole_rows: int
    ) -> None:
        self.ordinal = ordinal
        self.done = done
        self.chosen = [each for each in chosen if len(each)]
        self.rows = sum(map(len, self.chosen))
        self.bytes = whole_bytes * self.rows // max(1, whole_rows)

    def takes(self, other: _Few, most_bytes: int) -> bool:
        """Return whether the rows of another are read together with these."""
        return (
            self.done == other.done
            and self.rows + other.rows <= ROWS_TOGETHER
            and self.bytes + other.bytes <= most_bytes
        )

    def with_more(self, other: _Few) -> _Few:
        """Return the rows of both, as those of the first unit."""
        rows = self.rows + other.rows
        chosen = [*self.chosen, *other.chosen]
        return _Few(self.ordinal, self.done, chosen, self.bytes + other.bytes, rows)


@dataclass(frozen=True, slots=True)
class _FirstStage:
    """What makes tasks of units."""

    loader: SourceLoader
    stage: Stage
    most_bytes: int

    def units(
        self, ordinals: range, pool: LocalPool, live_bytes: int, *, joins_units: bool
    ) -> Iterator[ProcessingUnit]:
        """Give units that follow one another, read in the way that the clauses allow."""
        clauses = self.stage.clauses

        def packs() -> list[range]:
            held = slice(ordinals.start, ordinals.stop)
            rows, nbytes = (each[held] for each in self.loader.sizes())
            found = packs_of(rows, nbytes, pool.workers, live_bytes)
            return [ordinals[pack.start : pack.stop] for pack in found]

        if joins_slices(clauses):
            return self.reduced_units(packs(), pool)
        if joins_units and chooses(clauses):
            return self.chosen_units(packs(), pool, live_bytes)
        if joins_units and selects(clauses):
            return self.selected_units(ordinals, pool)
        return pool.map(map(self.read, ordinals))

    def read(self, ordinal: int) -> Task[ProcessingUnit]:
        """Return the task of one unit."""
        positions = self.loader.source.units[ordinal]

        def run() -> ProcessingUnit:
            stage = self.stage
            with self.loader.naming():
                found, done = self.loader.gather(positions, stage.clauses, ordinal)
                unit = unit_of(ordinal, stage.schemas[done], found)
                return run_clauses(stage.clauses[done:], stage.schemas[done:], unit)

        return Task(run, self.loader.bytes(positions))

    def joined(self, run: range) -> Task[ProcessingUnit]:
        """Return the task of small units, which are read as one.

        Where that fails they are read and processed one by one, and the first of them that fails
        says which rows of which segment it has.
        """
        stage, loader = self.stage, self.loader

        def processed(pieces: list[Piece]) -> ProcessingUnit:
            unit = ProcessingUnit(run.start, stage.schemas[0], pieces)
            return run_clauses(stage.clauses, stage.schemas, unit)

        def work() -> ProcessingUnit:
            with loader.naming():
                pieces = loader.joined(run)
                if pieces is None:
                    return processed([piece for unit in run for piece in loader.pieces(unit)])
                try:
                    return processed(pieces)
                except CancelledError:
                    raise
                except TesselError:
                    for unit in run:
                        processed(loader.pieces(unit))
                    raise

        positions = [position for unit in run for position in loader.source.units[unit]]
        return Task(work, loader.bytes(positions))

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
                unit = piece.unit(pack.start, stage.schemas[done])
                return run_clauses(stage.clauses[done:], stage.schemas[done:], unit)

        return Task(run, self.loader.bytes(positions))

    # --- rows that are selected -------------------------------------------------------------------

    def selected_units(self, ordinals: range, pool: LocalPool) -> Iterator[ProcessingUnit]:
        """Give units whose first clauses drop rows, those with few rows left together."""
        for found in _joined(
            pool.map(map(self._selecting, ordinals)), most_units=1, most_bytes=self.most_bytes
        ):
            if isinstance(found, _Few):
                yield from pool.map([self._reading(found)])
            else:
                yield found

    def _selecting(self, ordinal: int) -> Task[ProcessingUnit | _Few]:
        loader, stage = self.loader, self.stage
        positions = loader.source.units[ordinal]
        whole = self.read(ordinal)

        def run() -> ProcessingUnit | _Few:
            with loader.naming():
                selected = loader.selected(positions, stage.clauses, ordinal)
                if selected is None:
                    return whole.run()
                strips, done = selected
                chosen = [ChosenRows(strip, strip.places()) for strip in strips if _is_few(strip)]
                few = _Few(ordinal, done, chosen, whole.bytes, loader.rows(positions))
                # Text that the next clause takes as codes is read by segment, as codes.
                codes = few.rows and coded_after(stage.clauses, done)
                if len(chosen) == len(strips) and few.bytes <= FEW_BYTES and not codes:
                    return few
                pieces = loader.read_selected(strips, done, stage.clauses)
                unit = ProcessingUnit(ordinal, stage.schemas[done], pieces)
                return run_clauses(stage.clauses[done:], stage.schemas[done:], unit)

        return Task(run, whole.bytes)

    # --- rows that are chosen ---------------------------------------------------------------------

    def chosen_units(
        self, packs: list[range], pool: LocalPool, most_bytes: int
    ) -> Iterator[ProcessingUnit]:
        """Give what is left of units that choose rows, once as many as may wait have chosen.

        Bytes are counted as they are stored, of which those that wait hold a part at the most.
        """
        waiting: list[_Waiting] = []
        rows = size = 0
        for found in _with_error(pool.map(map(self._choosing, packs))):
            if isinstance(found, TesselError):
                yield from pool.map(self._left(waiting))
                raise found
            waiting += found
            for each in found:
                if each.chosen:
                    rows += sum(map(len, each.chosen))
                    size += self.loader.bytes(self.loader.source.units[each.ordinal])
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
                    if chosen is None or any(map(len, chosen)):
                        found.append(_Waiting(ordinal, chosen))
            return found

        return Task(run, loader.bytes([position for unit in pack for position in units[unit]]))

    def _left(self, waiting: list[_Waiting]) -> Iterator[Task[ProcessingUnit]]:
        """Give the tasks of units that have chosen, few rows of several units together."""
        for found in _joined(
            self._settled(waiting), most_units=len(waiting), most_bytes=self.most_bytes
        ):
            yield self._reading(found) if isinstance(found, _Few) else found

    def _settled(self, waiting: list[_Waiting]) -> Iterator[_Few | Task[ProcessingUnit]]:
        done = done_by_choosing(self.stage.clauses)
        for each in waiting:
            if each.chosen is None:
                yield self.read(each.ordinal)
                continue
            settle_rows(self.stage.clauses, each.chosen)
            positions = self.loader.source.units[each.ordinal]
            size = self.loader.bytes(positions)
            yield _Few(each.ordinal, done, each.chosen, size, self.loader.rows(positions))

    def _reading(self, few: _Few) -> Task[ProcessingUnit]:
        def run() -> ProcessingUnit:
            with self.loader.naming():
                try:
                    return processed(self.loader.read_chosen(few.chosen))
                except TesselError:
                    # It names rows of several segments; read one by one, the one that fails.
                    for each in few.chosen:
                        processed(self.loader.read_chosen([each]))
                    raise

        def processed(pieces: list[Piece]) -> ProcessingUnit:
            unit = ProcessingUnit(few.ordinal, stage.schemas[done], pieces)
            return run_clauses(stage.clauses[done:], stage.schemas[done:], unit)

        stage, done = self.stage, few.done
        return Task(run, few.bytes)


def _joined(
    found: Iterable[_Few | Other], most_units: int, most_bytes: int
) -> Iterator[_Few | Other]:
    """Give few rows of neighbouring units as those of one, all else in its place.

    Each time of twice as many units as before, from ``most_units`` on: so no one waits long for the
    first rows, and who has enough of them has not caused much more to be read.
    """
    held: _Few | None = None
    units = 0
    for each in _with_error(found):
        few = each if isinstance(each, _Few) else None
        if few is not None and not few.rows:
            continue
        if held is not None and (
            few is None or units == most_units or not held.takes(few, most_bytes)
        ):
            yield held
            held = None
            most_units = max(most_units, min(2 * most_units, _UNITS_TOGETHER))
        if isinstance(each, TesselError):
            raise each
        if few is None:
            yield each
        else:
            units = 1 if held is None else units + 1
            held = few if held is None else held.with_more(few)
    if held is not None:
        yield held


def _with_error(found: Iterable[Other]) -> Iterator[Other | TesselError]:
    """Give what there is, and then the error that ends it: what came before may fail earlier."""
    try:
        yield from found
    except TesselError as error:
        yield error


def _is_few(rows: CandidateRows) -> bool:
    return len(rows) <= FEW_ROWS
