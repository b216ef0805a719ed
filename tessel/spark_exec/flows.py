"""Where the data of a query is between two stages of a Spark job.

A :class:`NarrowFlow` is a list of units that nothing has been run for: they are read and processed
in one stage of tasks, and a part of them can be run alone, which is what limits need. A
:class:`FrameFlow` is a DataFrame whose wire rows a shuffle has brought together, and what is to run
on them. A :class:`DriverFlow` is units in this process.

Every stage that needs no barrier is added to what will run, so that one task does it all.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from tessel.clauses.base import Clause
from tessel.clauses.capabilities import Combines
from tessel.ecs import ProcessingUnit
from tessel.lazy import dataclass
from tessel.options import current
from tessel.pipeline.packing import may_be_joined, small_runs
from tessel.pipeline.plan import SourcePlan, Stage
from tessel.spark_exec.chains import (
    CARRY,
    CUT,
    NOTHING_GIVEN,
    RENUMBER,
    RUN,
    SUMMARY,
    Given,
    How,
    Places,
    ReduceStep,
    Step,
    chain_text,
)
from tessel.spark_exec.unit_columns import Integers, UnitColumns, told
from tessel.spark_exec.wire import WireRow, sequences

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Carries: TypeAlias = "list[WireRow] | DataFrame"
"""Wire rows of what lies around units: in this process where they are few, else in tasks."""

_LEAST_UNIT_BYTES = 4096
"""Every unit costs something, so that units of few bytes are spread over tasks as well."""


@dataclass(frozen=True, eq=False)
class Track:
    """What the units of one symbol have in common.

    Attributes
    ----------
    units
        The units, in plan order.
    source
        Where they are read from.
    planned
        In how many units each segment of the index is wanted.
    chain
        The first stage, as JSON; its errors name the symbol. None where there is a barrier first.
    steps
        What runs after it.
    """

    units: UnitColumns
    source: SourcePlan
    planned: Integers
    chain: str | None
    steps: tuple[Step, ...] = ()

    def to_json(self, address: str) -> dict[str, Any]:
        """Return what workers need to know of it."""
        view = self.source.view
        return {
            "address": address,
            "store": view.store_id,
            "shown": f"{view.name!r} (version {view.version})",
            "schema": json.dumps(self.source.index.full_schema.to_json()),
            "column_ids": json.dumps(dict(view.column_ids)),
            "read_schema": json.dumps(self.source.schema.to_json()),
            "chain": self.chain,
            "steps": self.steps,
        }


@dataclass(frozen=True, eq=False)
class NarrowFlow:
    """Units that one stage of tasks can produce.

    Attributes
    ----------
    tracks
        One a symbol, with its units; the units of one come before those of the next.
    chains
        JSON of the chains that the tracks' steps number.
    address
        Where the store is: JSON of ``address_of``.
    barriers
        How many shuffles lie before.
    given
        Tables that clauses of the chains are given.
    combined
        The chain, as JSON, of a clause that combines the units of a task, and of what runs on these
        then; None where they stay.
    carries
        Wire rows of what is carried to units, by the number of the chain that it is carried for.
    """

    tracks: tuple[Track, ...]
    chains: tuple[str, ...]
    address: str
    barriers: ClassVar[int] = 0
    given: Given = NOTHING_GIVEN
    combined: str | None = None
    carries: Mapping[int, Carries] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_source(
        cls, source: SourcePlan, first: Stage | None, address: str, *, joins_units: bool
    ) -> NarrowFlow:
        """Return the units of a symbol, with its first stage unless that is None.

        Small units that follow one another are one where ``joins_units``, as on threads.
        """
        count = len(source.units)
        read, runs = source.read, np.arange(count + 1)
        if joins_units and may_be_joined(read, first or Stage((), (source.schema,))):
            runs = small_runs(read, current().live_bytes)
        starts, positions = read.starts[runs], read.positions
        stored = np.append(0, np.cumsum(source.index.bytes[positions]))
        places = np.stack([np.zeros(len(runs) - 1, np.int64), runs[:-1]], axis=1)
        units = UnitColumns(starts, positions, np.diff(stored[starts]), np.diff(runs), (places,))
        planned = np.bincount(positions, minlength=len(source.index))
        chain = chain_text(first) if first is not None and first.clauses else None
        return cls((Track(units, source, planned, chain),), (), address)

    @property
    def count(self) -> int:
        """How many units there are."""
        return sum(len(track.units) for track in self.tracks)

    @property
    def seqs(self) -> Integers:
        """The ``seq`` of each unit, in plan order."""
        return np.concatenate([track.units.seqs for track in self.tracks])

    @property
    def total_bytes(self) -> int:
        """Estimated bytes to read."""
        return sum(int(track.units.bytes.sum()) for track in self.tracks)

    def then(self, stage: Stage, given: Given | None = None) -> NarrowFlow:
        """Return the flow with a stage run on every unit, whose clauses are given some tables."""
        if not stage.clauses:
            return self
        return self._with_stage(RUN, stage, given)

    def summarised(self, stage: Stage) -> NarrowFlow:
        """Return the flow of the summaries of its units, for a stage that carries."""
        return self._with_stage(SUMMARY, stage)

    def carried(self, stage: Stage, carries: Carries) -> NarrowFlow:
        """Return the flow, with a stage that carries, of units that wire rows bring theirs to."""
        more = {**self.carries, len(self.chains): carries}
        return dataclasses.replace(self._with_stage(CARRY, stage), carries=more)

    def carried_units(self, chain: int) -> tuple[Integers, Integers]:
        """Return which units a chain carries to, and the ``seq`` that they have then."""
        positions, seqs = [], []
        start = 0
        for track in self.tracks:
            stop = start + len(track.units)
            if (CARRY, chain) in track.steps:
                before = track.steps[: track.steps.index((CARRY, chain))]
                places = track.units.places[before.count((RENUMBER,))]
                positions.append(np.arange(start, stop))
                seqs.append(sequences(*places.T))
            start = stop
        return np.concatenate(positions), np.concatenate(seqs)

    def placed(self, places: Places) -> NarrowFlow:
        """Give the units that have one the symbol and the number that they have from here on."""

        def placed(units: UnitColumns) -> UnitColumns:
            known, at = units.of_seqs(places.seqs)
            symbols = np.full(len(at), places.symbol)
            return known.placed(np.stack([symbols, places.first + at], axis=1))

        flow = self._with_units(placed)
        return dataclasses.replace(flow, tracks=flow._with_step((RENUMBER,)))

    def cut(self, cuts: Mapping[int, tuple[int, int]]) -> NarrowFlow:
        """Keep the units whose ``seq`` is in ``cuts``, each cut to its rows ``[start, stop)``."""
        rows = np.array(list(cuts.values()), np.int64).reshape(-1, 2)

        def cut(units: UnitColumns) -> UnitColumns:
            known, at = units.of_seqs(cuts)
            return dataclasses.replace(known, cuts=(*known.cuts, rows[at]))

        flow = self._with_units(cut)
        return dataclasses.replace(flow, tracks=flow._with_step((CUT,)))

    def between(self, start: int, stop: int) -> NarrowFlow:
        """Return the flow of its units ``[start, stop)``."""
        tracks = []
        for track in self.tracks:
            units = track.units.take(slice(max(start, 0), max(stop, 0)))
            tracks.append(dataclasses.replace(track, units=units))
            start, stop = start - len(track.units), stop - len(track.units)
        return dataclasses.replace(self, tracks=tuple(tracks))

    def for_merging(self, stage: Stage, parted: Clause | None = None) -> NarrowFlow:
        """Return the flow for a stage that merges all units: a task combines its own, if it can.

        ``parted`` splits what it has combined.
        """
        clause, given = stage.clauses[0], stage.schemas[0]
        if not isinstance(clause, Combines):
            return self
        chain = Stage((clause,), (given, given))
        if parted is not None:
            chain = Stage((clause, parted), (given, given, parted.output_schema(given)))
        return dataclasses.replace(self, combined=chain_text(chain))

    @staticmethod
    def side_by_side(flows: Sequence[NarrowFlow]) -> NarrowFlow:
        """Return the units of several flows, one flow after another, numbered anew."""
        tracks: list[Track] = []
        chains: list[str] = []
        carries: dict[int, Carries] = {}
        number = 0
        for symbol, flow in enumerate(flows):
            for each in flow.tracks:
                count = len(each.units)
                numbers = np.arange(number, number + count)
                places = np.stack([np.full(count, symbol), numbers], axis=1)
                number += count
                moved: list[Step] = [
                    (step[0], step[1] + len(chains)) if len(step) == 2 else step
                    for step in each.steps
                ]
                steps, units = (*moved, (RENUMBER,)), each.units.placed(places)
                tracks.append(dataclasses.replace(each, units=units, steps=steps))
            carries |= {chain + len(chains): rows for chain, rows in flow.carries.items()}
            chains += flow.chains
        given = functools.reduce(Given.__or__, (flow.given for flow in flows))
        address = flows[0].address
        return NarrowFlow(tuple(tracks), tuple(chains), address, given, carries=carries)

    def runs(self, count: int) -> list[tuple[int, int]]:
        """Return at most ``count`` runs ``[start, stop)`` of units, of about as many bytes each.

        Units of a task follow one another: what it makes of them may be put together.
        """
        sizes = np.concatenate([track.units.bytes for track in self.tracks]) + _LEAST_UNIT_BYTES
        ends = np.cumsum(sizes)
        if not len(ends):
            return []
        numbers = ((ends - sizes / 2) * (count / ends[-1])).astype(np.int64)
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(ends)]
        return list(itertools.pairwise(bounds))

    def head(self) -> str:
        """Return what is told to every worker, as JSON."""
        tracks = [track.to_json(self.address) for track in self.tracks]
        return json.dumps({"tracks": tracks, "chains": self.chains}, separators=(",", ":"))

    def described(self, runs: Iterable[tuple[int, int]]) -> list[bytes]:
        """Return what the tasks of some runs of units are told of them."""
        return [
            told(
                (number, track.source.index, track.planned, track.units)
                for number, track in enumerate(self.between(*run).tracks)
            )
            for run in runs
        ]

    def _with_stage(self, how: How, stage: Stage, given: Given | None = None) -> NarrowFlow:
        return dataclasses.replace(
            self,
            tracks=self._with_step((how, len(self.chains))),
            chains=(*self.chains, chain_text(stage, given)),
            given=self.given | (given or NOTHING_GIVEN),
        )

    def _with_units(self, change: Callable[[UnitColumns], UnitColumns]) -> NarrowFlow:
        tracks = [dataclasses.replace(each, units=change(each.units)) for each in self.tracks]
        return dataclasses.replace(self, tracks=tuple(tracks))

    def _with_step(self, step: Step) -> tuple[Track, ...]:
        return tuple(
            dataclasses.replace(track, steps=(*track.steps, step)) for track in self.tracks
        )


@dataclass(frozen=True, eq=False)
class FrameFlow:
    """Wire rows in a DataFrame, the parts of each unit together, and what is to run on the units.

    Attributes
    ----------
    frame
        Wire rows; ``bucket`` is the number of the unit.
    steps
        What runs on each unit.
    partitions
        Of the frame.
    everything
        Whether all parts are of one unit, which is there also where no part is.
    barriers
        How many shuffles lie before: an error from before one stands before those after it.
    given
        Tables that clauses of the steps are given.
    """

    frame: DataFrame
    steps: tuple[ReduceStep, ...] = ()
    partitions: int = 1
    everything: bool = False
    barriers: int = 1
    given: Given = NOTHING_GIVEN

    def then(self, stage: Stage, given: Given | None = None) -> FrameFlow:
        """Return the flow with a stage run on every unit, whose clauses are given some tables."""
        if not stage.clauses:
            return self
        flow = self._with_step((RUN, chain_text(stage, given)))
        return dataclasses.replace(flow, given=self.given | (given or NOTHING_GIVEN))

    def summarised(self, stage: Stage) -> FrameFlow:
        """Return the flow of the summaries of its units, for a stage that carries."""
        return self._with_step((SUMMARY, chain_text(stage)))

    def carried(self, stage: Stage) -> FrameFlow:
        """Return the flow, with a stage that carries, of units that wire rows bring theirs to."""
        return self._with_step((CARRY, chain_text(stage)))

    def placed(self, places: Places) -> FrameFlow:
        """Give the units that have one the symbol and the number that they have from here on."""
        return self._with_step(places)

    def cut(self, cuts: Mapping[int, tuple[int, int]]) -> FrameFlow:
        """Keep the units whose ``seq`` is in ``cuts``, each cut to its rows ``[start, stop)``."""
        return self._with_step(dict(cuts))

    def for_merging(self, stage: Stage) -> FrameFlow:
        """Return the flow: a task has units of all places, which are merged in their order."""
        return self

    def combined(self, stage: Stage) -> FrameFlow:
        """Return the flow, the parts of each unit combined by the first clause of a stage."""
        return self._with_step(("combine", chain_text(stage)))

    def _with_step(self, step: ReduceStep) -> FrameFlow:
        return dataclasses.replace(self, steps=(*self.steps, step))


@dataclass(frozen=True, eq=False)
class UnionFlow:
    """Units of several flows, those of one after those of another; ``seq`` tells all apart.

    Attributes
    ----------
    parts
        The flows, in order, without errors before their last barriers; what is run is run on each.
    """

    parts: tuple[NarrowFlow | FrameFlow, ...]

    @property
    def barriers(self) -> int:
        """How many shuffles lie before; errors of all parts count as from behind them."""
        return max(part.barriers for part in self.parts)

    def then(self, stage: Stage, given: Given | None = None) -> UnionFlow:
        """Return the flow with a stage run on every unit, whose clauses are given some tables."""
        return UnionFlow(tuple(part.then(stage, given) for part in self.parts))

    def summarised(self, stage: Stage) -> UnionFlow:
        """Return the flow of the summaries of its units, for a stage that carries."""
        return UnionFlow(tuple(part.summarised(stage) for part in self.parts))

    def placed(self, places: Places) -> UnionFlow:
        """Give the units that have one the symbol and the number that they have from here on."""
        return UnionFlow(tuple(part.placed(places) for part in self.parts))

    def cut(self, cuts: Mapping[int, tuple[int, int]]) -> UnionFlow:
        """Keep the units whose ``seq`` is in ``cuts``, each cut to its rows ``[start, stop)``."""
        return UnionFlow(tuple(part.cut(cuts) for part in self.parts))

    def for_merging(self, stage: Stage) -> UnionFlow:
        """Return the flow for a stage that merges all units; a task may combine its own."""
        return UnionFlow(tuple(part.for_merging(stage) for part in self.parts))


@dataclass(frozen=True, eq=False)
class DriverFlow:
    """Units in this process, in plan order."""

    units: Iterator[ProcessingUnit]


TaskFlow = NarrowFlow | FrameFlow | UnionFlow
"""Units that tasks make."""
Flow = TaskFlow | DriverFlow
