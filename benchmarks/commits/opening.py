"""From a cold open to the first row: which requests it takes."""

from __future__ import annotations

from collections import Counter

from benchmarks.commits.measure import Asked
from benchmarks.commits.simulated import simulate_symbols
from benchmarks.commits.stores.base import rows
from tessel.display import Table
from tessel.store.history.documents import open_store
from tessel.store.repository import Repository

MOST_REQUESTS = 6


def measure(sizes: list[int]) -> Table:
    """Return the requests for the first rows of a symbol among ever more of them."""
    lines = []
    for symbols in sizes:
        objects = Asked(f"memory://opening{symbols}")
        open_store(objects, create=True, read_only=False)
        writing = Repository(objects, "id", read_only=False)
        simulate_symbols(writing, symbols)
        writing.write("prices", rows(0, 1_000), index="t")
        objects.requests.clear()
        view = Repository(objects, "id", read_only=True).view("prices")
        index, source = view.index(), view.source()
        first = source.load(index.source(0))
        if not first.equals(rows(0, 1_000).slice(0, first.num_rows)):
            raise SystemExit("the first rows are not those that were written")
        kinds = ", ".join(f"{n} x {kind}" for kind, n in Counter(objects.requests).items())
        lines.append((symbols, len(objects.requests), kinds))
    return Table(
        "a cold open to the first row: tessel",
        ("symbols", "requests", "which"),
        tuple(lines),
        notes=(f"aim: at most {MOST_REQUESTS}; one more in parallel for store.json",),
    )
