"""Measure the component manager: entities added in bulk and gathered by units.

    python benchmarks/ecs.py                # 100,000 entities with six facts
    python benchmarks/ecs.py --smoke        # a small run that only shows that it works

Targets: 100,000 entities with six facts added in under 0.5 s, gathered by units at under 5 µs an
entity. Facts are given as arrays (FactColumn), which is what the pipeline has, and as component
objects; the time to make those objects is told apart. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from tessel.ecs.components import (
    Bucket,
    ColRange,
    Columns,
    RowRange,
    SegmentKey,
    Symbol,
    TimeRange,
)
from tessel.ecs.facts import FactColumn
from tessel.ecs.manager import ComponentManager

FACTS = (RowRange, ColRange, SegmentKey, TimeRange, Symbol, Bucket)
ENTITIES = 100_000
SMOKE_ENTITIES = 2_000
UNIT_SIZE = 4


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One line of the result; seconds are the best of the repeats."""

    name: str
    seconds: float
    microseconds_per_entity: float


def array_facts(count: int) -> Mapping[type, Sequence[object]]:
    at = np.arange(count, dtype=np.int64)
    names = [f"pack-{number // 64}" for number in range(count)]
    return {
        RowRange: FactColumn(RowRange, start=at * 1000, end=at * 1000 + 1000),
        ColRange: FactColumn(ColRange, start=at % 4 * 8, end=at % 4 * 8 + 8),
        SegmentKey: FactColumn(
            SegmentKey,
            object=names,
            offset=at * 4096,
            length=at % 4096,
            checksum=at,
            metadata_start=at % 4096,
        ),
        TimeRange: FactColumn(TimeRange, first=at * 60, last=at * 60 + 59),
        Symbol: FactColumn(Symbol, ordinal=np.zeros(count, np.int64), name=["flights"] * count),
        Bucket: FactColumn(Bucket, number=at % 16),
    }


def object_facts(count: int) -> Mapping[type, Sequence[object]]:
    return {kind: list(column) for kind, column in array_facts(count).items()}


def timed(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def attach_each(manager: ComponentManager, units: list[list[int]], table: pa.Table) -> None:
    for unit in units:
        manager.attach(unit, {Columns: [Columns(table)] * len(unit)})


def gather_each(manager: ComponentManager, units: list[list[int]], facts: tuple[type, ...]) -> None:
    # What was gathered is dropped again, as the pipeline does after a unit.
    for unit in units:
        manager.gather(unit, *facts, Columns)


def measure(count: int) -> dict[str, float]:
    """Run everything once; seconds by name."""
    seconds: dict[str, float] = {}
    table = pa.table({"value": pa.array([1, 2, 3])})
    seconds["make 6 objects an entity (caller)"] = timed(lambda: object_facts(count))
    objects, arrays = object_facts(count), array_facts(count)
    for label, facts in (("objects", objects), ("arrays", arrays)):
        with ComponentManager() as manager:
            entities: list[int] = []
            seconds[f"add, facts as {label}"] = timed(
                lambda m=manager, e=entities, f=facts: e.extend(m.add(count, f))
            )
            seconds[f"set fetch counts, {label}"] = timed(
                lambda m=manager, e=entities: m.set_fetch_counts(e, 1)
            )
            units = [entities[at : at + UNIT_SIZE] for at in range(0, count, UNIT_SIZE)]
            seconds[f"attach Columns by units, {label}"] = timed(
                lambda m=manager, u=units: attach_each(m, u, table)
            )
            seconds[f"gather 3 facts + Columns by units, {label}"] = timed(
                lambda m=manager, u=units: gather_each(m, u, FACTS[:3])
            )
            manager.set_fetch_counts(entities, 1)
            attach_each(manager, units, table)
            seconds[f"gather 6 facts + Columns by units, {label}"] = timed(
                lambda m=manager, u=units: gather_each(m, u, FACTS)
            )
            seconds[f"entities_with, {label}"] = timed(
                lambda m=manager: m.entities_with(RowRange, Bucket)
            )
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the component manager.")
    parser.add_argument("--smoke", action="store_true", help="a small run")
    parser.add_argument("--repeats", type=int, default=3, help="the best of this many")
    arguments = parser.parse_args()
    count = SMOKE_ENTITIES if arguments.smoke else ENTITIES
    runs = [measure(count) for _ in range(1 if arguments.smoke else arguments.repeats)]
    best = {name: min(run[name] for run in runs) for name in runs[0]}
    lines = [Measurement(name, s, s / count * 1e6) for name, s in best.items()]
    print(f"{count:,} entities, {len(FACTS)} facts each, units of {UNIT_SIZE}")
    for line in lines:
        print(
            f"  {line.name:<44} {line.seconds:8.3f} s {line.microseconds_per_entity:8.2f} µs/entity"
        )
    facts = {"entities": count, "unit": UNIT_SIZE, "python": platform.python_version()}
    print(json.dumps({**facts, "measurements": [dataclasses.asdict(line) for line in lines]}))


if __name__ == "__main__":
    main()
