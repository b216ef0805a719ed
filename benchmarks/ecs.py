"""Measure the component manager: entities added in bulk and gathered by units.

    python benchmarks/ecs.py                # 100,000 entities
    python benchmarks/ecs.py --smoke        # a small run that only shows that it works

An entity has what the pipeline gives it: its facts in one component, its fetch count, and its data
once they are loaded. Targets: 100,000 entities added in under 0.5 s, gathered by units at under
5 µs an entity. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import platform
import time
from collections.abc import Callable

import pyarrow as pa

from tessel.clauses.structures import UnitFacts
from tessel.ecs.manager import ComponentManager
from tessel.ecs.piece import ColRange, Columns, FetchCount, RowRange

ENTITIES = 100_000
SMOKE_ENTITIES = 2_000
UNIT_SIZE = 4


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One line of the result; seconds are the best of the repeats."""

    name: str
    seconds: float
    microseconds_per_entity: float


def facts(count: int) -> list[UnitFacts]:
    ranges = (RowRange(at * 1000, at * 1000 + 1000) for at in range(count))
    return [UnitFacts(at, 1000, rows, ColRange(0, 8)) for at, rows in enumerate(ranges)]


def timed(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def attach_each(manager: ComponentManager, units: list[list[int]], table: pa.Table) -> None:
    for unit in units:
        manager.attach(unit, {Columns: [Columns(table)] * len(unit)})


def gather_each(manager: ComponentManager, units: list[list[int]]) -> None:
    # What was gathered is dropped again, as the pipeline does after a unit.
    for unit in units:
        manager.gather(unit, UnitFacts, FetchCount, Columns)


def measure(count: int) -> dict[str, float]:
    """Run everything once; seconds by name."""
    table = pa.table({"value": pa.array([1, 2, 3])})
    components = {UnitFacts: facts(count), FetchCount: [FetchCount(1, 1)] * count}
    entities: list[int] = []
    with ComponentManager() as manager:
        seconds = {"add": timed(lambda: entities.extend(manager.add(count, components)))}
        seconds["set fetch counts"] = timed(lambda: manager.set_fetch_counts(entities, 1))
        units = [entities[at : at + UNIT_SIZE] for at in range(0, count, UNIT_SIZE)]
        seconds["attach data by units"] = timed(lambda: attach_each(manager, units, table))
        seconds["gather by units"] = timed(lambda: gather_each(manager, units))
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
    print(f"{count:,} entities, units of {UNIT_SIZE}")
    for line in lines:
        print(
            f"  {line.name:<24} {line.seconds:8.3f} s {line.microseconds_per_entity:8.2f} µs/entity"
        )
    told = {"entities": count, "unit": UNIT_SIZE, "python": platform.python_version()}
    print(json.dumps({**told, "measurements": [dataclasses.asdict(line) for line in lines]}))


if __name__ == "__main__":
    main()
