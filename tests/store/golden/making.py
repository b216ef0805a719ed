"""What is in a golden store, and how one is made.

``python -m tests.store.golden.making FILE.tar.xz``: one archive for each version of the format, by
a release that wrote that version. None is ever made again, for ids and times in a store are its
own and another one would be other bytes. When the version of the format goes up, run this once and
add the archive and its digest to ``test_golden``.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

_DAY = 86_400_000_000

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("price", pa.float64()),
        ("size", pa.int32()),
        ("venue", pa.dictionary(pa.int32(), pa.string())),
        ("note", pa.string()),
        ("parts", pa.list_(pa.int64())),
        ("halted", pa.bool_()),
    ]
)


def rows(first: int, stop: int) -> pa.Table:
    """Return rows of the symbol ``trades``: every kind of missing value, signs, texts, lists."""
    numbers = range(first, stop)
    columns: list[list[Any]] = [
        [number * _DAY for number in numbers],
        [(float("nan"), -0.0, 1.5, None, float("inf"))[n % 5] for n in numbers],
        [None if n % 7 == 3 else 1_000 * n - 20_000 for n in numbers],
        [("XETR", "XNYS", None)[n % 3] for n in numbers],
        [("", "é", "\U0001f642", None, "a\nb")[n % 5] for n in numbers],
        [([], [n], None, [1, None, n])[n % 4] for n in numbers],
        [(True, False, None)[n % 3] for n in numbers],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def write_store(path: Path) -> None:
    """Write a store with every kind of object, by verbs that all releases have, and then others."""
    from tessel.options import options
    from tessel.store import Repository

    with options(segment_rows=16):
        store = Repository.open(path)
        store.write("trades", rows(0, 40), index="time", metadata={"source": "golden", "n": [1]})
        store.append("trades", rows(40, 50))
        store.write("..", {"x": [1, 2, 3]})
        if hasattr(store, "create_tag"):
            store.create_tag("audited", at=2)
            store.create_branch("trial", at=1)
            Repository.open(path, branch="trial").write("only on trial", {"y": ["z"]})


def archive(path: Path, target: Path) -> None:
    """Put the files of a store into an archive, sorted, without owners or times."""
    with tarfile.open(target, "w:xz", format=tarfile.USTAR_FORMAT) as into:
        files = (p for p in path.rglob("*") if p.is_file() and ".tessel-tmp" not in p.parts)
        for file in sorted(files):
            facts = tarfile.TarInfo(file.relative_to(path).as_posix())
            facts.size = os.path.getsize(file)
            with file.open("rb") as data:
                into.addfile(facts, data)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_store(Path(folder) / "store")
        archive(Path(folder) / "store", Path(sys.argv[1]))
