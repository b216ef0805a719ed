"""Small segments read in one pass: the same rows and errors as segments read one by one."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pytest

import tessel as ts
from tessel.errors import CorruptSegmentError, FormatVersionError, TesselError
from tessel.store.segment.file import SegmentFile

_START = dt.datetime(2024, 1, 1)


def _rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "t": pa.array([_START + dt.timedelta(seconds=i) for i in numbers], pa.timestamp("us")),
            "n": pa.array(numbers, pa.int64()),
            "price": pa.array([None if i % 5 == 3 else i / 4 for i in numbers], pa.float64()),
            "text": pa.array([None if i % 11 == 7 else f"é{i % 3}" for i in numbers], pa.string()),
            "flag": pa.array([i % 3 == 0 for i in numbers]),
            "clock": pa.array(list(numbers), pa.time32("s")),
            "list": pa.array([[i] * (i % 4) for i in numbers], pa.list_(pa.int32())),
            "kind": pa.array([f"k{i % 2}" for i in numbers]).dictionary_encode(),
        }
    )


@pytest.fixture(params=["one row each", "some rows each"])
def appended(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ts.Store, pa.Table]:
    draw = random.Random(7)
    store = ts.open(tmp_path / "store")
    parts, at = [], 0
    for number in range(40):
        count = 1 if request.param == "one row each" else draw.randint(1, 30)
        parts.append(_rows(at, count))
        at += count
        if number:
            store.append("x", parts[-1])
        else:
            store.write("x", parts[-1], index="t")
    return store, pa.concat_tables(parts)


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_are_those_appended(appended: tuple[ts.Store, pa.Table], workers: int) -> None:
    store, rows = appended
    with ts.options(workers=workers):
        for names in (["n", "text"], rows.column_names):
            found = store.read("x", columns=names).to_arrow()
            wanted = rows.select(names)
            assert found.num_rows == wanted.num_rows
            for name in names:
                assert found.column(name).to_pylist() == wanted.column(name).to_pylist(), name
        query = ts.QueryBuilder().filter("n % 3 == 1")
        kept = [i for i in rows.column("n").to_pylist() if i % 3 == 1]
        assert store.read("x", query=query).to_arrow().column("n").to_pylist() == kept


def test_small_segments_are_not_opened_one_by_one(
    appended: tuple[ts.Store, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, rows = appended
    opened: list[str] = []
    real = SegmentFile._from_tail.__func__  # type: ignore[attr-defined]

    def counted(cls, read, source, *rest):  # type: ignore[no-untyped-def]
        opened.append(source.name)
        return real(cls, read, source, *rest)

    monkeypatch.setattr(SegmentFile, "_from_tail", classmethod(counted))
    names = ["t", "n", "price", "text", "flag"]
    assert store.read("x", columns=names).to_arrow().num_rows == rows.num_rows
    # Runs of 16 and 24 rows of segments.
    assert not opened


def _outcome(path: Path) -> pa.Table | TesselError:
    try:
        return ts.open(path).read("x").to_arrow()
    except TesselError as error:
        return error


def test_damage_is_named_as_of_one_segment(tmp_path: Path) -> None:
    store = ts.open(tmp_path / "store")
    store.write("x", _rows(0, 1), index="t")
    for at in range(1, 24):
        store.append("x", _rows(at, 1))
    files = sorted(path for path in (tmp_path / "store").rglob("*") if path.is_file())
    files = [path for path in files if b"TSLSEG\r\n" in path.read_bytes()]
    assert len(files) == 24
    draw = random.Random(3)
    wanted = store.read("x").to_arrow()
    damaged = 0
    for path in files[3:9]:
        whole = path.read_bytes()
        for _ in range(6):
            at = draw.randrange(len(whole))
            path.write_bytes(
                whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]
            )
            found = _outcome(tmp_path / "store")
            if isinstance(found, TesselError):
                damaged += 1
                assert path.stem in str(found)
                assert isinstance(found, (CorruptSegmentError, FormatVersionError))
            else:
                assert found.equals(wanted)  # a bit between the pages
        path.write_bytes(whole)
    assert damaged > 6
