"""Events that earlier releases wrote, and what is in them.

``python -m tests.store.events.golden.making FOLDER`` writes an event file, the requests of a
producer, and a store with a saved recording, all of the same events, and an archive of them beside
the folder. Each archive was made once, by a release that wrote events so, and is never made again.
"""

from __future__ import annotations

import datetime as dt
import sys
import tarfile
from pathlib import Path

import pyarrow as pa

import tessel
from tessel.store.events import Cell, LiveStore, Row, Table, id_bytes, wire

FOLDER = Path(__file__).parent
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
EVENTS, REQUESTS, STORE = "run.events", "run.requests", "store"
REQUEST_BYTES = 1 << 20


def rows() -> list[Row]:
    """Return events of every kind, in the words of the first release."""

    def cell(name: str, *values: object, kind: pa.DataType | None = None) -> Cell:
        return Cell.from_values(name, values, kind)

    keyed = Row(
        id_bytes(1_000, 3), "scene/cars", {"frame": 2}, 2,
        [cell("size", 1.5, 2.5)], instance_keys=pa.array(["a", "b"]),
    )  # fmt: skip
    packed = Cell.from_arrow("kind", pa.array(["x", "y", "x"]).dictionary_encode())
    return [
        Row(id_bytes(1_000, 1), "robot/arm", {"frame": 1}, 1, [cell("angle", 0.5)]),
        Row(id_bytes(1_000, 2), "robot/arm", {"frame": 2, "at": NOON}, 1, [cell("angle", -0.0)]),
        keyed,
        Row(id_bytes(1_001, 1), "robot/arm", {"frame": 3}, 3, [packed, cell("angle", 1.0)]),
        Row(id_bytes(1_001, 2), "robot/arm", {}, 1, [cell("name", "é")]),
        Row(
            id_bytes(1_001, 3), "robot", {"lap": dt.timedelta(1)}, 1, [cell("n", 1, kind=pa.int8())]
        ),
        Row.clear(id_bytes(1_002, 1), "robot", {"frame": 4}, recursive=True),
        Row(id_bytes(1_002, 2), "robot/arm", {"frame": 5}, 0, [cell("angle", kind=pa.float64())]),
        Row(id_bytes(1_002, 3), "robot/arm", {"frame": 6}, 1, [cell("point", {"x": 1, "y": 2})]),
    ]


def write(folder: Path) -> None:
    """Write the events in every form."""
    live = LiveStore()
    live.insert(Table.from_rows(rows()))
    live.dump(folder / EVENTS)
    requests = wire.Encoder(REQUEST_BYTES).requests(live.batches(), 0)
    (folder / REQUESTS).write_bytes(b"".join(requests))
    live.save(tessel.open(str(folder / STORE)), "run")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    write(target)
    with tarfile.open(f"{target}.tar.xz", "w:xz") as archive:
        for name in (EVENTS, REQUESTS, STORE):
            archive.add(target / name, name)
