"""Many small symbols touched in one commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from benchmarks.commits.stores import StoreKind
from benchmarks.commits.stores.base import rows
from tessel.display import Table

TOUCHED_MS = 100
_COLUMNS = (
    "store",
    "commit",
    "objects",
    "bytes",
    "staging ms",
    "encoding manifests ms",
    "first manifest byte to acknowledgement ms",
)


def measure(kind: StoreKind, folder: Path, symbols: int, rounds: int) -> list[tuple[object, ...]]:
    """Write symbols in one commit, then append a row to each, again and again."""
    store = kind.open(folder / f"small-{kind.name}", create=True)
    names = [f"s{number:06}" for number in range(symbols)]
    lines: list[tuple[object, ...]] = []
    for number in range(rounds + 1):
        more = rows(2 + number, 1) if number else rows(1, 2)
        objects, size = store.written()
        timing = store.commit(dict.fromkeys(names, more), new=not number)
        objects_after, size_after = store.written()
        lines.append(
            (
                kind.name,
                "append" if number else "write",
                objects_after - objects,
                size_after - size,
                round(timing.staging),
                None if timing.encoding is None else round(timing.encoding, 1),
                round(timing.acknowledging, 1),
            )
        )
    expected = rows(1, 2 + rounds)
    for name in (names[0], names[symbols // 2], names[-1]):
        check(kind, name, store.read(name), expected)
    return lines


def check(kind: StoreKind, symbol: str, found: pa.Table, expected: pa.Table) -> None:
    """Check that a store holds what was committed; no time counts otherwise."""
    if not found.combine_chunks().equals(expected.combine_chunks()):
        raise SystemExit(
            f"{kind.name}: symbol {symbol!r} holds {found.num_rows} rows that are not the "
            f"{expected.num_rows} that were committed"
        )


def table(lines: list[tuple[object, ...]], symbols: int, notes: list[str]) -> Table:
    """Return the lines of all stores."""
    aim = f"aims for tessel: at most 10 objects, {TOUCHED_MS} ms in the last column"
    told = "where encoding is not told, the last column holds it"
    title = f"{symbols} small symbols in one commit"
    return Table(title, _COLUMNS, tuple(lines), notes=(aim, told, *notes))
