"""Time queries on several engines, side by side: ``python -m benchmarks.harness --help``.

Rules: one engine a process; answers are compared before anything is timed; the first run and warm
runs are told apart; every value of an answer is touched; medians of at least five; peak anonymous
memory beside each time; engines take turns query by query, because machines drift.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyarrow import feather, parquet

from benchmarks.answers import difference
from benchmarks.engines import DEFAULT_ENGINES, ENGINE_NAMES
from benchmarks.report import print_report, save_report
from benchmarks.workloads import NAMES, Query, Workload, workload_named

LEAST_REPEAT = 5
REFERENCE = "duckdb"
"""Whose answer the others are compared with; the first engine asked, where it is left out."""


@dataclass(slots=True)
class Measured:
    """What one engine did with one query (or with the write)."""

    workload: str
    query: str
    engine: str
    rows: int = 0
    wrong: str | None = None
    first_ms: float | None = None
    warm_ms: list[float] = field(default_factory=list)
    processor_ms: list[float] = field(default_factory=list)
    peak_bytes: int | None = None
    output_bytes: int | None = None
    size_bytes: int | None = None

    @property
    def median_ms(self) -> float | None:
        """Return the median of the warm runs."""
        return statistics.median(self.warm_ms) if self.warm_ms else None

    @property
    def median_processor_ms(self) -> float | None:
        """Return the median of the processor time that warm runs took, of all cores."""
        return statistics.median(self.processor_ms) if self.processor_ms else None


@dataclass(slots=True)
class Session:
    """One run of the harness."""

    folder: Path
    engines: Sequence[str]
    repeat: int
    smoke: bool
    seed: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    measured: list[Measured] = field(default_factory=list)

    @contextlib.contextmanager
    def worker(self, engine: str, workload: Workload, task: str, *more: str) -> Iterator[Any]:
        """Start a process that runs one engine; an error of its own ends the harness."""
        command = [sys.executable, "-m", "benchmarks.worker", task, "--engine", engine]
        command += ["--workload", workload.name, "--repeat", str(self.repeat)]
        command += ["--seed", str(self.seed)]
        command += ["--folder", str(self.folder / workload.name / engine), *more]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            if process.wait():
                raise SystemExit(f"{engine} failed at {task} of {workload.name}")

    def answers_folder(self, workload: Workload, engine: str) -> Path:
        """Return where an engine saves its answers."""
        return self.folder / workload.name / f"answers-{engine}"


def _heard(process: Any) -> dict[str, Any]:
    line = process.stdout.readline()
    if not line:
        raise SystemExit("the process of an engine ended before it answered")
    found: dict[str, Any] = json.loads(line)
    return found


def _write(session: Session, workload: Workload, rows: int) -> None:
    source = session.folder / workload.name
    source.mkdir(exist_ok=True)
    for each in reversed(workload.tables):
        table = each.make(rows)
        parquet.write_table(table, source / f"{each.name}.parquet")
    rows = table.num_rows
    del table
    for engine in session.engines:
        if not any(engine in query.answers for query in workload.queries):
            continue
        with session.worker(engine, workload, "write", "--source", str(source)) as process:
            heard = _heard(process)
        session.versions[engine] = heard["version"]
        session.measured.append(
            Measured(
                workload.name,
                "write",
                engine,
                rows=rows,
                warm_ms=[] if session.smoke else heard["write_ms"],
                size_bytes=heard["size_bytes"],
            )
        )


def _check(session: Session, workload: Workload, query: Query, measured: Measured) -> None:
    reference = next(engine for engine in session.engines if engine in query.answers)
    if measured.engine == reference:
        return
    file = f"{query.name}.arrow"
    expected = feather.read_table(session.answers_folder(workload, reference) / file)
    found = feather.read_table(session.answers_folder(workload, measured.engine) / file)
    measured.wrong = difference(found, expected)


def _ask(
    session: Session, workload: Workload, engine: str, queries: Sequence[Query], rows: int
) -> None:
    """Let one engine answer, in one process."""
    names = [query.name for query in queries]
    answers = str(session.answers_folder(workload, engine))
    with session.worker(
        engine, workload, "ask", "--answers", answers, "--queries", *names
    ) as process:
        for query in queries:
            heard = _heard(process)
            measured = Measured(workload.name, query.name, engine, rows=heard["rows"])
            measured.output_bytes = heard["output_bytes"]
            _check(session, workload, query, measured)
            session.measured.append(measured)
            if measured.wrong or session.smoke:
                process.stdin.write("stop\n")
                continue
            process.stdin.write("go\n")
            timed = _heard(process)
            measured.first_ms, measured.warm_ms = heard["first_ms"], timed["warm_ms"]
            measured.processor_ms = timed["processor_ms"]
            if timed["peak_bytes"] is not None:
                # The answer itself belongs to the caller, not to the engine.
                measured.peak_bytes = max(0, timed["peak_bytes"] - heard["output_bytes"])


def _run(session: Session, workload: Workload, rows: int, only: Sequence[str]) -> None:
    _write(session, workload, rows)
    queries = [query for query in workload.queries if not only or query.name in only]
    if session.smoke or workload.together:
        for engine in session.engines:
            able = [query for query in queries if engine in query.answers]
            if able:
                _ask(session, workload, engine, able, rows)
        return
    for query in queries:
        for engine in session.engines:
            if engine in query.answers:
                _ask(session, workload, engine, [query], rows)


def _whole(text: str) -> int:
    return int(text.replace("_", ""))


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("workloads", nargs="*", default=[], help=f"of {', '.join(NAMES)}")
    parser.add_argument("--engines", nargs="+", choices=ENGINE_NAMES, default=list(DEFAULT_ENGINES))
    parser.add_argument("--queries", nargs="+", default=[], help="only these")
    parser.add_argument("--rows", type=_whole, help="rows of the table, 1_000_000 for instance")
    parser.add_argument("--seed", type=int, help="of the workload unseen; default: a fresh one")
    parser.add_argument("--repeat", type=int, default=7, help="timed runs, at least 5")
    parser.add_argument("--smoke", action="store_true", help="compare answers, time nothing")
    parser.add_argument("--folder", type=Path, help="where tables are written; default: temporary")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.workloads if name not in NAMES]
    if unknown:
        parser.error(f"no workload {unknown[0]!r}: there are {', '.join(NAMES)}")
    if options.repeat < LEAST_REPEAT:
        parser.error(f"--repeat is at least {LEAST_REPEAT}: a median of fewer says little")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the harness; 1 if any two engines disagree."""
    options = _arguments(arguments)
    # The reference goes first: the others are compared with it.
    engines = sorted(options.engines, key=lambda name: name != REFERENCE)
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    workloads = [workload_named(name, seed) for name in options.workloads or NAMES]
    if any(workload.name == "unseen" for workload in workloads):
        print(f"unseen: --seed {seed}", flush=True)
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        repeat = 1 if options.smoke else options.repeat
        session = Session(folder, engines, repeat, options.smoke, seed)
        for workload in workloads:
            rows = options.rows or (workload.smoke_rows if options.smoke else workload.rows)
            _run(session, workload, rows, options.queries)
    print_report(session.measured, session.engines, smoke=options.smoke)
    if not options.smoke:
        save_report([asdict(each) for each in session.measured], session.versions)
    return int(any(each.wrong for each in session.measured))


if __name__ == "__main__":
    sys.exit(main())
