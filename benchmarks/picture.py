"""Pictures of what was measured: one a workload, a row of bars a query, on a scale of logarithms.

``python -m benchmarks.picture benchmarks/results/NAME.json`` draws a file that was saved before.
altair and vl-convert-python draw (extra ``bench``).
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["can_draw", "draw_growth", "draw_report"]

_BAR_PIXELS = 14
_WIDTH_PIXELS = 460
_WHOLE_MS = 100


def can_draw() -> bool:
    """Return whether what draws is installed."""
    return all(importlib.util.find_spec(name) for name in ("altair", "vl_convert"))


def draw_growth(
    title: str, sizes: str, points: Sequence[tuple[str, float, float]], path: Path
) -> Path:
    """Draw how a time grows, on scales of logarithms.

    Parameters
    ----------
    title, sizes
        What was timed, and what the sizes count.
    points
        For each point the name of its line, the size, and milliseconds.
    path
        The SVG file.
    """
    import altair as alt

    rows = [{"line": line, "size": size, "ms": ms} for line, size, ms in points]
    chart = (
        alt.Chart(alt.Data(values=rows), title=title)
        .mark_line(point=True)
        .encode(
            x=alt.X("size:Q", scale=alt.Scale(type="log"), title=sizes),
            y=alt.Y("ms:Q", scale=alt.Scale(type="log"), title="milliseconds"),
            color=alt.Color("line:N", title=None),
        )
        .properties(width=_WIDTH_PIXELS, height=_WIDTH_PIXELS // 2)
    )
    chart.save(path)
    return path


def draw_report(measured: Sequence[Mapping[str, Any]], path: Path) -> list[Path]:
    """Draw the medians of warm runs beside one another.

    Parameters
    ----------
    measured
        As the harness saves it.
    path
        The file that it was saved to; pictures lie beside it.

    Returns
    -------
    list of pathlib.Path
        SVG files, one a workload.
    """
    import altair as alt

    drawn: list[Path] = []
    for workload in dict.fromkeys(each["workload"] for each in measured):
        rows = [
            {"query": each["query"], "engine": each["engine"], "ms": ms, "words": _words(ms)}
            for each in measured
            if each["workload"] == workload and each["warm_ms"] and not each["wrong"]
            for ms in [median(each["warm_ms"])]
        ]
        if not rows:
            continue
        order = list(dict.fromkeys(row["engine"] for row in rows))
        queries = list(dict.fromkeys(row["query"] for row in rows))
        # A scale of logarithms has no zero for bars to begin at.
        least = 10.0 ** math.floor(math.log10(min(row["ms"] for row in rows)))
        scale = alt.Scale(type="log", domainMin=least)
        bars = (
            alt.Chart()
            .mark_bar()
            .encode(
                x=alt.X("ms:Q", scale=scale, title="milliseconds"),
                x2=alt.datum(least),
                y=alt.Y("engine:N", sort=order, title=None, axis=None),
                color=alt.Color("engine:N", sort=order, title=None),
            )
            .properties(width=_WIDTH_PIXELS, height=alt.Step(_BAR_PIXELS))
        )
        words = bars.mark_text(align="left", dx=3, fontSize=9).encode(
            x2=alt.value(0), text="words:N", color=alt.value("black")
        )
        label = alt.Header(labelAngle=0, labelAlign="left")
        chart = alt.layer(bars, words, data=alt.Data(values=rows)).facet(
            row=alt.Row("query:N", sort=queries, title=None, header=label),
            spacing=4,
            title=f"{workload}: median of warm runs",
        )
        found = path.with_name(f"{path.stem}-{workload}.svg")
        chart.save(found)
        drawn.append(found)
    return drawn


def _words(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= _WHOLE_MS else f"{ms:,.1f}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        saved = Path(name)
        for picture in draw_report(json.loads(saved.read_text("utf-8"))["measured"], saved):
            print(f"drew {picture}")
