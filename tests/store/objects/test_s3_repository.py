"""A whole store in S3, against moto's HTTP server: versions, time travel, writers side by side."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import tessel
from tessel.errors import CommitConflictError, StoreNotFoundError
from tessel.store import Repository
from tests.store.helpers import read
from tests.store.objects.servers import CREDENTIALS, MotoServer

FIRST = pa.table({"t": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
MORE = pa.table({"t": [4, 5], "x": [4.0, None]})


def open_at(moto: MotoServer, uri: str, **more: bool) -> Repository:
    return Repository.open(uri, credentials=CREDENTIALS, options=moto.options, **more)


@pytest.fixture
def uri(moto: MotoServer) -> str:
    return f"s3://{moto.new_bucket()}/stores/one"


def test_write_append_and_read_as_of(moto: MotoServer, uri: str) -> None:
    with pytest.raises(StoreNotFoundError):
        open_at(moto, uri, create=False)
    repository = open_at(moto, uri)
    assert repository.uri == uri
    assert repository.write("a", FIRST, index="t") == 1
    assert repository.append("a", MORE) == 2
    again = open_at(moto, uri, read_only=True)
    assert again.newest == 2
    assert again.symbols() == ["a"]
    assert read(again.view("a")).equals(pa.concat_tables([FIRST, MORE]))
    assert read(again.view("a", as_of=1)).equals(FIRST)
    assert repository.delete("a") == 3
    assert again.symbols() == []
    assert read(again.view("a", as_of=2)).num_rows == 5


def test_many_segments_and_a_query(moto: MotoServer, uri: str) -> None:
    rows = 20_000
    table = pa.table({"t": range(rows), "x": [n % 7 for n in range(rows)]})
    with tessel.options(segment_rows=1_000):
        store = tessel.open(uri, credentials=CREDENTIALS, options=moto.options)
        store.write("a", table, index="t")
    found = store.read("a", query=tessel.QueryBuilder().filter("t >= 18500 and x == 3")).to_arrow()
    assert found.column("t").to_pylist() == [n for n in range(18_500, rows) if n % 7 == 3]


def test_two_writers_of_different_symbols_lose_nothing(moto: MotoServer, uri: str) -> None:
    open_at(moto, uri)
    landed: list[int] = []

    def write(symbol: str) -> None:
        repository = open_at(moto, uri)
        landed.append(repository.write(symbol, FIRST, index="t"))
        rows = (pa.table({"t": [start], "x": [0.0]}) for start in range(4, 10))
        landed.extend(repository.append(symbol, row) for row in rows)

    threads = [threading.Thread(target=write, args=(symbol,)) for symbol in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(landed) == list(range(1, 15))
    repository = open_at(moto, uri)
    assert repository.newest == 14
    for symbol in ("a", "b"):
        assert read(repository.view(symbol)).column("t").to_pylist() == list(range(1, 10))


def test_two_writers_of_one_symbol_conflict(moto: MotoServer, uri: str) -> None:
    first, second = open_at(moto, uri), open_at(moto, uri)
    first.write("a", FIRST, index="t")
    transaction = second.transaction()
    transaction.write("a", MORE, index="t")
    first.write("a", FIRST, index="t")
    with pytest.raises(CommitConflictError):
        transaction.commit()
    assert read(second.view("a")).equals(FIRST)
    assert second.newest == 2
