"""Measure event rows and the live store: rows, log calls, memory, states, ranges, recordings.

    python -m benchmarks.events                          # a million events
    python -m benchmarks.events --smoke                  # few, only to show that it works
    python -m benchmarks.events --peer-python /path/to/python

The peer is rerun-sdk, which wants an environment of its own (``rerun-sdk[catalog]``);
``--peer-python`` is the interpreter there. Both hold the same events, and their answers are
compared before anything is timed; ours are compared with numpy in any case. Rows are timed by the
CPU time of one thread, log calls and questions by the clock on the wall. Medians. Prints a table
with the targets and one line of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import os
import platform
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import feather

import tessel
from benchmarks.encodings import Clock
from benchmarks.measure import anonymous_bytes
from tessel.expression import Expression, parse
from tessel.expression.evaluate import evaluate
from tessel.store.events import EventBatch, EventIds, LiveStore, Recorder, id_bytes
from tessel.store.rows import RowBuffer, RowPipeline, Rows, RowSchema

ENTITY, COMPONENT, TIMELINE = "robot/arm", "angle", "frame"
REPEATS = 7
FULL_EVENTS, SMOKE_EVENTS = 1_000_000, 5_000
MANY = 1000
PEER = Path(__file__).with_name("events_peer.py")


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the result; ``peer`` in the same unit."""

    name: str
    figure: float
    unit: str
    target: str = ""
    peer: float | None = None


# --- event rows -----------------------------------------------------------------------------------

FIXED = pa.schema(
    [
        ("time", pa.timestamp("us")),
        ("price", pa.float64()),
        ("quantity", pa.int32()),
        ("venue", pa.int64()),
        ("buy", pa.bool_()),
    ]
)
PACKED = struct.Struct("<qdiqB")
TEXT = FIXED.set(3, pa.field("venue", pa.string()))


def trades(schema: pa.Schema, count: int) -> pa.RecordBatch:
    random = np.random.default_rng(7)
    numbers = np.arange(count)
    text = pa.types.is_string(schema.field("venue").type)
    columns = {
        "time": pa.array(1_700_000_000_000_000 + numbers).view(pa.timestamp("us")),
        "price": pa.array(random.random(count), mask=numbers % 11 == 0),
        "quantity": pa.array(random.integers(0, 100, count).astype(np.int32)),
        "venue": pa.array([f"VENUE{n % 12:02d}" for n in numbers]) if text else pa.array(numbers),
        "buy": pa.array(random.random(count) < 0.5),
    }
    return pa.RecordBatch.from_pydict(columns, schema=schema)


def row_lines(count: int, clock: Clock) -> Iterator[Line]:
    """Measure event rows; each way back to columns is compared with what went in."""
    fixed, text = RowSchema.from_arrow(FIXED), RowSchema.from_arrow(TEXT)
    batch, texts = trades(FIXED, count), trades(TEXT, count)
    rows, text_rows = Rows.from_batch(fixed, batch), Rows.from_batch(text, texts)
    data = rows.to_bytes()
    assert Rows.from_bytes(fixed, data).to_batch() == batch
    assert text_rows.to_batch() == texts

    def a_row(work: Callable[[], object]) -> float:
        return clock.seconds(work) / count * 1e9

    yield Line(
        "field access, fixed",
        a_row(lambda: np.ascontiguousarray(rows.field("price"))),
        "ns a field",
        "< 5",
    )
    yield Line("field access, text", a_row(lambda: text_rows.column("venue")), "ns a field", "< 15")
    yield Line("null check", a_row(lambda: rows.nulls("price")), "ns a field", "< 3")
    yield Line(
        "5-field row from columns", a_row(lambda: Rows.from_batch(fixed, batch)), "ns a row", "< 50"
    )
    for name, schema, venue, target in (
        ("append, all fixed", fixed, 7, "≤ 200"),
        ("append, one text", text, "VENUE07", "≤ 350"),
    ):
        yield Line(name, append_seconds(schema, venue, clock.repeats) * 1e9, "ns a row", target)
    yield Line("flush of 1,000 rows", flush_seconds(batch, clock.repeats) * 1e6, "µs", "≤ 50")
    yield Line(
        "bytes to batch", a_row(lambda: Rows.from_bytes(fixed, data).to_batch()), "ns a row", "≤ 10"
    )
    overhead = (fixed.fixed_size / PACKED.size - 1) * 100
    yield Line("bytes over a packed struct", overhead, "%", "< 10")


WHERES = {
    "price > 0.9": "price > 0.9",
    "three fields": "price > 0.5 and quantity < 50 and buy",
    "text": "venue == 'VENUE07' or venue == 'VENUE08'",
}


def filter_lines(count: int, clock: Clock) -> Iterator[Line]:
    """Measure filters on arrival, and after all fields became columns, whose answer they have."""
    schema, batch = RowSchema.from_arrow(TEXT), trades(TEXT, count)
    rows = Rows.from_batch(schema, batch)
    select = {"venue": "venue", "cost": "price * quantity"}
    for name, where in WHERES.items():
        pipeline = RowPipeline(schema, where=where, select=select)
        condition, cost = parse(where), parse(select["cost"])

        def on_columns(condition: Expression = condition, cost: Expression = cost) -> pa.Table:
            table = pa.table(rows.to_batch())
            table = table.filter(evaluate(condition, table))
            return pa.table([table.column("venue"), evaluate(cost, table)], ["venue", "cost"])

        expected = on_columns()
        assert 0 < len(expected) < count
        assert pa.table(pipeline.run(rows)).equals(expected)
        seconds = clock.seconds(lambda: pipeline.run(rows))  # noqa: B023  (used at once)
        yield Line(f"filter {name}", seconds / count * 1e9, "ns a row")
        seconds = clock.seconds(on_columns)
        yield Line(f"filter {name}, all made columns first", seconds / count * 1e9, "ns a row")


def append_seconds(schema: RowSchema, venue: object, repeats: int) -> float:
    """Return the time of one append, of a thousand."""
    buffer = RowBuffer(schema)
    append = buffer.append
    taken = []
    for _ in range(10 * repeats):
        start = time.thread_time()
        for _ in range(1000):
            append(1_700_000_000_000_000, 1.5, 7, venue, True)
        taken.append((time.thread_time() - start) / 1000)
        buffer.take_batch()
    return statistics.median(taken)


def flush_seconds(batch: pa.RecordBatch, repeats: int) -> float:
    """Return the time in which a thousand rows that wait become a batch."""
    schema = RowSchema.from_arrow(FIXED)
    data = Rows.from_batch(schema, batch.slice(0, 1000)).to_bytes()
    buffer = RowBuffer(schema)
    taken = []
    for _ in range(100 * repeats):
        buffer.extend_bytes(data)
        start = time.thread_time()
        buffer.take_batch()
        taken.append(time.thread_time() - start)
    return statistics.median(taken)


# --- the live store -------------------------------------------------------------------------------


def frames(count: int) -> np.ndarray:
    """Return the times of the events: every second frame."""
    return np.arange(count) * 2


def asked(count: int) -> np.ndarray:
    """Return the times of many questions: different ones, ascending (the peer wants them so)."""
    return np.sort(np.random.default_rng(3).choice(2 * count, min(MANY, count), replace=False))


def arrow_events(count: int) -> pa.RecordBatch:
    """Return the events as the columns that a live store takes."""
    ids = EventIds()
    first_time, first = ids.next()
    raw = b"".join(id_bytes(first_time + at, first + at) for at in range(count))
    columns = [
        pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(raw)]),
        pa.array(frames(count)),
        pa.array(np.ones(count, np.uint32)),
        pa.array(frames(count) / 4),
    ]
    kinds = [
        {"tessel.kind": "event_id"},
        {"tessel.kind": "timeline", "tessel.timeline": "sequence"},
        {"tessel.kind": "num_instances"},
        {"tessel.kind": "component"},
    ]
    names = ["event_id", TIMELINE, "num_instances", COMPONENT]
    fields = [
        pa.field(name, column.type, metadata=kind)
        for name, column, kind in zip(names, columns, kinds, strict=True)
    ]
    metadata = {"tessel.kind": "events", "tessel.entity": ENTITY}
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata))


def filled(count: int) -> LiveStore:
    """Return a store with the events."""
    live = LiveStore()
    live.insert(EventBatch.from_arrow(arrow_events(count)))
    return live


def answers(live: LiveStore, count: int) -> dict[str, pa.Table]:
    """Return what is asked and its values, as the peer gives them."""
    times = asked(count)
    one = live.latest_at(TIMELINE, int(times[0]), ENTITY)[COMPONENT]
    many = live.latest_at_many(TIMELINE, times, ENTITY, COMPONENT)
    happened = live.range(TIMELINE, *bounds(count), ENTITY)
    return {
        "one": pa.table({"frame": times[:1], "value": one.cell.values}),
        "many": pa.table({"frame": times, "value": many.column(COMPONENT).combine_chunks().values}),
        "range": pa.table(
            {
                "frame": happened.column(TIMELINE),
                "value": happened.column(COMPONENT).combine_chunks().values,
            }
        ),
    }


def bounds(count: int) -> tuple[int, int]:
    """Return the first and last time of a hundredth of the events."""
    return count, count + count // 50


def check(found: dict[str, pa.Table], count: int) -> None:
    """Raise where an answer is not that of numpy."""
    held = frames(count)
    times = asked(count)
    latest = held[np.searchsorted(held, times, side="right") - 1] / 4
    first, last = bounds(count)
    inside = held[(held >= first) & (held <= last)]
    expected = {
        "one": (times[:1], latest[:1]),
        "many": (times, latest),
        "range": (inside, inside / 4),
    }
    for name, (wanted_times, wanted) in expected.items():
        table = found[name]
        if not (
            np.array_equal(table.column("frame").to_numpy(), wanted_times)
            and np.array_equal(table.column("value").to_numpy(), wanted)
        ):
            raise SystemExit(f"{name}: another answer than numpy's")


def wall(work: Callable[[], object], repeats: int, calls: int = 1) -> float:
    """Return the time of one call: the median over repeats of some calls each."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        taken.append((time.perf_counter() - start) / calls)
    return statistics.median(taken)


def logged_per_second(count: int) -> tuple[float, float]:
    """Return how many values a program logs in a second, until the store has them all.

    By the clock on the wall, and by the CPU time of all threads, which busy neighbours do not slow.
    """
    live = LiveStore()
    with Recorder(live) as recorder:
        log = recorder.log
        start, started = time.perf_counter(), time.process_time()
        for at in range(count):
            log(ENTITY, {COMPONENT: 0.5}, frame=at)
        recorder.flush()
        seconds, spent = time.perf_counter() - start, time.process_time() - started
    assert len(live) == count
    return count / seconds, count / spent


def store_lines(count: int, repeats: int, peer: dict[str, float]) -> Iterator[Line]:
    logging = min(count, 200_000)
    rates = [logged_per_second(logging) for _ in range(min(repeats, 3))]
    by_wall, by_cpu = (statistics.median(rate) for rate in zip(*rates, strict=True))
    yield Line("log calls", by_wall, "rows a second", "≥ 150,000", peer.get("log"))
    yield Line("log calls, CPU time", by_cpu, "rows a CPU second", "", peer.get("log_cpu"))
    arrow = arrow_events(count)
    seconds = wall(lambda: LiveStore().insert(EventBatch.from_arrow(arrow)), repeats)
    yield Line("columnar ingest", count / seconds, "rows a second", "", peer.get("columns"))
    live = filled(count)
    check(answers(live, count), count)
    times = asked(count)
    place = int(times[len(times) // 2])
    first, last = bounds(count)
    seconds = wall(lambda: live.latest_at(TIMELINE, place, ENTITY), repeats, 100)
    yield Line("one latest_at", seconds * 1e6, "µs", "≤ 50", peer.get("one"))
    seconds = wall(lambda: live.latest_at_many(TIMELINE, times, ENTITY, COMPONENT), repeats, 5)
    yield Line("a thousand latest_at in bulk", seconds * 1e3, "ms", "≤ 2", peer.get("many"))
    seconds = wall(lambda: live.range(TIMELINE, first, last, ENTITY), repeats, 5)
    yield Line("a range of 1 %", seconds * 1e3, "ms", "", peer.get("range"))
    yield Line("memory a row: events and index", live.nbytes / count, "bytes", "≤ 26")
    process = memory_of_process(count)
    if process is not None:
        yield Line("memory a row: whole process", process, "bytes")


def memory_of_process(count: int) -> float | None:
    """Return the bytes by which a process of its own grows that logs the events one by one."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.events", "--memory", str(count)],
        check=True,
        capture_output=True,
        text=True,
    )
    found: float | None = json.loads(done.stdout)
    return found


def grown_bytes(count: int) -> float | None:
    """Return by how many bytes an event this process grows, after it logged all."""
    live = LiveStore()
    with Recorder(live) as recorder:
        recorder.log(ENTITY, {COMPONENT: -1.0}, frame=-2)  # what is loaded once is no memory
        recorder.flush()
        gc.collect()
        before = anonymous_bytes()
        for at in range(count):
            recorder.log(ENTITY, {COMPONENT: at / 2}, frame=2 * at)
    gc.collect()
    pa.default_memory_pool().release_unused()
    after = anonymous_bytes()
    return None if before is None or after is None else (after - before) / count


# --- recordings -----------------------------------------------------------------------------------


def recorded(count: int, values: int) -> LiveStore:
    """Return events of so many values each."""
    live = filled(count)
    if values == 1:
        return live
    (batch,) = live.batches()
    arrow = batch.to_arrow()
    lists = pa.FixedSizeListArray.from_arrays(
        pa.array(np.random.default_rng(5).random(count * values)), values
    ).cast(pa.large_list(pa.float64()))
    at = arrow.schema.get_field_index(COMPONENT)
    field = arrow.schema.field(at).with_type(lists.type)
    counts = pa.array(np.full(count, values, np.uint32))
    arrow = arrow.set_column(at, field, lists)
    at = arrow.schema.get_field_index("num_instances")
    arrow = arrow.set_column(at, arrow.schema.field(at), counts)
    other = LiveStore()
    other.insert(EventBatch.from_arrow(arrow))
    return other


def recording_lines(count: int, repeats: int) -> Iterator[Line]:
    """Measure a saved recording: what it takes to the first answer, each in processes of its own.

    On demand, cells are read when they are asked for; beside it, all of them are read at once.
    """
    for values in (1, 16):
        with tempfile.TemporaryDirectory() as folder:
            live = recorded(count, values)
            live.save(tessel.open(folder), "run")
            size = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
            yield Line(f"recording, {values} values an event", size / count, "bytes an event")
            place = int(asked(count)[-1])
            expected = live.latest_at(TIMELINE, place, ENTITY)[COMPONENT].cell.to_list()
            for way in ("on demand", "all at once"):
                command = [sys.executable, "-m", "benchmarks.events", "--opened", way]
                command += [folder, str(place)]
                runs = []
                for _ in range(min(repeats, 5)):
                    done = subprocess.run(command, check=True, capture_output=True, text=True)
                    runs.append(json.loads(done.stdout))
                if any(run["answer"] != expected for run in runs):
                    raise SystemExit(f"opened {way}: another answer than before it was saved")
                seconds = statistics.median(run["seconds"] for run in runs)
                yield Line(f"  open to first answer, {way}", seconds * 1e3, "ms")
                if runs[0]["bytes"] is not None:
                    held = statistics.median(run["bytes"] for run in runs)
                    yield Line(f"  memory an event, {way}", held / count, "bytes")


def opened(way: str, folder: str, place: int) -> dict[str, object]:
    """Return what opening a recording takes, and the state at a time."""
    repository = tessel.open(folder)
    warm = LiveStore()  # what is loaded once is no memory
    warm.insert(filled(10).batches())
    warm.save(tessel.open("memory://"), "warm")
    del warm
    gc.collect()
    pa.default_memory_pool().release_unused()
    before = anonymous_bytes()
    start = time.perf_counter()
    live = LiveStore.open(repository, "run")
    if way == "all at once":
        arrows = [batch.to_arrow() for batch in live.batches()]
        live = LiveStore()
        live.insert([EventBatch.from_arrow(arrow) for arrow in arrows])
        del arrows
    answer = live.latest_at(TIMELINE, place, ENTITY)[COMPONENT].cell.to_list()
    seconds = time.perf_counter() - start
    gc.collect()
    pa.default_memory_pool().release_unused()
    after = anonymous_bytes()
    grown = None if before is None or after is None else after - before
    return {"seconds": seconds, "bytes": grown, "answer": answer}


# --- the peer -------------------------------------------------------------------------------------


def asked_of_peer(python: str, count: int, repeats: int) -> dict[str, float]:
    """Return the figures of the peer; first its answers are compared."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "asked.arrow")
        feather.write_feather(pa.table({"frame": asked(count)}), source, "uncompressed")

        def run(task: str) -> str:
            first, last = map(str, bounds(count))
            command = [python, str(PEER), task, folder, str(count), str(repeats), first, last]
            clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            done = subprocess.run(
                command, check=True, stdout=subprocess.PIPE, text=True, env=clean, cwd=folder
            )
            return done.stdout.strip().splitlines()[-1]

        run("answer")
        found = {
            n: feather.read_table(Path(folder, f"{n}.arrow")) for n in ("one", "many", "range")
        }
        check(found, count)
        measured: dict[str, float] = json.loads(run("time"))
    return measured


# --- the table ------------------------------------------------------------------------------------


def table(lines: list[Line], *, peer: bool) -> str:
    def number(value: float | None) -> str:
        if value is None:
            return "-"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"

    head = ["", "tessel", *(["peer"] if peer else []), "unit", "target"]
    rows = [head]
    for line in lines:
        cells = [line.name, number(line.figure), *([number(line.peer)] if peer else [])]
        rows.append([*cells, line.unit, line.target])
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at in (0, len(head) - 2) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def main(arguments: list[str] | None = None) -> list[Line]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="few events, for the answers only")
    parser.add_argument("--events", type=int, default=FULL_EVENTS)
    parser.add_argument("--peer-python", help="the interpreter of an environment with rerun-sdk")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--opened", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.opened is not None:
        way, folder, place = chosen.opened
        print(json.dumps(opened(way, folder, int(place))))
        return []
    if chosen.memory is not None:
        print(json.dumps(grown_bytes(chosen.memory)))
        return []
    count = SMOKE_EVENTS if chosen.smoke else chosen.events
    clock = Clock(1, 0.0) if chosen.smoke else Clock(REPEATS, 0.03)
    peer = {}
    if chosen.peer_python:
        peer = asked_of_peer(chosen.peer_python, count, clock.repeats)
    lines = list(row_lines(min(count, 100_000), clock))
    lines += filter_lines(min(count, 100_000), clock)
    lines += store_lines(count, clock.repeats, peer)
    lines += recording_lines(count, clock.repeats)
    print(f"{count:,} events of one value; load of the machine {os.getloadavg()[0]:.1f}")
    print(table(lines, peer=bool(peer)))
    versions = {"numpy": np.__version__, "pyarrow": pa.__version__, "machine": platform.machine()}
    print(json.dumps({"lines": [dataclasses.asdict(line) for line in lines], **versions}))
    return lines


if __name__ == "__main__":
    main()
