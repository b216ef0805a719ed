"""A table and questions that nobody could tune for: drawn anew from a seed at every run.

    python -m benchmarks.harness unseen              # from a fresh seed, which is printed
    python -m benchmarks.harness unseen --seed 7

The seed chooses widths and skew of keys, decimals or raw doubles, how many values are missing, the
length of text, the unit and the density of times, the cut into column slices, from which row on a
column exists, and what each question asks for. Questions are of the kinds that people ask most, and
of those that nobody aimed at: a million groups, sort, median, a search in text, a join with a small
table on either side.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Query, Workload

__all__ = ["drawn_from"]

_WORDS = ("alpha", "bravo", "chunk", "delta", "echo", "ferry", "gamma", "hotel", "index")
_DAY_US = 86_400_000_000


class _Drawn:
    """What a seed chose."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        self.seed = seed
        self.places = chance.choice([0, 1, 2, 3, 4, None])  # None: doubles as they come
        self.kinds = chance.randint(3, 9)
        self.keys = chance.choice([60, 500, 3_000, 12_000])
        self.text_keys = chance.random() < 0.5
        self.skew = chance.choice([0.0, 0.7, 1.3])
        self.most = chance.choice([100, 20_000, 3_000_000])
        self.missing = chance.choice([0.01, 0.2, 0.6])
        self.words = chance.randint(2, 9)
        self.step_us = chance.choice([300, 20_000, 900_000])
        self.slices = chance.choice([0, 3, 4])
        self.late = chance.choice([0.1, 0.4, 0.8])
        self.sorted_ids = chance.random() < 0.3
        self.few = chance.choice([1e-4, 1e-3, 1e-2])
        self.many = chance.choice([0.1, 0.4, 0.9])
        self.word = chance.choice(_WORDS)
        self.other_word = chance.choice(_WORDS)
        self.window = chance.choice([5, 20, 100])
        self.bucket = chance.choice(["1min", "7min", "1h", "1D"])
        self.cities = chance.choice([4, 20, 50])
        self.chosen = chance.choice([1, 2, 4])
        self.picks = chance.choice([20, 1_000, 20_000])

    def price_at(self, share: float) -> float:
        """Return a price below which about this share of all lies."""
        return round(1_000 * share**2 + 1, self.places if self.places is not None else 6)

    def size_at(self, share: float) -> int:
        """Return a size below which about this share of all lies."""
        return int(self.most * share)


def _key_names(drawn: _Drawn, numbers: np.ndarray, count: int) -> pa.Array:
    if not drawn.text_keys:
        return pa.array(numbers * 7 + 100)
    words = pa.array([f"{_WORDS[at % len(_WORDS)]}-{at}" for at in range(count)])
    return words.take(pa.array(numbers))


def _skewed(drawn: _Drawn, random: np.random.Generator, count: int, rows: int) -> np.ndarray:
    weights = np.arange(1, count + 1) ** -drawn.skew
    return random.choice(count, rows, p=weights / weights.sum())


def _make(drawn: _Drawn, rows: int) -> pa.Table:
    """Return the table that questions are asked of."""
    random = np.random.Generator(np.random.PCG64(drawn.seed))
    times = np.cumsum(random.integers(1, 2 * drawn.step_us, rows))
    price = 1_000 * random.random(rows) ** 2 + 1
    if drawn.places is not None:
        price = np.round(price, drawn.places)
    ids = random.integers(0, max(1, rows // 2), rows)
    if drawn.sorted_ids:
        ids.sort()
    kinds = pa.array([f"kind {at}" for at in range(drawn.kinds)])
    text = random.integers(0, len(_WORDS), (min(rows, 1 << 16), drawn.words))
    notes = pa.array([" ".join(_WORDS[at] for at in line) + f" {n}" for n, line in enumerate(text)])
    late = random.normal(50, 9, rows).round(2)
    return pa.table(
        {
            "t": pa.array(times + 19_000 * _DAY_US, pa.timestamp("us")),
            "kind": kinds.take(pa.array(_skewed(drawn, random, drawn.kinds, rows))),
            "key": _key_names(drawn, _skewed(drawn, random, drawn.keys, rows), drawn.keys),
            "id": ids,
            "price": price,
            "size": random.integers(0, drawn.most, rows),
            "raw": random.normal(0, 3, rows),
            "gaps": pa.array(
                random.lognormal(1, 2, rows), mask=random.random(rows) < drawn.missing
            ),
            "note": notes.take(pa.array(random.integers(0, len(notes), rows))),
            "late": pa.array(late, mask=np.arange(rows) < int(rows * drawn.late)),
        }
    )


def _make_quotes(drawn: _Drawn, rows: int) -> pa.Table:
    """Return the table that the as-of join looks things up in."""
    rows = max(1, rows // 5)
    random = np.random.Generator(np.random.PCG64(drawn.seed + 1))
    times = np.cumsum(random.integers(1, 10 * drawn.step_us, rows))
    return pa.table(
        {
            "t": pa.array(times + 19_000 * _DAY_US, pa.timestamp("us")),
            "key": _key_names(drawn, random.integers(0, drawn.keys, rows), drawn.keys),
            "bid": random.normal(0, 1, rows),
        }
    )


def _make_names(drawn: _Drawn, rows: int) -> pa.Table:
    """Return a table of every key, with the city that it is in."""
    numbers = np.arange(drawn.keys)
    cities = [f"city {at}" for at in (numbers * 7919 % drawn.cities).tolist()]
    return pa.table({"row": numbers, "key": _key_names(drawn, numbers, drawn.keys), "city": cities})


def _make_picks(drawn: _Drawn, rows: int) -> pa.Table:
    """Return a table of some ids that lie near one another."""
    random = np.random.Generator(np.random.PCG64(drawn.seed + 2))
    most = max(1, rows // 2)
    picks = min(drawn.picks, most)
    first = int(random.integers(0, most - picks + 1))
    ids = first + random.permutation(min(most - first, 20 * picks))[:picks]
    return pa.table(
        {"row": np.arange(len(ids)), "id": np.sort(ids), "weight": random.random(len(ids))}
    )


def _query(
    name: str,
    question: str,
    tessel: Callable[[Any], Any],
    sql: str,
    polars: Callable[[Any, Any], Any],
    *key: str,
    vortex: Callable[[Any, Any], Any] | None = None,
) -> Query:
    def in_tessel(tables: Any) -> Any:
        import tessel as ts

        return tables["unseen"].read("unseen", query=tessel(ts.QueryBuilder()))

    def in_polars(tables: Any) -> Any:
        import polars as pl

        return polars(tables["unseen"], pl)

    def in_duckdb(tables: Any) -> Any:
        return tables["unseen"].sql(sql)

    def in_vortex(tables: Any) -> Any:
        import vortex.expr

        assert vortex_answer is not None
        return vortex_answer(tables["unseen"], vortex.expr)

    answers = {"tessel": in_tessel, "duckdb": in_duckdb, "polars": in_polars}
    vortex_answer = vortex  # the package has the name of the argument
    return Query(name, question, answers | ({"vortex": in_vortex} if vortex else {}), key)


def _counted(file: Any, predicate: Any) -> pa.Table:
    """Return how many rows of a file of Vortex a predicate leaves, which has no aggregates."""
    return pa.table({"n": [file.to_arrow(["t"], expr=predicate).read_all().num_rows]})


def _holds(ve: Any, word: str) -> Any:
    """Return the predicate of Vortex that notes hold a word."""
    import vortex

    return ve.like(ve.column("note"), ve.literal(vortex.utf8(), f"%{word}%"))


def _asof() -> Query:
    def tessel(tables: Any) -> Any:
        import tessel as ts

        other = ts.SubQuery("quotes", None, ())
        query = ts.QueryBuilder().select("t", "key", "raw").join_asof(other, by="key")
        return tables["unseen"].read("unseen", query=query)

    return Query(
        "as-of",
        "the last bid of the key before each row",
        {
            "tessel": tessel,
            "duckdb": lambda tables: tables["unseen"].sql(
                "SELECT u.t, u.key, raw, bid FROM unseen u "
                "ASOF LEFT JOIN quotes q ON u.key = q.key AND u.t >= q.t"
            ),
            "polars": lambda tables: (
                tables["unseen"]
                .select("t", "key", "raw")
                .join_asof(tables["quotes"], on="t", by="key", check_sortedness=False)
            ),
        },
        ("t",),
    )


def _star(drawn: _Drawn) -> Query:
    wanted = ", ".join(f"'city {at}'" for at in range(drawn.chosen))

    def tessel(tables: Any) -> Any:
        import tessel as ts

        names = ts.SubQuery("names", None, ts.QueryBuilder().filter(f"city in ({wanted})").clauses)
        query = ts.QueryBuilder().join(names, "key").groupby("city")
        return tables["unseen"].read("unseen", query=query.agg(n=("t", "count"), s=("size", "sum")))

    def polars(tables: Any) -> Any:
        import polars as pl

        chosen = [f"city {at}" for at in range(drawn.chosen)]
        names = tables["names"].filter(pl.col("city").is_in(chosen))
        return (
            tables["unseen"]
            .join(names, on="key")
            .group_by("city")
            .agg(n=pl.len(), s=pl.col("size").sum())
        )

    return Query(
        "star",
        f"of the keys in {drawn.chosen} of {drawn.cities} cities, by city: count and sum of size",
        {
            "tessel": tessel,
            "duckdb": lambda tables: tables["unseen"].sql(
                "SELECT city, count(*) AS n, sum(size) AS s FROM unseen JOIN names USING (key) "
                f"WHERE city IN ({wanted}) GROUP BY city"
            ),
            "polars": polars,
        },
        ("city",),
    )


def _picks(drawn: _Drawn) -> Query:
    def tessel(tables: Any) -> Any:
        import tessel as ts

        other = ts.SubQuery("unseen", None, ts.QueryBuilder().select("id", "t", "price").clauses)
        query = ts.QueryBuilder().select("id", "weight").join(other, "id")
        return tables["picks"].read("picks", query=query)

    return Query(
        "picks",
        f"all rows of {drawn.picks} ids of another table",
        {
            "tessel": tessel,
            "duckdb": lambda tables: tables["unseen"].sql(
                "SELECT id, weight, t, price FROM picks JOIN unseen USING (id)"
            ),
            "polars": lambda tables: (
                tables["picks"]
                .select("id", "weight")
                .join(tables["unseen"].select("id", "t", "price"), on="id")
            ),
        },
        ("t",),
    )


def _questions(drawn: _Drawn) -> tuple[Query, ...]:
    high, most = drawn.price_at(1 - drawn.few), drawn.size_at(drawn.many)
    low, some = drawn.price_at(drawn.many), drawn.size_at(0.5)
    every = {"1min": "1m", "7min": "7m", "1h": "1h", "1D": "1d"}[drawn.bucket]
    span = {"1min": "1 minute", "7min": "7 minutes", "1h": "1 hour", "1D": "1 day"}[drawn.bucket]
    window, both = drawn.window, f"{drawn.word}|{drawn.other_word}"
    return (
        _query(
            "two-predicates",
            f"rows of price > {high} and size < {most}",
            lambda q: q.filter(f"price > {high} and size < {most}"),
            f"SELECT * FROM unseen WHERE price > {high} AND size < {most}",
            lambda f, pl: f.filter((pl.col("price") > high) & (pl.col("size") < most)),
            "t",
            vortex=lambda f, ve: f.to_arrow(
                expr=ve.and_(ve.column("price") > high, ve.column("size") < most)
            ).read_all(),
        ),
        _query(
            "count-where",
            f"how many rows of size < {some}",
            lambda q: q.filter(f"size < {some}").agg(n=("t", "count")),
            f"SELECT count(*) AS n FROM unseen WHERE size < {some}",
            lambda f, pl: f.filter(pl.col("size") < some).select(n=pl.len()),
            vortex=lambda f, ve: _counted(f, ve.column("size") < some),
        ),
        _query(
            "by-key",
            "by key: sums of price and size",
            lambda q: q.groupby("key").agg(price=("price", "sum"), size=("size", "sum")),
            "SELECT key, sum(price) AS price, sum(size) AS size FROM unseen GROUP BY key",
            lambda f, pl: f.group_by("key").agg(pl.col("price").sum(), pl.col("size").sum()),
            "key",
        ),
        _query(
            "filtered-product",
            f"of price < {low}, by key: sum of price * size",
            lambda q: q.filter(f"price < {low}").groupby("key").agg(v="sum(price * size)"),
            f"SELECT key, sum(price * size) AS v FROM unseen WHERE price < {low} GROUP BY key",
            lambda f, pl: (
                f.filter(pl.col("price") < low)
                .group_by("key")
                .agg(v=(pl.col("price") * pl.col("size")).sum())
            ),
            "key",
        ),
        _query(
            "by-kind",
            "by kind: count, mean raw, least and greatest price",
            lambda q: q.groupby("kind").agg(
                n=("t", "count"), raw=("raw", "mean"), low=("price", "min"), high=("price", "max")
            ),
            "SELECT kind, count(*) AS n, avg(raw) AS raw, min(price) AS low, max(price) AS high "
            "FROM unseen GROUP BY kind",
            lambda f, pl: f.group_by("kind").agg(
                n=pl.len(),
                raw=pl.col("raw").mean(),
                low=pl.col("price").min(),
                high=pl.col("price").max(),
            ),
            "kind",
        ),
        _query(
            "gaps",
            "by kind: sum and count of a column with missing values",
            lambda q: q.groupby("kind").agg(total=("gaps", "sum"), n=("gaps", "count")),
            "SELECT kind, sum(gaps) AS total, count(gaps) AS n FROM unseen GROUP BY kind",
            lambda f, pl: f.group_by("kind").agg(
                total=pl.col("gaps").sum(), n=pl.col("gaps").count()
            ),
            "kind",
        ),
        _query(
            "late",
            "by kind: mean and greatest of a column that was added later",
            lambda q: q.groupby("kind").agg(mean=("late", "mean"), most=("late", "max")),
            "SELECT kind, avg(late) AS mean, max(late) AS most FROM unseen GROUP BY kind",
            lambda f, pl: f.group_by("kind").agg(
                mean=pl.col("late").mean(), most=pl.col("late").max()
            ),
            "kind",
        ),
        _query(
            "resample",
            f"every {drawn.bucket}: first, greatest, least, last price",
            lambda q: q.resample(drawn.bucket).agg(
                a=("price", "first"), b=("price", "max"), c=("price", "min"), d=("price", "last")
            ),
            f"SELECT time_bucket(INTERVAL '{span}', t, TIMESTAMP '1970-01-01') AS t, "
            "arg_min(price, t) AS a, max(price) AS b, min(price) AS c, arg_max(price, t) AS d "
            "FROM unseen GROUP BY 1 ORDER BY 1",
            lambda f, pl: f.group_by_dynamic("t", every=every).agg(
                a=pl.col("price").first(),
                b=pl.col("price").max(),
                c=pl.col("price").min(),
                d=pl.col("price").last(),
            ),
            "t",
        ),
        _query(
            "many-groups",
            "by id: count and sum of size",
            lambda q: q.groupby("id").agg(n=("t", "count"), size=("size", "sum")),
            "SELECT id, count(*) AS n, sum(size) AS size FROM unseen GROUP BY id",
            lambda f, pl: f.group_by("id").agg(n=pl.len(), size=pl.col("size").sum()),
            "id",
        ),
        _query(
            "median",
            "by key: median raw",
            lambda q: q.groupby("key").agg(raw=("raw", "median")),
            "SELECT key, median(raw) AS raw FROM unseen GROUP BY key",
            lambda f, pl: f.group_by("key").agg(pl.col("raw").median()),
            "key",
        ),
        _query(
            "distinct-ids",
            "by kind: how many ids",
            lambda q: q.groupby("kind").agg(ids=("id", "nunique")),
            "SELECT kind, count(DISTINCT id) AS ids FROM unseen GROUP BY kind",
            lambda f, pl: f.group_by("kind").agg(ids=pl.col("id").n_unique()),
            "kind",
        ),
        _query(
            "sort",
            "all rows in the order of raw",
            lambda q: q.sort("raw"),
            "SELECT * FROM unseen ORDER BY raw",
            lambda f, pl: f.sort("raw"),
        ),
        _query(
            "top",
            "the ten rows of the greatest raw",
            lambda q: q.top_k(10, by="raw"),
            "SELECT * FROM unseen ORDER BY raw DESC LIMIT 10",
            lambda f, pl: f.top_k(10, by="raw"),
            "t",
        ),
        _query(
            "text",
            f"how many notes hold {drawn.word!r} or {drawn.other_word!r}",
            lambda q: q.filter(
                f"contains(note, '{drawn.word}') or contains(note, '{drawn.other_word}')"
            ).agg(n=("t", "count")),
            "SELECT count(*) AS n FROM unseen "
            f"WHERE contains(note, '{drawn.word}') OR contains(note, '{drawn.other_word}')",
            lambda f, pl: f.filter(pl.col("note").str.contains(both)).select(n=pl.len()),
            vortex=lambda f, ve: _counted(
                f, ve.or_(_holds(ve, drawn.word), _holds(ve, drawn.other_word))
            ),
        ),
        _query(
            "rolling",
            f"by key: mean price of {window} rows",
            lambda q: (
                q.select("t", "key", "price").rolling(window, by="key").agg(mean=("price", "mean"))
            ),
            f"SELECT t, key, price, CASE WHEN count(*) OVER w = {window} THEN avg(price) OVER w "
            "END AS mean FROM unseen WINDOW w AS (PARTITION BY key ORDER BY t "
            f"ROWS {window - 1} PRECEDING)",
            lambda f, pl: f.select(
                "t", "key", "price", mean=pl.col("price").rolling_mean(window).over("key")
            ),
            "t",
        ),
        _asof(),
        _star(drawn),
        _picks(drawn),
    )


def drawn_from(seed: int) -> Workload:
    """Return the workload of a seed."""
    drawn = _Drawn(seed)
    quotes = Workload("quotes", "t", functools.partial(_make_quotes, drawn), 5_000_000, 20_000, ())
    names = Workload("names", "row", functools.partial(_make_names, drawn), 1, 1, ())
    picks = Workload("picks", "row", functools.partial(_make_picks, drawn), 5_000_000, 20_000, ())
    return Workload(
        name="unseen",
        index="t",
        make=functools.partial(_make, drawn),
        rows=5_000_000,
        smoke_rows=20_000,
        queries=_questions(drawn),
        others=(quotes, names, picks),
        slices=drawn.slices,
        late=("late",),
    )
