"""The table for people and the JSON file for programs."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.picture import can_draw, draw_report

if TYPE_CHECKING:
    from benchmarks.harness import Measured

RESULTS = Path(__file__).parent / "results"
OURS = "tessel"
_LOG_WIDTH = 140


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _LOG_WIDTH
    return console


def _megabytes(count: int | None) -> str:
    return "-" if count is None else f"{count / 1e6:,.0f} MB"


def _cell(measured: Measured | None, *, smoke: bool) -> str:
    if measured is None:
        return ""
    if measured.wrong:
        return "WRONG"
    if smoke:
        return "same" if measured.query != "write" else "wrote"
    if measured.query == "write":
        return f"{measured.median_ms:,.0f} ms\n{_megabytes(measured.size_bytes)} on disk"
    return (
        f"{measured.median_ms:,.1f} ms\nfirst {measured.first_ms:,.1f} · "
        f"{_megabytes(measured.peak_bytes)}"
    )


def _ratio(by_engine: Mapping[str, Measured]) -> str:
    """Return our time by that of the best other engine."""
    ratio = _ours_to_best({name: each.median_ms for name, each in by_engine.items()})
    return "" if ratio is None else f"{ratio:.2f}"


def _processor_ratio(by_engine: Mapping[str, Measured]) -> float | None:
    """Return our processor time by that of the engine that takes least; None without both."""
    return _ours_to_best({name: each.median_processor_ms for name, each in by_engine.items()})


def _ours_to_best(times: Mapping[str, float | None]) -> float | None:
    """Return the time of our engine, the first of several, by the least of others."""
    ours = [time for name, time in times.items() if time and name.startswith(OURS)]
    others = [time for name, time in times.items() if time and not name.startswith(OURS)]
    return ours[0] / min(others) if ours and others else None


def print_report(measured: Sequence[Measured], engines: Sequence[str], *, smoke: bool) -> None:
    """Print one table a workload: a line a query, a column an engine, and our ratio to the best.

    A cell holds the median of warm runs, the first run, and peak anonymous memory above what the
    process had before, the answer excluded. The last column is the ratio of processor times, of all
    cores, and the line below their geometric mean.
    """
    console = _console()
    for workload in dict.fromkeys(each.workload for each in measured):
        here = [each for each in measured if each.workload == workload]
        table = Table(title=workload, title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("query")
        table.add_column("rows", justify="right")
        for engine in engines:
            table.add_column(engine, justify="right")
        if not smoke:
            table.add_column(f"{OURS} / best other", justify="right")
            table.add_column("by processor", justify="right")
        ratios = []
        for query in dict.fromkeys(each.query for each in here):
            by_engine = {each.engine: each for each in here if each.query == query}
            rows = next(iter(by_engine.values())).rows
            cells = [_cell(by_engine.get(engine), smoke=smoke) for engine in engines]
            by_processor = _processor_ratio(by_engine)
            if by_processor is not None:
                ratios.append(by_processor)
            shown = "" if by_processor is None else f"{by_processor:.2f}"
            more = [] if smoke else [_ratio(by_engine), shown]
            table.add_row(query, f"{rows:,}", *cells, *more)
        console.print(table)
        if ratios:
            mean = statistics.geometric_mean(ratios)
            console.print(
                f"processor time against the best other: mean {mean:.2f}, "
                f"worst {max(ratios):.2f} (geometric, of {len(ratios)} queries)"
            )
    for each in measured:
        if each.wrong:
            console.print(f"{each.workload} {each.query}: {each.engine} is wrong: {each.wrong}")


def save_report(measured: Sequence[Mapping[str, Any]], versions: Mapping[str, str]) -> Path:
    """Write everything measured, and on what, into a new JSON file of ``results/``, and draw it."""
    RESULTS.mkdir(exist_ok=True)
    now = dt.datetime.now(dt.UTC)
    path = RESULTS / f"{now:%Y%m%dT%H%M%SZ}.json"
    facts = {
        "at": now.isoformat(),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "versions": dict(versions),
        "measured": list(measured),
    }
    path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"saved {path.relative_to(RESULTS.parent.parent)}")
    if can_draw():
        for picture in draw_report(measured, path):
            print(f"drew {picture.relative_to(RESULTS.parent.parent)}")
    return path
