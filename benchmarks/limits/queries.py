"""What grows with a query: terms, values, clauses of each kind, keys, aggregates, and text."""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import tessel as ts
from benchmarks.limits.slopes import Case, Work
from tessel.errors import ExpressionSyntaxError
from tessel.expression import (
    Expression,
    all_of,
    any_of,
    coalesce,
    col,
    lit,
    min_of,
    parse,
)
from tessel.expression import text as text_form

__all__ = ["CASES"]

_ROWS = 8
_NAMES = ("a", "b", "c", "d")


def _store() -> ts.Store:
    """Return a store of which no plan is kept, and forget what is kept of expressions."""
    text_form._read.cache_clear()
    store = ts.open("memory://")
    numbers = np.arange(_ROWS, dtype=np.int64)
    columns: dict[str, Any] = {"t": numbers.astype("datetime64[us]"), "s": ["x"] * _ROWS}
    store.write("s", pa.table(columns | dict.fromkeys(_NAMES, numbers)), index="t")
    store.write("n", pa.table(columns | dict.fromkeys(_NAMES, numbers)), index="t")
    return store


def _planned(query: ts.QueryBuilder) -> Work:
    table = _store().scan("s")
    return lambda: table.then(*query.clauses).plan()


# --- expressions ----------------------------------------------------------------------------------


def _terms(count: int, name: Callable[[int], str] = lambda at: _NAMES[at % 4]) -> Iterator[Any]:
    return (col(name(at)) > at for at in range(count))


def _may_raise(count: int) -> Iterator[Expression]:
    return (col(_NAMES[at % 4]) + at > 0 for at in range(count))


def _chain(count: int) -> Expression:
    built: Any = col("a") > 0
    for at in range(1, count):
        built = built & (col(_NAMES[at % 4]) > at)
    return built  # type: ignore[no-any-return]


def _case(count: int) -> Expression:
    built: Any = ts
    for at in range(count):
        built = built.when(col("a") == at).then(at)
    return built.otherwise(0)  # type: ignore[no-any-return]


def _sum(count: int) -> Expression:
    built: Any = col("a")
    for at in range(count):
        built = built + col(_NAMES[at % 4])
    return built  # type: ignore[no-any-return]


def _sum_of_floats(count: int) -> Expression:
    built: Any = col("a")
    for at in range(count):
        built = built / col(_NAMES[at % 4])
    return built  # type: ignore[no-any-return]


def _shared(count: int) -> Expression:
    built: Any = col("a") > 0
    for _ in range(count):
        built = built ^ built
    return built  # type: ignore[no-any-return]


def _instants(count: int) -> list[Any]:
    return list(np.arange(count).astype("datetime64[us]"))


_EXPRESSIONS: dict[str, tuple[Callable[[int], Expression], int]] = {
    "and of terms": (lambda n: all_of(_terms(n)), 1 << 15),
    "and of terms built by &": (_chain, 1 << 15),
    "and of terms that may raise": (lambda n: all_of(_may_raise(n)), 1 << 15),
    "or of terms": (lambda n: any_of(_terms(n)), 1 << 15),
    "or of ands": (lambda n: any_of(col("a").between(i, i + 1) for i in range(n)), 1 << 14),
    "and of terms on the index": (
        lambda n: all_of(col("t") >= each for each in _instants(n)),
        1 << 14,
    ),
    "or of terms on the index": (
        lambda n: any_of(col("t") == each for each in _instants(n)),
        1 << 14,
    ),
    "is_in of integers": (lambda n: col("a").is_in(range(n)), 1 << 17),
    "is_in of floats": (lambda n: col("a").is_in([i / 2 for i in range(n)]), 1 << 16),
    "is_in of texts": (lambda n: col("s").is_in([f"x{i}" for i in range(n)]), 1 << 17),
    "is_in of instants": (lambda n: col("t").is_in(_instants(n)), 1 << 16),
    "not in of integers": (lambda n: ~col("a").is_in(range(n)), 1 << 17),
    "branches of case": (lambda n: _case(n) > 0, 1 << 14),
    "operands of coalesce": (lambda n: coalesce(*(col("a") for _ in range(n))) > 0, 1 << 15),
    "operands of min_of": (lambda n: min_of(*(col(_NAMES[i % 4]) for i in range(n))) > 0, 1 << 15),
    "nested sums": (lambda n: _sum_of_floats(n) > 0, 1 << 14),
    "constants": (lambda n: all_of(lit(i) + 1 > 0 for i in range(n)), 1 << 12),
    "nested not": (lambda n: functools.reduce(lambda e, _: ~e, range(n), col("a") > 0), 1 << 14),
    "shared sub-expressions": (_shared, 512),
    "characters of a literal": (lambda n: col("s") == "x" * n, 1 << 24),
    "characters of a regex": (lambda n: col("s").matches("x" * n), 1 << 15),
    "characters of a pattern": (lambda n: col("s").like("x%" * n), 1 << 15),
}


def _expressions() -> Iterator[Case]:
    for name, (make, most) in _EXPRESSIONS.items():
        few = 32 if most > 512 else 8

        def case(what: str, work: Callable[[int], Work], least: int = 64) -> Case:
            return Case(f"{what}: {name}", work, min(least, most // 8), most, few)  # noqa: B023

        def made(make: Callable[[int], Expression] = make) -> Callable[[int], Work]:
            return lambda n: lambda: make(n)

        def planned(n: int, make: Callable[[int], Expression] = make) -> Work:
            return _planned(ts.QueryBuilder().filter(make(n)))

        def explained(n: int, make: Callable[[int], Expression] = make) -> Work:
            store, query = _store(), ts.QueryBuilder().filter(make(n))
            return lambda: str(store.explain("s", query))

        def run(n: int, make: Callable[[int], Expression] = make) -> Work:
            store, query = _store(), ts.QueryBuilder().filter(make(n))
            return lambda: store.read("s", query=query)

        def written(n: int, make: Callable[[int], Expression] = make) -> Work:
            made = make(n)
            return lambda: (str(made), repr(made))

        def told(n: int, make: Callable[[int], Expression] = make) -> Work:
            query = ts.QueryBuilder().filter(make(n))
            return lambda: (repr(query), hash(query), query == query)

        def carried(n: int, make: Callable[[int], Expression] = make) -> Work:
            text_form._read.cache_clear()
            made = make(n)
            return lambda: Expression.from_json(json.loads(json.dumps(made.to_json())))

        def pickled(n: int, make: Callable[[int], Expression] = make) -> Work:
            query = ts.QueryBuilder().filter(make(n))
            return lambda: pickle.loads(pickle.dumps(query))

        yield case("build", made())
        yield case("plan", planned)
        yield case("explain", explained)
        yield case("run", run)
        yield case("to JSON and back", carried)
        yield case("pickle a query", pickled)
        if name != "shared sub-expressions":  # whose text is as long as it is allowed to be
            yield case("text", written)
            yield case("compare queries", told)


# --- clauses --------------------------------------------------------------------------------------

_Verb = Callable[[Any, int], Any]
_CLAUSES: dict[str, _Verb] = {
    "filters on one column": lambda q, i: q.filter(col("a") > i),
    "filters on several columns": lambda q, i: q.filter(col(_NAMES[i % 4]) > i),
    "filters that may raise": lambda q, i: q.filter(col(_NAMES[i % 4]) + i > 0),
    "filters on the index": lambda q, i: q.filter(col("t") >= np.datetime64(i, "us")),
    "date ranges": lambda q, i: q.date_range(f"1970-01-01T00:00:00.{i:06d}", None),
    "applies of new columns": lambda q, i: q.apply(f"n{i % 8}", col("a") / 2),
    "applies to one column": lambda q, i: q.apply("a", col("a") / 2),
    "applies and filters": lambda q, i: q.apply("n", col("a") / 2).filter(col("b") > i),
    "selects and filters": lambda q, i: q.select("t", *_NAMES).filter(col("b") > i),
    "renames and filters": lambda q, i: q.rename({"a": "z"} if i % 2 == 0 else {"z": "a"}).filter(
        col("b") > i
    ),
    "selects": lambda q, i: q.select("t", *_NAMES[: 3 + i % 2]) if i < 1 else q.select("t", "a"),
    "renames": lambda q, i: q.rename({"a": "z"} if i % 2 == 0 else {"z": "a"}),
    "casts": lambda q, i: q.cast({"a": "int64" if i % 2 else "float64"}),
    "heads": lambda q, i: q.head(10**6 - i),
    "heads and filters": lambda q, i: q.head(10**6 - i).filter(col("a") > i),
    "heads and applies": lambda q, i: q.head(10**6 - i).apply("a", col("a") / 2),
    "tails": lambda q, i: q.tail(10**6 - i),
    "heads and tails": lambda q, i: q.head(10**6).tail(10**6),
    "row ranges": lambda q, i: q.row_range(0, 10**6),
    "sorts": lambda q, i: q.sort(_NAMES[i % 4]),
    "sorts and heads": lambda q, i: q.sort(_NAMES[i % 4]).head(10**6),
    "top rows": lambda q, i: q.top_k(10**6, _NAMES[i % 4]),
    "distincts": lambda q, i: q.distinct(_NAMES[i % 4]),
    "fills": lambda q, i: q.fill("a", "forward"),
    "shifts": lambda q, i: q.shift("a", 1),
    "sums along rows": lambda q, i: q.cum_sum(_NAMES[i % 4]),
    "samples": lambda q, i: q.sample(fraction=0.5, seed=i),
    "groupbys": lambda q, i: q.groupby("a").agg(a2=("b" if i == 0 else "a2", "sum")),
    "resamples": lambda q, i: q.resample("1h").agg(a=("a", "sum")),
    "rollings": lambda q, i: q.rolling(3).agg(a=("a", "sum")),
    "concats": lambda q, i: q.concat("n"),
}


def _query(verb: _Verb, count: int) -> ts.QueryBuilder:
    query = ts.QueryBuilder()
    for at in range(count):
        query = verb(query, at)
    return query


def _clauses() -> Iterator[Case]:
    for name, verb in _CLAUSES.items():
        most = 256 if name == "concats" else 1 << 13

        def built(n: int, verb: _Verb = verb) -> Work:
            return lambda: _query(verb, n)

        def planned(n: int, verb: _Verb = verb) -> Work:
            return _planned(_query(verb, n))

        def explained(n: int, verb: _Verb = verb) -> Work:
            store, query = _store(), _query(verb, n)
            return lambda: str(store.explain("s", query))

        def carried(n: int, verb: _Verb = verb) -> Work:
            text_form._read.cache_clear()
            query = _query(verb, n)
            return lambda: ts.QueryBuilder.from_json(json.loads(json.dumps(query.to_json())))

        yield Case(f"build: {name}", built, 32, most, 8)
        yield Case(f"plan: {name}", planned, 32, most, 8)
        # Sixteen date ranges leave no rows, of whose pages nothing is told; eight leave some.
        yield Case(f"explain: {name}", explained, 32, most, 16)
        yield Case(f"to JSON and back: {name}", carried, 32, most, 8)
    yield Case(
        "build: clauses of a lazy table", lambda n: functools.partial(_lazy, n), 64, 1 << 13, 16
    )


def _lazy(count: int) -> object:
    table: Any = _store().scan("s")
    for at in range(count):
        table = table.head(10**6 - at)
    return table


# --- text -----------------------------------------------------------------------------------------


def _refused(text: str) -> Work:
    def work() -> None:
        try:
            parse(text)
        except ExpressionSyntaxError as error:
            str(error)
        else:
            raise AssertionError("it was parsed")

    return work


_TEXTS: dict[str, Callable[[int], str]] = {
    "terms joined by and": lambda n: " and ".join(f"a > {i}" for i in range(n)),
    "terms joined by or": lambda n: " or ".join(f"a > {i}" for i in range(n)),
    "terms joined by &": lambda n: " & ".join(f"(a > {i})" for i in range(n)),
    "terms joined by |": lambda n: " | ".join(f"(a > {i})" for i in range(n)),
    "terms, each on a line": lambda n: " and\n".join(f"a > {i}" for i in range(n)),
    "comparisons in a row": lambda n: " < ".join(["a"] * n),
    "values in a list": lambda n: f"a in ({', '.join(map(str, range(n)))})",
    "arguments": lambda n: f"coalesce({', '.join(['a'] * n)})",
    "branches": lambda n: "case " + " ".join(f"when a > {i} then {i}" for i in range(n)) + " end",
    "characters of a literal": lambda n: "a == '" + "x" * n + "'",
    "doubled quotes of a literal": lambda n: "a == '" + "''" * n + "'",
    "characters of a typed literal": lambda n: "a == binary '" + "00" * n + "'",
    "characters of a name": lambda n: "x" * n,
    "characters of a quoted name": lambda n: "`" + "x" * n + "`",
    "white space": lambda n: "a" + " " * n + "> 1",
    "lines": lambda n: "a" + "\n" * n + "> 1",
}
_NESTED: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "(" * n + "a" + ")" * n,
    "nots": lambda n: "not " * n + "a",
    "signs": lambda n: "-" * n + "a",
    "powers": lambda n: "**".join(["a"] * n),
    "sums": lambda n: "+".join(["a"] * n),
    "calls": lambda n: "abs(" * n + "a" + ")" * n,
}
_WRONG: dict[str, Callable[[int], str]] = {
    "garbage": lambda n: "?" * n,
    "words": lambda n: "foo " * n,
    "one long word": lambda n: "a " + "b" * n,
    "open parentheses": lambda n: "(" * n,
    "closed parentheses": lambda n: "a" + ")" * n,
    "an open quote": lambda n: "a == '" + "x" * n,
    "many open quotes": lambda n: "a == " + "\"'" * n,
    "open quotes behind types": lambda n: "text " * n + "'x",
    "brackets behind a type": lambda n: "a == timestamp" + "[" * n,
    "digits and letters": lambda n: "1" * n + "x",
    "digits with underscores": lambda n: "1_" * n + "x",
    "points": lambda n: "." * n,
    "lines and an error": lambda n: "a and\n" * n + "= b",
    "a long line and an error": lambda n: "a and " * n + "= b",
    "no such function": lambda n: "x" * n + "(a)",
    "white space alone": lambda n: " " * n,
    "space behind a type": lambda n: "a == timestamp" + " " * n + "x",
}


def _parsed(text: str) -> Work:
    text_form._read.cache_clear()
    return lambda: parse(text)


def _texts() -> Iterator[Case]:
    for name, text in _TEXTS.items():
        long = "literal" in name or "name" in name or "space" in name or name == "lines"

        def parsed(n: int, text: Callable[[int], str] = text) -> Work:
            return _parsed(text(n))

        yield Case(f"parse: {name}", parsed, 1 << 12 if long else 64, 1 << 22 if long else 1 << 15)
    for name, text in _NESTED.items():
        yield Case(
            f"parse: nested {name}",
            lambda n, text=text: _parsed(text(n)),  # type: ignore[misc]
            64,
            1 << 13,
            8,
        )
    for name, text in _WRONG.items():
        yield Case(
            f"refuse: {name}",
            lambda n, text=text: _refused(text(n)),  # type: ignore[misc]
            1 << 9,
            1 << 20,
            1 << 10 if name == "no such function" else 16,  # shorter names are compared with others
        )


CASES = (*_expressions(), *_clauses(), *_texts())
"""What is measured of queries."""
