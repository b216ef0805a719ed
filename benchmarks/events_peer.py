"""The peer of ``benchmarks.events``: the same events and questions in rerun-sdk.

Started by it, with the interpreter of an environment that has ``rerun-sdk[catalog]`` and need not
have Tessel. Recordings are written to a file and asked through the server in the same process,
which is how that library answers; the server reads files on demand, so its memory is not compared.
"""

# mypy: ignore-errors
from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import rerun as rr
from datafusion import col, lit
from pyarrow import feather

COLUMN = "/robot/arm:Scalars:scalars"
LOGGED = 50_000


def recorded(folder: Path, count: int) -> tuple[Path, float]:
    """Write the events as columns; return the file and the seconds it took."""
    path = folder / "events.rrd"
    stream = rr.RecordingStream("events", recording_id="events")
    stream.save(str(path))
    held = np.arange(count) * 2
    start = time.perf_counter()
    stream.send_columns(
        "robot/arm",
        [rr.TimeColumn("frame", sequence=held)],
        rr.Scalars.columns(scalars=held / 4),
    )
    stream.flush()
    return path, time.perf_counter() - start


def logged_per_second(folder: Path) -> tuple[float, float]:
    """Return values a second, by the clock on the wall and by CPU time."""
    stream = rr.RecordingStream("log", recording_id="log")
    stream.save(str(folder / "log.rrd"))
    start, started = time.perf_counter(), time.process_time()
    for at in range(LOGGED):
        stream.set_time("frame", sequence=at)
        stream.log("robot/arm", rr.Scalars(0.5))
    stream.flush()
    return LOGGED / (time.perf_counter() - start), LOGGED / (time.process_time() - started)


class Questions:
    """What is asked of a recording that a server holds."""

    def __init__(self, server: rr.server.Server, first: int, last: int) -> None:
        dataset = server.client().get_dataset("events")
        self.contents = dataset.filter_contents(["/robot/arm"])
        self.first, self.last = first, last

    def latest(self, times: np.ndarray) -> pa.Table:
        reader = self.contents.reader(
            index="frame", fill_latest_at=True, using_index_values=np.asarray(times)
        )
        return plain(reader.to_arrow_table())

    def range(self) -> pa.Table:
        inside = (col("frame") >= lit(self.first)) & (col("frame") <= lit(self.last))
        return plain(self.contents.reader(index="frame").filter(inside).to_arrow_table())


def plain(table: pa.Table) -> pa.Table:
    """Return frames and values, by frame."""
    frames = table.column("frame").cast(pa.int64())
    values = table.column(COLUMN).combine_chunks().flatten()
    return pa.table({"frame": frames, "value": values}).sort_by("frame")


def median(work: Callable[[], object], repeats: int) -> float:
    work()  # the first one plans, and connects
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main() -> None:
    task, folder, count, repeats, first, last = sys.argv[1:]
    place = Path(folder)
    times = feather.read_table(place / "asked.arrow").column("frame").to_numpy()
    path, seconds = recorded(place, int(count))
    with rr.server.Server(host="127.0.0.1", datasets={"events": [str(path)]}) as server:
        questions = Questions(server, int(first), int(last))
        if task == "answer":
            feather.write_feather(questions.latest(times[:1]), place / "one.arrow")
            feather.write_feather(questions.latest(times), place / "many.arrow")
            feather.write_feather(questions.range(), place / "range.arrow")
            print("{}")
            return
        place_asked = times[len(times) // 2 : len(times) // 2 + 1]
        log, log_cpu = logged_per_second(place)
        measured = {
            "one": median(lambda: questions.latest(place_asked), int(repeats)) * 1e6,
            "many": median(lambda: questions.latest(times), int(repeats)) * 1e3,
            "range": median(questions.range, int(repeats)) * 1e3,
            "columns": int(count) / seconds,
            "log": log,
            "log_cpu": log_cpu,
        }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
