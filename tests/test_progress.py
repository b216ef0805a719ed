"""How far operations are: sums of events, bars on terminals and in notebooks, spans."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import textwrap
import time
import types
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import numpy as np
import pyarrow as pa
import pytest

import tessel as ts
from tessel import progress, telemetry
from tessel.progress import Meter, Progress, operation
from tessel.telemetry import Recording

ROWS = 40_000

SLOW = """
import sys, time
import pyarrow as pa
import tessel as ts
from tessel import telemetry
from tessel.progress import operation

def steps(count, seconds):
    for number in range(1, count + 1):
        time.sleep(seconds / count)
        so_far = {"rows": number * 1_000_000, "bytes": number << 20}
        telemetry.emit("step", done=number, total=count, **so_far)
"""


def _told(*events: tuple[str, dict[str, int]]) -> Progress:
    meter = Meter()
    for name, facts in events:
        meter(telemetry.Event(name, 0, 0, 0, facts))
    return meter.progress


def test_steps_are_counted_or_told() -> None:
    assert _told() == Progress()
    assert _told(("gc", {"total": 3, "bytes": 5}), ("gc", {"total": 3, "bytes": 6})) == Progress(
        2, 3, 0, 11
    )
    told = _told(
        ("scan", {"of": 1, "done": 4, "total": 9, "rows": 40}),
        ("scan", {"of": 1, "done": 5, "total": 9, "rows": 50}),
        ("scan", {"of": 2, "done": 1, "total": 2, "rows": 7}),
        ("segment.read", {"rows": 30, "bytes": 12}),
    )
    assert told == Progress(6, 11, 57, 12)  # what was read is among what was scanned


def test_what_is_written_is_measured_by_the_rows_that_were_given() -> None:
    events = [
        ("write.rows", {"done": 0, "total": 100}),
        ("segment.write", {"rows": 30, "bytes": 9}),
    ]
    assert _told(*events) == Progress(30, 100, 30, 9)
    assert _told(events[1]) == Progress(0, 0, 30, 9)  # of a stream nobody knows the end


def test_a_recording_is_bounded_and_its_sums_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_MOST_EVENTS", 10)
    recording = Recording()
    with recording:
        for number in range(100):
            telemetry.emit("clause.process", duration_ns=5, clause="f", unit=number, rows_in=2)
    events = recording.events
    assert len(events) == 11
    assert events[-1].attributes == {"clause": "f", "rows_in": 180, "count": 90}
    assert events[-1].duration_ns == 450


def test_a_follower_within_another_tells_both_and_leaves_others_alone() -> None:
    outer: list[str] = []
    inner: list[str] = []
    with telemetry.follow(lambda event: outer.append(event.name)):
        with telemetry.follow(lambda event: inner.append(event.name)):
            telemetry.emit("one")
        telemetry.emit("two")
    telemetry.emit("three")
    assert (outer, inner) == (["one", "two"], ["one"])


def test_a_follower_that_raises_is_dropped_and_others_go_on() -> None:
    heard: list[str] = []

    def broken(event: telemetry.Event) -> None:
        heard.append("broken")
        raise ValueError

    with telemetry.follow(lambda event: heard.append(event.name)), telemetry.follow(broken):
        telemetry.emit("one")
        telemetry.emit("two")
    assert heard == ["one", "broken", "two"]


# --- operations tell their steps -------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> ts.Store:
    store = ts.open(tmp_path / "store")
    with ts.options(segment_rows=4_000):
        store.write("s", pa.table({"v": np.arange(ROWS), "k": np.arange(ROWS) % 7}))
    return store


def _progress(work: object) -> Progress:
    meter = Meter()
    with telemetry.follow(meter):
        work()  # type: ignore[operator]
    return meter.progress


@pytest.mark.parametrize("workers", [1, 3])
def test_a_query_tells_units_rows_and_bytes(store: ts.Store, workers: int) -> None:
    with ts.options(workers=workers, inline_bytes=0):
        told = _progress(lambda: store.read("s"))
        assert told.done == told.total > 0
        assert told.rows == ROWS
        assert told.bytes > 0
        told = _progress(store.scan("s").groupby("k").agg(v=("v", "median")).collect)
        assert told.done == told.total
        assert told.rows == ROWS


def test_a_write_a_compaction_and_upkeep_tell_theirs(store: ts.Store, tmp_path: Path) -> None:
    table = pa.table({"v": np.arange(ROWS)})
    with ts.options(segment_rows=10_000):
        told = _progress(lambda: store.write("t", table))
    assert told.done == told.total >= told.rows == ROWS
    told = _progress(lambda: store.compact("s"))
    assert told.done == told.total >= 10
    assert told.rows == ROWS
    told = _progress(store.check)
    assert told.done == told.total > 3
    told = _progress(lambda: store.repack(dry_run=True))
    assert told.done <= told.total
    told = _progress(lambda: store.write("u", store.scan("s").filter("v > 10")))
    assert told.done == told.total > 0
    assert told.rows == ROWS


def test_files_tell_how_much_of_them_was_read(tmp_path: Path) -> None:
    from pyarrow import csv, parquet

    from tessel.store.files import Files

    table = pa.table({"v": np.arange(300_000), "w": np.arange(300_000) * 1.5})
    csv.write_csv(table, tmp_path / "a.csv")
    parquet.write_table(table, tmp_path / "b.parquet")
    with pa.CompressedOutputStream(str(tmp_path / "c.csv.gz"), "gzip") as out:
        csv.write_csv(table, out)
    paths = sorted(tmp_path.iterdir())
    total = sum(path.stat().st_size for path in paths)
    heard: list[dict[str, int]] = []

    def hear(event: telemetry.Event) -> None:
        heard.append(event.attributes)

    with telemetry.follow(hear):
        for path in paths:
            heard.clear()
            Files([path]).take(lambda batches: sum(map(len, batches)))
            assert heard[-1]["total"] == path.stat().st_size
            assert heard[-1]["rows"] == 300_000
            assert 0.5 * heard[-1]["total"] < heard[-1]["done"] <= heard[-1]["total"]
        heard.clear()
        Files([paths[0], paths[2]]).take(lambda batches: sum(map(len, batches)))
    done = [each["done"] for each in heard]
    assert done == sorted(done)
    assert done[-1] <= heard[-1]["total"] == total - paths[1].stat().st_size


# --- bars ---------------------------------------------------------------------------------------


# A width in the environment counts for more than that of the terminal.
_ENVIRONMENT = {name: text for name, text in os.environ.items() if name != "COLUMNS"}


def _on_terminal(program: str, columns: int = 100, **environment: str) -> tuple[str, str]:
    """Return what a program shows on a terminal of so many columns, and what it prints."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW + textwrap.dedent(program)],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**_ENVIRONMENT, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.stdout is not None
    printed = process.stdout.read().decode()
    process.stdout.close()
    assert process.wait() == 0, shown.decode()
    return shown.decode(), printed


def _lines(shown: str) -> list[str]:
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    return [line for line in re.split(r"[\r\n]+", plain) if line.strip()]


WORK = """
with operation("query", "trades"):
    steps(20, 2.5)
print("done")
"""


def test_a_terminal_gets_a_bar_that_leaves_nothing() -> None:
    shown, printed = _on_terminal(WORK)
    assert printed == "done\n"
    lines = _lines(shown)
    assert lines
    for line in lines:
        assert line.startswith("query trades")
        assert re.search(r"\d+ % 0:0\d left", line), line
        assert re.search(r"M rows, [\d.]+ MB", line), line
    assert shown.rstrip().endswith("\x1b[2K")  # the line is erased at the end


def test_a_narrow_terminal_gets_a_narrow_bar() -> None:
    shown, _ = _on_terminal(WORK, columns=20)
    lines = _lines(shown)
    assert lines
    assert all(len(line) <= 20 and "left" in line and "%" in line for line in lines), lines


@pytest.mark.parametrize(
    ("program", "environment"),
    [
        ("with operation('query', 'x'):\n    steps(4, 0.3)", {}),
        ("with ts.options(progress=False), operation('query', 'x'):\n    steps(4, 1.6)", {}),
        ("with operation('query', 'x'):\n    steps(4, 1.6)", {"TESSEL_PROGRESS": "0"}),
    ],
    ids=["short", "option", "environment"],
)
def test_a_terminal_gets_no_bar(program: str, environment: dict[str, str]) -> None:
    assert _on_terminal(program, **environment)[0] == ""


def test_nothing_is_shown_where_it_is_piped_and_rich_is_not_imported() -> None:
    program = SLOW + WORK + "print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("done\nFalse\n", "")


def test_without_rich_there_is_no_bar_and_no_error() -> None:
    program = """
    sys.modules["rich"] = None
    with operation("query", "x"):
        steps(4, 1.6)
    print("done")
    """
    assert _on_terminal(program) == ("", "done\n")


def test_a_job_shows_a_bar_to_whoever_waits_for_it() -> None:
    program = """
    from tests.clauses.custom import Slow
    store = ts.open("memory://")
    with ts.options(segment_rows=3):
        store.write("s", pa.table({"v": list(range(9))}))
    with ts.options(workers=1, inline_bytes=0):
        job = store.scan("s").then(Slow("v", seconds=0.8)).submit()
        time.sleep(1.5)
        print("waits", flush=True)
        job.result()
    """
    shown, printed = _on_terminal(program)
    assert printed == "waits\n"
    assert all(line.startswith("job 's' on local") for line in _lines(shown))


class _Bar:
    """Keeps what it is told to show."""

    def __init__(self) -> None:
        self.drawn: list[tuple[str, Progress]] = []
        self.erased = 0

    def draw(self, title: str, told: Progress, seconds: float) -> None:
        self.drawn.append((title, told))

    def erase(self) -> None:
        self.erased += 1


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> _Bar:
    made = _Bar()
    monkeypatch.setattr(progress, "_SHOWN_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_DRAWN_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(progress, "_drawer", progress._Drawer())
    monkeypatch.setattr(progress, "_display", lambda: lambda: made)
    return made


def _wait(condition: object) -> None:
    until = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.01)


def test_an_operation_within_another_is_part_of_it(bar: _Bar) -> None:
    with operation("import", "a\x1b[2Jb"), operation("write", "x"):
        telemetry.emit("step", total=5)
        _wait(lambda: bar.drawn and bar.drawn[-1][1].done == 1)
    assert {title for title, _ in bar.drawn} == {"import a\\x1b[2Jb"}
    assert bar.erased == 1
    count = len(bar.drawn)
    time.sleep(0.1)
    assert len(bar.drawn) == count  # nothing is drawn behind its end


def test_drawing_that_fails_fails_no_operation(
    bar: _Bar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bar, "draw", lambda *_: 1 / 0)
    with operation("query", "x"):
        _wait(lambda: progress._drawer.is_broken)
    assert "cannot be drawn" in caplog.text
    assert bar.erased == 1


def test_a_notebook_gets_an_element_below_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data)

    python, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    python.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    display.display = lambda data, raw, display_id: Handle()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    made = progress._display()
    assert made is not None
    bar = made()
    bar.draw("query <b>", Progress(1, 4, 2_500_000, 3_000_000), 2.0)
    bar.erase()
    assert shown[0]["text/plain"] == "query <b>   25 % 0:06 left  2.5 M rows, 3 MB"
    assert shown[0]["text/html"].startswith(
        '<progress max="4" value="1"></progress> query &lt;b&gt;'
    )
    assert shown[1] == {"text/plain": "", "text/html": ""}
    with ts.options(progress=False):
        assert progress._display() is None


# --- OpenTelemetry --------------------------------------------------------------------------------


def test_a_query_is_a_span_where_the_program_traces(store: ts.Store) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    with trace.get_tracer("test").start_as_current_span("mine") as mine:
        store.scan("s").filter("v > 100").collect()
        store.write("t", pa.table({"v": [1]}))
        with pytest.raises(ts.errors.TesselError):
            store.scan("s").apply("w", "v * 9223372036854775807").collect()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    first = next(s for s in exporter.get_finished_spans() if s.name == "tessel.query")
    assert first.parent.span_id == mine.get_span_context().span_id
    assert first.attributes == {"tessel.of": "s"}
    clause = spans["tessel.clause.process"]
    assert clause.attributes["tessel.clause"] in ("filter", "apply")
    assert first.start_time - 1_000_000 <= clause.start_time
    assert clause.end_time >= clause.start_time
    assert spans["tessel.write"].attributes == {"tessel.of": "t"}
    assert not spans["tessel.query"].status.is_ok  # the last one failed
