"""Where the data of a query is between two stages of a Spark job.

A :class:`NarrowFlow` is a list of units that nothing has been run for: they are read and processed
in one stage of tasks, and a part of them can be run alone, which is what limits need. A
:class:`FrameFlow` is a DataFrame whose wire rows a shuffle has brought together, and what is to run
on them. A :class:`DriverFlow` is units in this process.

Every stage that needs no barrier is added to what will run, so that one task does it all.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import heapq
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tessel.clauses.base import Clause
from tessel.ecs import ProcessingUnit
from tessel.ecs.components import RowRange
from tessel.lazy import dataclass
from tessel.pipeline.carrying import Between
from tessel.pipeline.plan import SourcePlan, Stage
from tessel.spark_exec.blobs import PartFacts, encode
from tessel.spark_exec.chains import (
    CARRY,
    CUT,
    NOTHING_GIVEN,
    RENUMBER,
    SUMMARY,
    CarriedStep,
    Chain,
    Given,
    PlaceStep,
    ReduceStep,
    Step,
    SummaryStep,
    chain_to_json,
)
from tessel.spark_exec.wire import sequence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "DriverFlow",
    "Flow",
    "FrameFlow",
    "NarrowFlow",
    "Place",
    "TaskFlow",
    "Track",
    "UnionFlow",
    "UnitTask",
    "barriers_of",
]

Place = tuple[int, int]
"""Symbol and ordinal of a unit: its place in plan order."""

_LEAST_UNIT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class UnitTask:
    """One unit that a worker will read and process.

    Attributes
    ----------
    track
        Number of its track in the flow.
    positions
        Its segments in the index of the source.
    bytes
        Estimated bytes to read.
    places
        Its place when it is read, then after each renumbering.
    cuts
        Its rows ``[start, stop)`` that each cut keeps, in order.
    carries
        What each stage that carries is to know of the units around, in order: blobs in base64.
    """

    track: int
    positions: tuple[int, ...]
    bytes: int
    places: tuple[Place, ...]
    cuts: tuple[tuple[int, int], ...] = ()
    carries: tuple[tuple[str, str], ...] = ()

    @property
    def seq(self) -> int:
        """Its ``seq`` on the wire."""
        return sequence(*self.places[-1])


@dataclass(frozen=True, eq=False)
class Track:
    """What the units of one symbol have in common.

    Attributes
    ----------
    source
        Where they are read from.
    planned
        For positions in the index that several units want, how many.
    chain
        The first stage, as JSON; its errors name the symbol. None where there is a barrier first.
    steps
        What runs after it.
    """

    source: SourcePlan
    planned: Mapping[int, int]
    chain: str | None
    steps: tuple[Step, ...] = ()

    def to_json(self, address: str) -> dict[str, Any]:
        """Return what workers need to know of it."""
        view = self.source.view
        return {
            "address": address,
            "shown": f"{view.name!r} (version {view.version})",
            "schema": json.dumps(view.schema.to_json()),
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
    units
        In plan order.
    tracks
        One a symbol; units refer to them by number.
    chains
        JSON of the chains that the tracks' steps number.
    address
        Where the store is: JSON of ``address_of``.
    given
        Tables that clauses of the chains are given.
    """

    units: tuple[UnitTask, ...]
    tracks: tuple[Track, ...]
    chains: tuple[str, ...]
    address: str
    given: Given = NOTHING_GIVEN

    @classmethod
    def from_source(cls, source: SourcePlan, first: Stage | None, address: str) -> NarrowFlow:
        """Return the units of a symbol as planned, with its first stage unless that is None."""
        fetches = source.read.fetches.items()
        planned = {position: count for position, count in fetches if count > 1}
        sizes = source.index.bytes.tolist()
        units = tuple(
            UnitTask(0, tuple(unit), sum(sizes[p] for p in unit), ((0, ordinal),))
            for ordinal, unit in enumerate(source.units)
        )
        chain = chain_text(first) if first is not None and first.clauses else None
        return cls(units, (Track(source, planned, chain),), (), address)

    @property
    def total_bytes(self) -> int:
        """Estimated bytes to read."""
        return sum(unit.bytes for unit in self.units)

    def then(self, stage: Stage, given: Given | None = None) -> NarrowFlow:
        """Return the flow with a stage run on every unit, whose clauses are given some tables."""
        if not stage.clauses:
            return self
        return self._with_stage(stage, (), given)

    def summarised(self, stage: Stage) -> NarrowFlow:
        """Return the flow of the summaries of its units, for a stage that carries."""
        return self._with_stage(stage, (SUMMARY,))

    def carried(self, stage: Stage, betweens: Mapping[int, Between]) -> NarrowFlow:
        """Return the flow, with a stage that carries, of the units whose surroundings are known."""
        units = [
            dataclasses.replace(unit, carries=(*unit.carries, _as_text(betweens[unit.seq])))
            for unit in self.units
            if unit.seq in betweens
        ]
        return self.only(units)._with_stage(stage, (CARRY,))

    def placed(self, places: Mapping[int, Place]) -> NarrowFlow:
        """Give the units, by ``seq``, the symbol and the number that they have from here on."""
        units = tuple(
            dataclasses.replace(unit, places=(*unit.places, places[unit.seq]))
            for unit in self.units
            if unit.seq in places
        )
        return dataclasses.replace(self, units=units, tracks=self._with_step(RENUMBER))

    def cut(self, cuts: Mapping[int, tuple[int, int]]) -> NarrowFlow:
        """Keep the units whose ``seq`` is in ``cuts``, each cut to its rows ``[start, stop)``."""
        units = tuple(
            dataclasses.replace(unit, cuts=(*unit.cuts, cuts[unit.seq]))
            for unit in self.units
            if unit.seq in cuts
        )
        return dataclasses.replace(self, units=units, tracks=self._with_step(CUT))

    def only(self, units: Sequence[UnitTask]) -> NarrowFlow:
        """Return the flow of some of its units."""
        return dataclasses.replace(self, units=tuple(units))

    @staticmethod
    def side_by_side(flows: Sequence[NarrowFlow]) -> NarrowFlow:
        """Return the units of several flows, one flow after another, numbered anew."""
        units: list[UnitTask] = []
        tracks: list[Track] = []
        chains: list[str] = []
        for symbol, flow in enumerate(flows):
            for unit in flow.units:
                places = (*unit.places, (symbol, len(units)))
                track = unit.track + len(tracks)
                units.append(dataclasses.replace(unit, track=track, places=places))
            for each in flow.tracks:
                moved = [
                    step + len(chains) if isinstance(step, int) else step for step in each.steps
                ]
                tracks.append(dataclasses.replace(each, steps=(*moved, RENUMBER)))
            chains += flow.chains
        given = functools.reduce(Given.__or__, (flow.given for flow in flows))
        return NarrowFlow(tuple(units), tuple(tracks), tuple(chains), flows[0].address, given)

    def packed(self, tasks: int) -> list[list[UnitTask]]:
        """Return the units spread over at most ``tasks`` partitions by bytes, largest first."""
        loads = [(0, number) for number in range(min(tasks, len(self.units)))]
        partitions: list[list[UnitTask]] = [[] for _ in loads]
        numbered = sorted(enumerate(self.units), key=lambda pair: (-pair[1].bytes, pair[0]))
        places: list[list[int]] = [[] for _ in loads]
        for position, unit in numbered:
            load, number = heapq.heappop(loads)
            places[number].append(position)
            # Every unit costs something, so that units of few bytes are spread as well.
            heapq.heappush(loads, (load + unit.bytes + _LEAST_UNIT_BYTES, number))
        for partition, positions in zip(partitions, places, strict=True):
            partition += [self.units[position] for position in sorted(positions)]
        return partitions

    def head(self) -> str:
        """Return what is told to every worker, as JSON."""
        tracks = [track.to_json(self.address) for track in self.tracks]
        return json.dumps({"tracks": tracks, "chains": self.chains}, separators=(",", ":"))

    def described(self, units: Sequence[UnitTask]) -> bytes:
        """Return what is told of some units to the one task that runs them.

        A task reads its own units only, and packed: of 100,000 units each would otherwise read
        tens of megabytes.
        """
        plain = [
            {
                "track": unit.track,
                "places": unit.places,
                "cuts": unit.cuts,
                "carries": unit.carries,
                "pieces": [
                    self.tracks[unit.track].source.index.source(position).to_json()
                    for position in unit.positions
                ],
                "planned": [
                    self.tracks[unit.track].planned.get(position, 1) for position in unit.positions
                ],
            }
            for unit in units
        ]
        return zlib.compress(json.dumps(plain, separators=(",", ":")).encode(), level=1)

    def _with_stage(
        self, stage: Stage, how: tuple[Step, ...], given: Given | None = None
    ) -> NarrowFlow:
        return dataclasses.replace(
            self,
            tracks=self._with_step(*how, len(self.chains)),
            chains=(*self.chains, chain_text(stage, given)),
            given=self.given | (given or NOTHING_GIVEN),
        )

    def _with_step(self, *steps: Step) -> tuple[Track, ...]:
        return tuple(
            dataclasses.replace(track, steps=(*track.steps, *steps)) for track in self.tracks
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
    planned
        ``(unit, seq)`` of a part that several units fetch to how many they are.
    everything
        Whether all parts are of one unit, which is there also where no part is.
    barriers
        How many shuffles lie before: an error from before one stands before those after it.
    given
        Tables that clauses of the steps are given.
    """

    frame: DataFrame
    steps: tuple[ReduceStep, ...] = ()
    planned: Mapping[tuple[int, int], int] = dataclasses.field(default_factory=dict)
    everything: bool = False
    barriers: int = 1
    given: Given = NOTHING_GIVEN

    def then(self, stage: Stage, given: Given | None = None) -> FrameFlow:
        """Return the flow with a stage run on every unit, whose clauses are given some tables."""
        if not stage.clauses:
            return self
        steps = (*self.steps, chain_text(stage, given))
        given = self.given | (given or NOTHING_GIVEN)
        return dataclasses.replace(self, steps=steps, given=given)

    def summarised(self, stage: Stage) -> FrameFlow:
        """Return the flow of the summaries of its units, for a stage that carries."""
        return self._with_step(SummaryStep(chain_text(stage)))

    def carried(self, stage: Stage, betweens: Mapping[int, Between]) -> FrameFlow:
        """Return the flow, with a stage that carries, of the units whose surroundings are known."""
        carries = {seq: _as_blobs(between) for seq, between in betweens.items()}
        return self._with_step(CarriedStep(chain_text(stage), carries))

    def placed(self, places: Mapping[int, Place]) -> FrameFlow:
        """Give the units, by ``seq``, the symbol and the number that they have from here on."""
        return self._with_step(PlaceStep(dict(places)))

    def cut(self, cuts: Mapping[int, tuple[int, int]]) -> FrameFlow:
        """Keep the units whose ``seq`` is in ``cuts``, each cut to its rows ``[start, stop)``."""
        return self._with_step(dict(cuts))

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
        return max(map(barriers_of, self.parts))

    def then(self, stage: Stage, given: Given | None = None) -> UnionFlow:
        """Return the flow with a stage run on every unit, whose clauses are given some tables."""
        return UnionFlow(tuple(part.then(stage, given) for part in self.parts))

    def summarised(self, stage: Stage) -> UnionFlow:
        """Return the flow of the summaries of its units, for a stage that carries."""
        return UnionFlow(tuple(part.summarised(stage) for part in self.parts))

    def carried(self, stage: Stage, betweens: Mapping[int, Between]) -> UnionFlow:
        """Return the flow, with a stage that carries, of the units whose surroundings are known."""
        return UnionFlow(tuple(part.carried(stage, betweens) for part in self.parts))

    def placed(self, places: Mapping[int, Place]) -> UnionFlow:
        """Give the units, by ``seq``, the symbol and the number that they have from here on."""
        return UnionFlow(tuple(part.placed(places) for part in self.parts))

    def cut(self, cuts: Mapping[int, tuple[int, int]]) -> UnionFlow:
        """Keep the units whose ``seq`` is in ``cuts``, each cut to its rows ``[start, stop)``."""
        return UnionFlow(tuple(part.cut(cuts) for part in self.parts))


@dataclass(frozen=True, eq=False)
class DriverFlow:
    """Units in this process, in plan order."""

    units: Iterator[ProcessingUnit]


TaskFlow = NarrowFlow | FrameFlow | UnionFlow
"""Units that tasks make."""
Flow = TaskFlow | DriverFlow


def barriers_of(flow: TaskFlow) -> int:
    """Return how many shuffles lie before a flow."""
    return 0 if isinstance(flow, NarrowFlow) else flow.barriers


def chain_text(stage: Stage, given: Given | None = None) -> str:
    """Return the clauses of a stage with their schemas, as JSON."""
    clauses: tuple[Clause, ...] = stage.clauses
    plain = chain_to_json(Chain(clauses, stage.schemas), given)
    return json.dumps(plain, separators=(",", ":"))


def _as_blobs(between: Between) -> tuple[bytes, bytes]:
    before, after = (
        encode(carry, PartFacts(RowRange(0, carry.num_rows)))
        for carry in (between.before, between.after)
    )
    return before, after


def _as_text(between: Between) -> tuple[str, str]:
    before, after = (base64.b64encode(blob).decode() for blob in _as_blobs(between))
    return before, after
