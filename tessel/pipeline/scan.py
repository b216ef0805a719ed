"""The scan: units of segments run through the first stage of a query, read as far as it needs.

The pipeline enters here. Units are bound, not read: the clauses run on them one after another until
one of them needs values. Where that one reduces many row slices to little, neighbouring units are
given to it as one. Where it has a dynamic filter, all units are narrowed by it before the other
columns are read: what one unit taught it may drop what others had left. The few rows that are then
selected in several units are gathered together, and so are those that filters select. Before all
that, small neighbours are read as one unit, whatever the clauses: opening a small segment costs
more than late materialization saves.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from typing import cast

from tessel import telemetry
from tessel.cached import cached
from tessel.clauses.capabilities import Filters, Proves, has_capability, opens_filter
from tessel.clauses.spill.local_pool import LocalPool, Task
from tessel.clauses.units.bound_unit import BoundUnit, is_bound
from tessel.clauses.units.pieces import is_of_storage
from tessel.ecs import ProcessingUnit
from tessel.errors import CancelledError, TesselError
from tessel.pipeline.packing import (
    FEW_BYTES,
    FEW_ROWS,
    UNITS_TOGETHER,
    SparseRows,
    bytes_together,
    joined_rows,
    joins_slices,
    looked_at,
    may_be_joined,
    packs_of,
    sink_of,
    small_runs,
    with_error,
)
from tessel.pipeline.plan import Stage, is_plugin
from tessel.pipeline.source_loader import SourceLoader
from tessel.pipeline.stage import needs_whole_rows, reduce_bound, run_bound, run_clause, run_stage
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.lazy_columns import SPARSE

_LEAST_ROW_BYTES = 4
"""Rows of fewer bytes, as they are stored, are as much work as others."""

_MOST_WAITING_ROWS = 1 << 20
"""So many rows may wait for other units to be narrowed."""


def scan_units(
    loader: SourceLoader,
    stage: Stage,
    pool: LocalPool,
    live_bytes: int,
    *,
    joins_units: bool,
    wants_all: bool,
) -> Iterator[ProcessingUnit]:
    """Give the units of a source as the first stage leaves them, in plan order.

    Parameters
    ----------
    joins_units
        Whether few selected rows of several units may become one unit.
    wants_all
        Whether nothing is done with the first rows before all are there.
    """
    first = _Scan(loader, stage, bytes_together(live_bytes), UNITS_TOGETHER if wants_all else 1)
    ordinals = range(len(loader.source.units))
    read = loader.source.read
    if not (joins_units and may_be_joined(read, stage)):
        yield from first.units(ordinals, pool, live_bytes, joins_units=False)
        return
    bounds = small_runs(read, live_bytes).tolist()
    runs = itertools.starmap(range, itertools.pairwise(bounds))
    for is_small, group in itertools.groupby(runs, lambda run: len(run) > 1):
        own = list(group)
        if is_small:
            yield from pool.map(map(first.joined, own))
        else:
            section = range(own[0].start, own[-1].stop)
            yield from first.units(section, pool, live_bytes, joins_units=len(section) > 1)


class _Scan:
    """Makes tasks for the pool of the units of a source."""

    def __init__(self, loader: SourceLoader, stage: Stage, most_bytes: int, units: int) -> None:
        self.loader, self.stage = loader, stage
        self.most_bytes, self.most_units = most_bytes, units
        """Of so many bytes, and at first of so many units, rows may be read together."""
        opening = next(filter(opens_filter, stage.clauses), None)
        self.filter = None if opening is None else cast(Filters, opening).open_filter()
        """Of the first clause that has one: behind it there is an exchange."""
        self._bind = len(stage.clauses)
        """So many clauses are known not to read a unit, or not known to do so."""
        proving = (has_capability(clause, Proves, "proves") for clause in stage.clauses)
        self._proves = sum(itertools.takewhile(bool, proving))
        """So many clauses, from the first on, have zone maps prune pages."""

    @cached
    def _share(self) -> float:
        """About so much of the bytes of units is looked at before rows are left out."""
        return looked_at(self.stage.clauses, self.stage.schemas[0].names) or 1

    def units(
        self, ordinals: range, pool: LocalPool, live_bytes: int, *, joins_units: bool
    ) -> Iterator[ProcessingUnit]:
        """Give units that follow one another, read as far as the clauses ask for it."""
        clauses, read, is_far = self.stage.clauses, self.loader.source.read, self.loader.is_far

        def packs() -> list[range]:
            within = slice(ordinals.start, ordinals.stop)
            found = packs_of(
                read.rows[within],
                read.nbytes[within],
                pool.workers,
                live_bytes,
                share=self._share,
                is_far=is_far,
                dynamic=self.filter,
            )
            return [ordinals[pack.start : pack.stop] for pack in found]

        joining, filtering = sink_of(clauses, joins_slices), sink_of(clauses, opens_filter)
        if joining is not None and read.are_alone:
            return self.reduced_units(packs(), pool, joining)
        waits = read.are_alone and self.stage.takes_any_slices
        # Behind one of our own is an exchange, and nobody sees how many units there were.
        if waits and filtering is not None and not is_plugin(type(clauses[filtering])):
            return self.filtered_units(packs(), pool, live_bytes, filtering)
        drops = joins_units and not self.stage.keeps_count
        if drops and not is_far:  # whose rows are not found in one pass
            return self.selected_units(ordinals, pool, is_little=len(packs()) == 1)
        return pool.map(map(self.read, ordinals))

    def read(self, ordinal: int) -> Task[ProcessingUnit]:
        """Return the task of one unit."""

        def run() -> ProcessingUnit:
            with self.loader.naming():
                unit = self.loader.unit(ordinal)
                return run_bound(self.stage, unit, self.filter)

        return Task(run, self._bytes([ordinal]))

    def joined(self, run: range) -> Task[ProcessingUnit]:
        """Return the task of small units, which are read as one."""

        def work() -> ProcessingUnit:
            with self.loader.naming():
                return self.loader.run_joined(run, self.stage)

        return Task(work, self._bytes(run))

    def _bytes(self, ordinals: Iterable[int]) -> int:
        read = self.loader.source.read
        return sum(
            max(int(read.nbytes[each]), int(read.rows[each]) * _LEAST_ROW_BYTES)
            for each in ordinals
        )

    def _bound(self, unit: ProcessingUnit, stop: int, done: int = 0) -> tuple[ProcessingUnit, int]:
        """Run the clauses before one while the unit is not read; say how many have run."""
        while done < stop and is_bound(unit):
            unit = run_clause(self.stage.clauses[done], self.stage.schemas[done + 1], unit)
            done += 1
        return unit, done

    def _bound_together(self, pack: range, stop: int) -> BoundUnit | None:
        """Return the unit of all rows of a pack behind the clauses before one; None to read them.

        The first unit shows whether one of these clauses needs values.
        """
        if self._bind < stop:
            return None
        first, done = self._bound(self.loader.units(pack[:1]), stop)
        if not is_bound(first):
            self._bind = min(self._bind, max(0, done - 1))
            return None
        if len(pack) == 1:
            return first
        others, _ = self._bound(self.loader.units(pack[1:]), stop)
        return first.joined([others]) if is_bound(others) else None

    def _rest(self, unit: ProcessingUnit, done: int = 0) -> ProcessingUnit:
        return run_stage(self.stage.after(done), unit)

    # --- rows that are reduced --------------------------------------------------------------------

    def reduced_units(
        self, packs: list[range], pool: LocalPool, at: int
    ) -> Iterator[ProcessingUnit]:
        """Give packs of units, each reduced to one; those that cannot be say so at once.

        These run together, in their places.
        """
        left: list[int] = []
        for pack, unit in zip(packs, pool.map(self._reduced(p, at) for p in packs), strict=True):
            if unit is None:
                left += pack
                continue
            if left:
                yield from pool.map(map(self.read, left))
                left = []
            yield unit
        yield from pool.map(map(self.read, left))

    def _reduced(self, pack: range, at: int) -> Task[ProcessingUnit | None]:
        if len(pack) == 1:
            return Task(self.read(pack.start).run, self._bytes(pack))

        def run() -> ProcessingUnit | None:
            with self.loader.naming():
                try:
                    unit = self._bound_together(pack, at)
                    clause, promised = self.stage.clauses[at], self.stage.schemas[at + 1]
                    found = None if unit is None else reduce_bound(clause, promised, unit)
                    return None if found is None else self._rest(found, at + 1)
                except CancelledError:
                    raise
                except TesselError:
                    return None  # read one by one, the first row that fails says so

        return Task(run, self._bytes(pack))

    # --- rows that are selected -------------------------------------------------------------------

    def selected_units(
        self, ordinals: range, pool: LocalPool, *, is_little: bool
    ) -> Iterator[ProcessingUnit]:
        """Give units; few selected rows of several of them are read together.

        To select rows is little work, or is done by tasks, each of which goes on with its unit.
        """
        if is_little:
            found = (self._selecting(each).run() for each in ordinals)
            left = joined_rows(found, self.most_units, self.most_bytes)
            yield from pool.map(map(self._reading, left))
            return
        units = pool.map(map(self._selected, ordinals))
        for unit in joined_rows(units, self.most_units, self.most_bytes):
            yield from pool.map([self._reading(unit)]) if isinstance(unit, SparseRows) else (unit,)

    def _selected(self, ordinal: int) -> Task[ProcessingUnit | SparseRows]:
        """Return the task of one unit: to select its rows, and to read them unless they are few."""
        selecting = self._selecting(ordinal)

        def run() -> ProcessingUnit | SparseRows:
            found = selecting.run()
            return found if isinstance(found, SparseRows) else found.run()

        return Task(run, selecting.bytes)

    def _selecting(self, ordinal: int) -> Task[SparseRows | Task[ProcessingUnit]]:
        """Return the task to select rows of a unit, whose first predicates are bound by now.

        So it is known which pages zone maps leave: the task is not larger than these.
        """
        try:
            with self.loader.naming():
                whole = self.loader.unit(ordinal)
                pruned, proved = self._bound(whole, min(self._bind, self._proves))
        except TesselError:
            failing = self.read(ordinal)  # in its turn
            return Task(lambda: failing, failing.bytes)
        share = pruned.rows_unpruned / max(1, pruned.rows_spanned) if is_bound(pruned) else 1
        size = int(self._bytes([ordinal]) * share)

        def read(unit: ProcessingUnit, done: int) -> ProcessingUnit:
            with self.loader.naming():
                try:
                    return self._rest(unit, done)
                except TesselError as error:
                    if not needs_whole_rows(whole, error):
                        raise
                return self._rest(whole.read_whole())

        def run() -> SparseRows | Task[ProcessingUnit]:
            unit, done = pruned, proved
            with self.loader.naming(), contextlib.suppress(TesselError):
                unit, done = self._bound(pruned, self._bind, proved)
                if is_bound(unit):
                    sparse = self._sparse(unit, done)
                    if sparse is not None:
                        return sparse
                else:
                    self._bind = min(self._bind, max(0, done - 1))
            # What failed fails again, and then it says where.
            return Task(lambda: read(unit, done), size)

        return Task(run, size)

    def _sparse(self, unit: BoundUnit, done: int) -> SparseRows | None:
        """Return the rows of a unit that pass its conjuncts, where these are few."""
        left = unit.rows_left()
        if left is None or any(len(rows) > FEW_ROWS for rows in left):
            return None
        # Rows that are read together have text decoded, no loss where they are few of the unit's.
        most = unit.rows_spanned // SPARSE if unit.has_codes else unit.rows_spanned - 1
        if sum(map(len, left)) > most:
            return None
        batches = [b.keep(rows.places()) for b, rows in zip(unit.batches, left, strict=True)]
        sparse = self._sparse_of(unit.ordinal, done, batches)
        return sparse if sparse.bytes <= FEW_BYTES else None

    def _sparse_of(self, ordinal: int, done: int, batches: Iterable[Batch]) -> SparseRows:
        whole = max(1, int(self.loader.source.read.rows[ordinal]))
        return SparseRows([ordinal], done, batches, self._bytes([ordinal]) / whole)

    # --- rows that a dynamic filter leaves --------------------------------------------------------

    def filtered_units(
        self, packs: list[range], pool: LocalPool, most_bytes: int, at: int
    ) -> Iterator[ProcessingUnit]:
        """Give what a dynamic filter leaves of units, once as many as may wait are narrowed."""
        waiting: list[SparseRows | Task[ProcessingUnit]] = []
        rows = size = 0
        for found in with_error(pool.map(self._narrowing(pack, at) for pack in packs)):
            if isinstance(found, TesselError):
                yield from pool.map(self._left(waiting))
                raise found
            waiting += found
            sparse = [each for each in found if isinstance(each, SparseRows)]
            rows += sum(each.rows for each in sparse)
            size += sum(each.bytes for each in sparse)
            if rows > _MOST_WAITING_ROWS or size > most_bytes:
                yield from pool.map(self._left(waiting))
                waiting, rows, size = [], 0, 0
        yield from pool.map(self._left(waiting))

    def _narrowing(self, pack: range, at: int) -> Task[list[SparseRows | Task[ProcessingUnit]]]:
        def run() -> list[SparseRows | Task[ProcessingUnit]]:
            found: list[SparseRows | None] = []
            with self.loader.naming():
                try:
                    found.extend(self._narrowed(pack, at))
                except CancelledError:
                    raise
                except TesselError:
                    pass  # they are read, and the first row that fails says so
            each = itertools.zip_longest(pack, found)
            return [sparse or self.read(ordinal) for ordinal, sparse in each]

        return Task(run, int(self._bytes(pack) * self._share))

    def _narrowed(self, pack: range, at: int) -> Iterator[SparseRows | None]:
        """Give the rows that a dynamic filter leaves of units; None for one that must be read."""
        assert self.filter is not None
        unit = self._bound_together(pack, at)
        if unit is None or len(unit.batches) > len(pack):  # somebody gave a unit several row ranges
            return
        name = self.stage.clauses[at].name
        left = self.filter.narrow(unit.batches, pack)
        for ordinal, batch in zip(pack, unit.batches, strict=True):
            with telemetry.span("clause.choose", clause=name, unit=ordinal) as facts:
                facts.update(rows_in=int(self.loader.source.read.rows[ordinal]), stored=False)
                narrowed, sparse = next(left), None
                if narrowed is not None:
                    sparse = self._sparse_of(ordinal, at + 1, [narrowed])
                    forms = batch.source.take_forms()
                    stored = not any(form in ("values", "dictionary") for form in forms.values())
                    facts.update(rows_out=sparse.rows, stored=stored, columns=forms)
            yield sparse
        next(left, None)  # what it does behind the last

    def _left(
        self, waiting: list[SparseRows | Task[ProcessingUnit]]
    ) -> Iterator[Task[ProcessingUnit]]:
        """Return tasks that read the rows left; one task gathers few rows of several units."""
        assert self.filter is not None
        needed = (
            each.narrowed(self.filter) if isinstance(each, SparseRows) else each for each in waiting
        )
        found = joined_rows(needed, len(waiting), self.most_bytes)
        return map(self._reading, found)

    def _reading(self, sparse: SparseRows | Task[ProcessingUnit]) -> Task[ProcessingUnit]:
        if not isinstance(sparse, SparseRows):
            return sparse

        def run() -> ProcessingUnit:
            with self.loader.naming():
                try:
                    unit = self.loader.read_selected(sparse.batches, sparse.ordinals[0])
                    return self._rest(unit, sparse.done)
                except CancelledError:
                    raise
                except TesselError as error:
                    # Of units that are read whole, one by one, the first row that fails raises.
                    for ordinal in () if is_of_storage(error) else sparse.ordinals:
                        self._rest(self.loader.whole(ordinal))
                    raise

        return Task(run, sparse.bytes)
