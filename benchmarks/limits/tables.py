"""What grows with a table or a store: columns, groups, symbols, segments, branches, tags."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import tessel as ts
from benchmarks.commits.simulated import simulate
from benchmarks.limits.slopes import Case, Work
from tessel.expression import all_of, col
from tessel.expression.schema import TableSchema

__all__ = ["CASES"]

_ROWS = 4


def _wide(count: int) -> pa.Table:
    numbers = np.arange(_ROWS)
    names = ["t", *(f"c{at}" for at in range(count))]
    return pa.Table.from_arrays([pa.array(numbers)] * len(names), names=names)


def _later(table: pa.Table, by: int = 1) -> pa.Table:
    return table.set_column(0, "t", pa.array(np.arange(_ROWS) + by * _ROWS))


def _wide_store(count: int, segments: int = 1) -> ts.Store:
    store = ts.open("memory://")
    store.write("s", _wide(count), index="t")
    for at in range(1, segments):
        store.append("s", _later(_wide(count), at))
    return store


def _names(count: int) -> list[str]:
    return [f"c{at}" for at in range(count)]


def _on_wide(make: Callable[[int], ts.QueryBuilder]) -> tuple[Callable[[int], Work], ...]:
    def planned(count: int) -> Work:
        store, query = _wide_store(count), make(count)
        return lambda: str(store.explain("s", query))

    def run(count: int) -> Work:
        store, query = _wide_store(count), make(count)
        return lambda: store.read("s", query=query).to_arrow()

    def carried(count: int) -> Work:
        query = make(count)
        return lambda: ts.QueryBuilder.from_json(json.loads(json.dumps(query.to_json())))

    return planned, run, carried


_Q = ts.QueryBuilder()
_WIDE: dict[str, Callable[[int], ts.QueryBuilder]] = {
    "columns read": lambda n: _Q,
    "columns of which one is filtered": lambda n: _Q.filter(col("c0") > 0),
    "columns filtered": lambda n: _Q.filter(all_of(col(name) > 0 for name in _names(n))),
    "columns selected": lambda n: _Q.select(*_names(n)),
    "columns dropped": lambda n: _Q.drop(*_names(n)),
    "columns renamed": lambda n: _Q.rename({name: f"x{name}" for name in _names(n)}),
    "columns cast": lambda n: _Q.cast(dict.fromkeys(_names(n), "float64")),
    "columns applied": lambda n: _Q.with_columns(**{name: col(name) + 1 for name in _names(n)}),
    "columns added": lambda n: _Q.with_columns(**{f"x{name}": col(name) + 1 for name in _names(n)}),
    "columns added, each of the one before": lambda n: _Q.with_columns(
        **{f"x{at}": col(f"x{at - 1}" if at else "c0") + 1 for at in range(n)}
    ),
    "columns filled": lambda n: _Q.fill(_names(n), "forward"),
    "columns shifted": lambda n: _Q.shift(_names(n), 1),
    "columns summed along rows": lambda n: _Q.cum_sum(_names(n)),
    "columns in windows": lambda n: _Q.rolling(3).agg(dict.fromkeys(_names(n), "sum")),
    "columns described": lambda n: _Q.describe(quantiles=False),
    "aggregates": lambda n: _Q.agg(dict.fromkeys(_names(n), "sum")),
    "aggregates of one column": lambda n: _Q.agg(**{f"x{i}": ("c0", "sum") for i in range(n)}),
    "aggregates of groups": lambda n: _Q.groupby("t").agg(dict.fromkeys(_names(n), "max")),
    "aggregates of expressions": lambda n: _Q.agg(
        **{f"x{name}": (col(name) + 1).sum() for name in _names(n)}
    ),
    "aggregates that are computed with": lambda n: _Q.agg(
        **{f"x{name}": col(name).sum() / 2 for name in _names(n)}
    ),
    "aggregates of buckets": lambda n: _Q.resample("1h").agg(dict.fromkeys(_names(n), "sum")),
    "medians": lambda n: _Q.agg(dict.fromkeys(_names(n), "median")),
    "keys": lambda n: _Q.groupby(*_names(n)).agg(t=("t", "max")),
    "keys of a sort": lambda n: _Q.sort(*_names(n)),
    "keys of distinct": lambda n: _Q.distinct(*_names(n)),
    "columns concatenated": lambda n: _Q.concat("s"),
    "columns merged": lambda n: _Q.merge("s"),
    "columns joined": lambda n: _Q.join("s", "c0"),
    "keys of a join": lambda n: _Q.join("s", _names(n)),
}


def _queries() -> Iterator[Case]:
    for name, make in _WIDE.items():
        if "buckets" in name:
            continue
        most = 1 << 10 if "key" in name else 1 << 13
        for what, work in zip(("explain", "run", "to JSON and back"), _on_wide(make), strict=True):
            if what == "to JSON and back" and make(1) == make(2):
                continue  # the columns are those of the table: the query does not name them
            yield Case(f"{what}: {name}", work, 128, most, 8)


# --- stores ---------------------------------------------------------------------------------------


def _write_wide(count: int) -> Work:
    store, table = ts.open("memory://"), _wide(count)
    return lambda: store.write("s", table, index="t")


def _append_wide(count: int) -> Work:
    store, table = _wide_store(count), _wide(count)
    table = _later(table)
    return lambda: store.append("s", table)


def _evolve(count: int) -> Work:
    store, table = ts.open("memory://"), _wide(count)
    store.write("s", _wide(1), index="t")
    table = _later(table)
    return lambda: store.append("s", table, evolve="add")


def _update_wide(count: int) -> Work:
    store, table = _wide_store(count), _wide(count)
    return lambda: store.update("s", table)


def _upsert_wide(count: int) -> Work:
    store, table = _wide_store(count), _wide(count)
    return lambda: store.upsert("s", table, keys=["t"])


def _physical(count: int) -> Work:
    store = _wide_store(count)
    return lambda: store.physical("s")


def _compact_wide(count: int) -> Work:
    store = _wide_store(count, 3)
    return lambda: store.compact("s")


def _rename_columns(count: int) -> Work:
    store = _wide_store(count)
    return lambda: store.rename_columns("s", {name: f"x{name}" for name in _names(count)})


def _difference(count: int) -> Work:
    store = _wide_store(count)
    store.write("s", _wide(count + 8), index="t")
    return lambda: store.diff(1)


def _groups(count: int) -> Work:
    store = ts.open("memory://")
    store.write("s", pa.table({"k": np.arange(count), "v": np.arange(count)}))
    query = _Q.groupby("k").agg(v=("v", "sum"))
    return lambda: store.read("s", query=query).to_arrow()


def _groups_of_text(count: int) -> Work:
    store = ts.open("memory://")
    store.write("s", pa.table({"k": [f"k{i}" for i in range(count)], "v": np.arange(count)}))
    query = _Q.groupby("k").agg(v=("v", "sum"))
    return lambda: store.read("s", query=query).to_arrow()


def _segments(count: int) -> tuple[ts.Store, TableSchema]:
    store = ts.open("memory://")
    schema = TableSchema(pa.schema([("t", pa.timestamp("us"))]), "t")
    simulate(store, "s", count, schema)
    return store, schema


def _plan_segments(count: int) -> Work:
    store, _ = _segments(count)
    query = _Q.date_range("1970-01-01", None).filter(col("t") > np.datetime64(1, "us"))
    return lambda: str(store.explain("s", query))


def _symbols(count: int) -> ts.Store:
    store = ts.open("memory://")
    row = pa.table({"t": [1], "v": [1]})
    with store.transaction() as together:
        for at in range(count):
            together.write(f"s{at:06d}", row, index="t")
    return store


def _written_together(count: int) -> Work:
    return lambda: _symbols(count)


def _written_apart(count: int) -> Work:
    store, row = ts.open("memory://"), pa.table({"t": [1], "v": [1]})

    def work() -> None:
        for at in range(count):
            store.write(f"s{at:06d}", row, index="t")

    return work


def _on_symbols(work: Callable[[ts.Store, list[str]], Any]) -> Callable[[int], Work]:
    def made(count: int) -> Work:
        store = _symbols(count)
        names = [f"s{at:06d}" for at in range(count)]
        return lambda: work(store, names)

    return made


def _no_such_symbol(store: ts.Store, names: list[str]) -> None:
    try:
        store.read("S00000")
    except ts.TesselError as error:
        str(error)


def _commits(count: int) -> ts.Store:
    store = ts.open("memory://")
    row = pa.table({"v": [1]})
    for _ in range(count):
        store.write("s", row)
    return store


def _on_commits(work: Callable[[ts.Store], Any]) -> Callable[[int], Work]:
    def made(count: int) -> Work:
        store = _commits(count)
        return lambda: work(store)

    return made


def _refs(kind: str, then: Callable[[ts.Store, list[str]], Any]) -> Callable[[int], Work]:
    def made(count: int) -> Work:
        store = _commits(1)
        names = [f"r{at}" for at in range(count)]
        for name in names:
            getattr(store, f"create_{kind}")(name)
        return lambda: then(store, names)

    return made


def _one_more(store: ts.Store, names: list[str]) -> None:
    store.create_branch(f"{names[-1]}more")


def _metadata(count: int) -> Work:
    store = _commits(1)
    return lambda: (
        store.set_metadata("s", {f"k{at}": at for at in range(count)}),
        store.view("s").metadata,
    )


def _stores() -> Iterator[Case]:
    yield Case("write: columns", _write_wide, 128, 1 << 13, 16)
    yield Case("append: columns", _append_wide, 128, 1 << 13, 16)
    yield Case("append: columns that are new", _evolve, 128, 1 << 13, 16)
    yield Case("update: columns", _update_wide, 128, 1 << 13, 16)
    yield Case("upsert: columns", _upsert_wide, 128, 1 << 13, 16)
    yield Case("compact: columns", _compact_wide, 128, 1 << 12, 16)
    yield Case("rename: columns", _rename_columns, 128, 1 << 13, 16)
    yield Case("physical: columns", _physical, 128, 1 << 12, 16)
    yield Case("diff: columns", _difference, 128, 1 << 13, 16)
    yield Case("group: integers", _groups, 1 << 12, 1 << 20, 1 << 10)
    yield Case("group: texts", _groups_of_text, 1 << 12, 1 << 19, 1 << 10)
    yield Case("explain: segments", _plan_segments, 1 << 12, 1 << 20, 1 << 8)
    yield Case("write symbols in a transaction", _written_together, 64, 1 << 12, 16)
    yield Case("write new symbols one by one", _written_apart, 64, 1 << 11, 16)
    for name, work in _SYMBOLS.items():
        yield Case(f"{name}: symbols", _on_symbols(work), 64, 1 << 12, 16)
    # Of the 512 newest entries of the log what was read is kept: others are read again.
    yield Case("log: commits", _on_commits(lambda store: store.log()), 1 << 10, 1 << 13, 16)
    yield Case("versions: commits", _on_commits(lambda s: s.versions("s")), 1 << 10, 1 << 13, 16)
    yield Case("create one more: branches", _refs("branch", _one_more), 16, 1 << 9, 8)
    yield Case("create one more: tags", _refs("tag", _one_more), 16, 1 << 9, 8)
    yield Case("list: branches", _refs("branch", lambda s, _: s.branches()), 16, 1 << 9, 8)
    yield Case("list: tags", _refs("tag", lambda s, _: s.tags()), 16, 1 << 9, 8)
    yield Case("metadata: keys", _metadata, 1 << 8, 1 << 15, 32)


_SYMBOLS: dict[str, Callable[[ts.Store, list[str]], Any]] = {
    "list": lambda store, names: store.symbols(),
    "list by pattern": lambda store, names: store.symbols("s.*1"),
    "repr": lambda store, names: repr(store),
    "read one by one": lambda store, names: store.read_many(names),
    "concat": lambda store, names: store.scan(names[0]).concat(*names[1:]).collect(),
    "merge": lambda store, names: store.scan(names[0]).merge(*names[1:]).collect(),
    "explain a concat": lambda store, names: str(
        store.explain(names[0], _Q.concat(*names[1:]).filter(col("v") > 0))
    ),
    "append one by one": lambda store, names: [
        store.append(name, pa.table({"t": [2], "v": [2]})) for name in names
    ],
    "delete one by one": lambda store, names: [store.delete(name) for name in names],
    "no such symbol": _no_such_symbol,
    "check": lambda store, names: store.check(),
    "collect": lambda store, names: store.gc(),
}

CASES = (*_queries(), *_stores())
"""What is measured of tables and stores."""
