"""Measure what the driver of a Spark job spends: ``python -m benchmarks.driver``.

    python -m benchmarks.driver                    # 10⁵ and 10⁶ segments, many keys and states
    python -m benchmarks.driver --smoke            # little of it, answers only

* plans: processor time and anonymous memory of this process from the query to the job, and the
  bytes of the functions that go to every task; real manifests of segments that nobody can read;
* carries: processor time and anonymous memory of this process, processor time of all processes, and
  bytes that go to tasks, for windows along many keys: combined in this process, and in tasks;
* parts: the same of this process for a grouping that the parts decide, from what tasks tell of them
  to what tasks are told: time buckets of a median behind an exchange;
* partials: processor time of this process for a few groups over many segments, beside the same on
  threads. Answers are compared first.

Prints tables and one line of JSON.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import tempfile
import time
from unittest import mock

import numpy as np
import pyarrow as pa

import tessel as ts
from benchmarks.commits.simulated import simulate
from benchmarks.measure import PeakMemory, processor_milliseconds, processor_seconds
from tessel.expression.schema import TableSchema
from tessel.spark_exec import SparkExecutor, spark_session
from tessel.spark_exec import executor as executor_module
from tessel.spark_exec.jobs import Jobs
from tessel.testing.parity import assert_same

SECONDS_A_SEGMENT, CLOSURE_BYTES, MEMORY_BYTES = 5e-6, 200_000, 200_000_000
Q = ts.QueryBuilder()
_SMALL_SEGMENT_ROWS = 100


def plans(segments: int) -> dict[str, object]:
    """Return what a filter over so many segments costs until its job could begin."""
    from pyspark.cloudpickle import dumps

    closures: list[int] = []

    class Noting(Jobs):
        def rows_of(self, told, task):  # type: ignore[no-untyped-def]
            closures.append(len(dumps(task)))
            return super().rows_of(told, task)

        def _ran(self, work):  # type: ignore[no-untyped-def]
            return []  # the job could begin

    executor = SparkExecutor(spark_session())
    with tempfile.TemporaryDirectory() as folder:
        simulate(ts.open(folder), "s", segments)
        store = ts.open(folder)
        began = time.process_time()
        with PeakMemory() as memory, Noting(spark_session()) as jobs:
            before = memory.peak or 0
            plan = store.scan("s").filter("t % 7 != 3").plan(slots=executor.slots)
            planned = time.process_time() - began
            runner, flow = executor._walked(plan, jobs)
            runner.made(flow)  # type: ignore[arg-type]
            took = time.process_time() - began
    used = (memory.peak or 0) - before
    return {
        "segments": segments,
        "plan_s": round(planned, 2),
        "job_s": round(took, 2),
        "closure": max(closures),
        "memory": used,
        "reached": took <= segments * SECONDS_A_SEGMENT
        and max(closures) <= CLOSURE_BYTES
        and used <= MEMORY_BYTES,
    }


def carries(rows: int, units: int, keys: int) -> list[dict[str, object]]:
    """Return what windows along so many keys cost here; answers are those of threads."""
    from pyspark.cloudpickle import dumps

    closures: list[int] = []
    sent: list[int] = []

    class Noting(Jobs):
        def mapped(self, frame, task, *schema):  # type: ignore[no-untyped-def]
            closures.append(len(dumps(task)))
            return super().mapped(frame, task, *schema)

        def rows_of(self, told, task):  # type: ignore[no-untyped-def]
            closures.append(len(dumps(task)))
            sent.append(sum(len(row.blob) for rows in told for row in rows))
            return super().rows_of(told, task)

        def sent(self, table):  # type: ignore[no-untyped-def]
            sent.append(table.nbytes)
            return super().sent(table)

    class InTasks(SparkExecutor):
        gathered_bytes = 0

    windows = {
        "rolling": Q.rolling(5, by="k").agg(a="mean(v)"),
        "ewm": Q.ewm(alpha=0.5, by="k").agg(a="mean(v)"),
        "cum_sum": Q.cum_sum({"a": "v"}, by="k"),
        "linear fill": Q.fill({"a": "v"}, "linear", by="k"),
    }
    random = np.random.default_rng(0)
    table = pa.table(
        {"t": np.arange(rows), "k": random.integers(0, keys, rows), "v": random.normal(size=rows)}
    )
    lines: list[dict[str, object]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(executor_module, "Jobs", Noting),
    ):
        store = ts.open(folder)
        with ts.options(segment_rows=rows // units, fsync=False):
            store.write("x", table, index="t")
        for (name, window), kind in itertools.product(windows.items(), (SparkExecutor, InTasks)):
            query = window.agg(s="sum(a)", n="size")
            executor = kind(spark_session())
            assert_same(
                store.read("x", query=query).to_arrow(),
                store.read("x", query=query, executor=executor).to_arrow(),
            )
            closures.clear()
            sent.clear()
            began, all_began = time.process_time(), processor_milliseconds()
            with PeakMemory() as memory:
                before = memory.peak or 0
                store.read("x", query=query, executor=executor).to_arrow()
            lines.append(
                {
                    "window": name,
                    "in": "driver" if kind is SparkExecutor else "tasks",
                    "driver_s": round(time.process_time() - began, 2),
                    "all_s": round((processor_milliseconds() - all_began) / 1e3, 2),
                    "closure": max(closures),
                    "sent": sum(sent),
                    "memory": (memory.peak or 0) - before,
                }
            )
    return lines


def parts(count: int, tasks: int = 100) -> dict[str, object]:
    """Return what grouping so many parts by their facts costs, each of a unit and five minutes.

    A task groups them; the driver gets what tells where they go.
    """
    from pyspark.cloudpickle import dumps

    from tessel.clauses.units.reduced import unit_of_table
    from tessel.spark_exec.parts import unit_rows, unpacked
    from tessel.spark_exec.routing import known_of, route_task, routed
    from tessel.spark_exec.wire import sequence

    minutes = pa.array(np.arange(5 * count) * 60_000_000, pa.timestamp("us"))
    rows = pa.table({"t": minutes})
    schema = TableSchema(pa.schema([("t", minutes.type)]), "t")
    (clause, *_) = Q.resample("1h").agg(m="median(t)").clauses
    told = []
    for run in np.array_split(np.arange(count), tasks):
        units = (unit_of_table(n, 0, rows.slice(5 * n, 5), "t") for n in run.tolist())
        sent = (unit_rows(unit, sequence(0, unit.ordinal)) for unit in units)
        told.append(known_of(itertools.chain.from_iterable(sent)))
    began = time.process_time()
    with PeakMemory() as memory:
        before = memory.peak or 0
        rows = filter(None, told)
        made = routed(rows, {}, lambda parts: clause.restructure(parts, schema))
        totals, routes = (row.blob for row in made)
        took = time.process_time() - began
    return {
        "parts": count,
        "groups": int(unpacked(totals)[0][0]),
        "task_s": round(took, 2),
        "task_memory": (memory.peak or 0) - before,
        "told": sum(len(row.blob) for row in told if row),
        "driver": len(routes),
        "closure": len(dumps(route_task(routes))),
    }


def partials(segments: int, repeats: int) -> dict[str, object]:
    """Return what seven groups over so many small segments cost here, on Spark and on threads."""
    executor = SparkExecutor(spark_session())
    rows = segments * _SMALL_SEGMENT_ROWS
    random = np.random.default_rng(0)
    table = pa.table(
        {"t": np.arange(rows), "k": np.arange(rows) % 7, "v": random.normal(size=rows)}
    )
    query = Q.groupby("k").agg(s="sum(v)", m="mean(v)", f="first(v)", n="size")
    with tempfile.TemporaryDirectory() as folder:
        store = ts.open(folder)
        with ts.options(segment_rows=_SMALL_SEGMENT_ROWS, fsync=False):
            store.write("x", table, index="t")
        here = functools.partial(store.read, "x", query=query)
        there = functools.partial(store.read, "x", query=query, executor=executor)
        assert_same(here().to_arrow(), there().to_arrow())
        spark, threads = (processor_seconds(each, repeats) for each in (there, here))
    return {"segments": segments, "spark_s": round(spark, 3), "threads_s": round(threads, 3)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    spark_session("local[2]")
    sizes, small, repeats = ((100,), 10, 1) if given.smoke else ((100_000, 1_000_000), 1_000, 3)
    plans(sizes[0] // 100)  # what is imported late
    planned = [plans(size) for size in sizes]
    print(f"{'segments':>10}{'plan s':>8}{'job s':>8}{'closure':>10}{'MB':>6}")
    for line in planned:
        print(
            f"{line['segments']:>10,}{line['plan_s']:>8}{line['job_s']:>8}{line['closure']:>10,}"
            f"{line['memory'] // 1_000_000:>6}",  # type: ignore[operator]
            "" if line["reached"] else "missed",
        )
    carried = carries(*((400, 4, 50) if given.smoke else (1_000_000, 40, 100_000)))
    print(
        f"{'carries':>12}{'in':>8}{'driver s':>10}{'all s':>8}{'closure':>9}{'sent':>12}{'MB':>6}"
    )
    for each in carried:
        print(
            "{window:>12}{in:>8}{driver_s:>10}{all_s:>8}{closure:>9,}{sent:>12,}".format(**each)
            + f"{each['memory'] // 1_000_000:>6}"  # type: ignore[operator]
        )
    print(
        f"{'parts':>10}{'groups':>9}{'told':>12}{'task s':>8}{'MB':>6}{'driver':>10}{'closure':>10}"
    )
    routes = [parts(size) for size in sizes]
    for each in routes:
        each["MB"] = each["task_memory"] // 1_000_000  # type: ignore[operator]
        print(
            "{parts:>10,}{groups:>9,}{told:>12,}{task_s:>8}{MB:>6}{driver:>10,}{closure:>10,}".format(
                **each
            )
        )
    grouped = partials(small, repeats)
    print("{segments:,} partials: {spark_s} s, on threads {threads_s} s".format(**grouped))
    print(json.dumps({"plans": planned, "carries": carried, "parts": routes, "partials": grouped}))


if __name__ == "__main__":
    main()
