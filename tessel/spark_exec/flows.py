"""Where the data of a query is between two stages of a Spark job.

A :class:`NarrowFlow` is a list of units that nothing has been run for: they are read and processed
in one stage of tasks, and a part of them can be run alone, which is what limits need. A
:class:`FrameFlow` is a DataFrame of wire rows, after a shuffle. A :class:`DriverFlow` is units in
this process.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tessel.clauses import Clause, SourcePlan, Stage
from tessel.ecs import ProcessingUnit
from tessel.spark_exec.tasks import Chain, chain_to_json
from tessel.spark_exec.wire import sequence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["DriverFlow", "FrameFlow", "NarrowFlow", "UnitTask", "chain_text", "plugins_of"]

Step = int | tuple[int, int]
"""The number of a chain, or a cut ``(start, stop)`` of the unit's rows."""


@dataclass(frozen=True)
class UnitTask:
    """One unit that a worker will read and process.

    Attributes
    ----------
    symbol, ordinal
        Its place in the order of the result.
    source
        Number of its symbol among the flow's sources.
    pieces
        Plain data of its pieces.
    planned
        In how many units each piece is wanted.
    bytes
        Estimated bytes to read.
    steps
        What runs on it, in order.
    """

    symbol: int
    ordinal: int
    source: int
    pieces: tuple[dict[str, Any], ...]
    planned: tuple[int, ...]
    bytes: int
    steps: tuple[Step, ...] = ()

    @property
    def seq(self) -> int:
        """Its ``seq`` on the wire."""
        return sequence(self.symbol, self.ordinal)


@dataclass(frozen=True)
class NarrowFlow:
    """Units that one stage of tasks can produce.

    Attributes
    ----------
    units
        In the order of the result.
    sources
        Plain data of the symbols: where, and with which columns.
    chains
        JSON of the chains that the units' steps number.
    """

    units: tuple[UnitTask, ...]
    sources: tuple[dict[str, str], ...]
    chains: tuple[str, ...] = ()

    @classmethod
    def from_source(cls, source: SourcePlan, uri: str) -> NarrowFlow:
        """Return the units of a symbol as planned."""
        view, index = source.view, source.index
        counts: dict[int, int] = {}
        for unit in source.units:
            for position in unit:
                counts[position] = counts.get(position, 0) + 1
        described = {position: index.source(position).to_json() for position in counts}
        units = tuple(
            UnitTask(
                symbol=0,
                ordinal=ordinal,
                source=0,
                pieces=tuple(described[position] for position in unit),
                planned=tuple(counts[position] for position in unit),
                bytes=int(index.bytes[list(unit)].sum()),
            )
            for ordinal, unit in enumerate(source.units)
        )
        data = {
            "uri": uri,
            "name": view.name,
            "shown": f"{view.name!r} (version {view.version})",
            "schema": json.dumps(view.schema.to_json()),
            "column_ids": json.dumps(dict(view.column_ids)),
            "read_schema": json.dumps(index.schema.to_json()),
        }
        return cls(units, (data,))

    def then(self, stage: Stage) -> NarrowFlow:
        """Return the flow with a stage run on every unit."""
        if not stage.clauses:
            return self
        chains = (*self.chains, chain_text(stage.clauses, stage))
        step = len(self.chains)
        units = tuple(dataclasses.replace(u, steps=(*u.steps, step)) for u in self.units)
        return NarrowFlow(units, self.sources, chains)

    def cut(self, cuts: Mapping[int, tuple[int, int]]) -> NarrowFlow:
        """Keep the units whose ``seq`` is in ``cuts``, each cut to its rows ``[start, stop)``."""
        units = tuple(
            dataclasses.replace(unit, steps=(*unit.steps, cuts[unit.seq]))
            for unit in self.units
            if unit.seq in cuts
        )
        return NarrowFlow(units, self.sources, self.chains)

    def only(self, units: Sequence[UnitTask]) -> NarrowFlow:
        """Return the flow of some of its units."""
        return NarrowFlow(tuple(units), self.sources, self.chains)

    @classmethod
    def side_by_side(cls, flows: Sequence[NarrowFlow]) -> NarrowFlow:
        """Return the units of several flows, one flow after another, numbered by symbol."""
        units: list[UnitTask] = []
        sources: list[dict[str, str]] = []
        chains: list[str] = []
        for symbol, flow in enumerate(flows):
            for ordinal, unit in enumerate(flow.units):
                steps = tuple(
                    step + len(chains) if isinstance(step, int) else step for step in unit.steps
                )
                source = unit.source + len(sources)
                units.append(
                    dataclasses.replace(
                        unit, symbol=symbol, ordinal=ordinal, source=source, steps=steps
                    )
                )
            sources += flow.sources
            chains += flow.chains
        return cls(tuple(units), tuple(sources), tuple(chains))

    def packed(self, tasks: int) -> list[list[UnitTask]]:
        """Return the units spread over at most ``tasks`` partitions by bytes, largest first."""
        loads = [(0, number) for number in range(min(tasks, len(self.units)))]
        partitions: list[list[UnitTask]] = [[] for _ in loads]
        for unit in sorted(self.units, key=lambda unit: (-unit.bytes, unit.seq)):
            load, number = heapq.heappop(loads)
            partitions[number].append(unit)
            # Every unit costs something, so that units of few bytes are spread as well.
            heapq.heappush(loads, (load + unit.bytes + 4096, number))
        return [sorted(partition, key=lambda unit: unit.seq) for partition in partitions]

    def specification(self, partitions: Sequence[Sequence[UnitTask]]) -> str:
        """Return what the workers need, as JSON."""
        described = [
            [
                {
                    "seq": unit.seq,
                    "ordinal": unit.ordinal,
                    "symbol": unit.symbol,
                    "source": unit.source,
                    "pieces": unit.pieces,
                    "planned": unit.planned,
                    "steps": unit.steps,
                }
                for unit in partition
            ]
            for partition in partitions
        ]
        return json.dumps(
            {"sources": self.sources, "chains": self.chains, "partitions": described},
            separators=(",", ":"),
        )


@dataclass(frozen=True)
class FrameFlow:
    """Wire rows in a DataFrame, one part a unit, ordered by ``seq``."""

    frame: DataFrame


@dataclass(frozen=True)
class DriverFlow:
    """Units in this process, in order."""

    units: Iterator[ProcessingUnit]


def chain_text(clauses: Sequence[Clause], stage: Stage) -> str:
    """Return the last ``len(clauses)`` clauses of a stage, with their schemas, as JSON."""
    schemas = stage.schemas[len(stage.schemas) - len(clauses) - 1 :]
    return json.dumps(chain_to_json(Chain(tuple(clauses), schemas)), separators=(",", ":"))


def plugins_of(stages: Sequence[Stage]) -> tuple[type[Clause], ...]:
    """Return the clause classes of stages that are not part of the package."""
    found = {type(clause): None for stage in stages for clause in stage.clauses}
    return tuple(cls for cls in found if not cls.__module__.startswith("tessel."))
