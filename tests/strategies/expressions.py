"""Hypothesis strategies for tables, expressions and predicates that are well typed by construction.

For tests of anything that computes, stores, rewrites or sends expressions. `tables` gives data full
of edges (nulls, NaN, infinities, the ends of integer types, both zeros, skipped and repeated clock
readings) with the columns of `SCHEMA`; `expressions` and `predicates` read those columns.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pyarrow as pa
from hypothesis import strategies as st

from tessel.expression.build import any_of, coalesce, col, lit, max_of, min_of, when
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema

__all__ = ["SCHEMA", "expressions", "literals", "numbers", "predicates", "tables", "texts"]

SCHEMA = TableSchema(
    pa.schema(
        {
            "flag": pa.bool_(),
            "tiny": pa.int8(),
            "count": pa.int64(),
            "size": pa.uint64(),
            "level": pa.uint8(),
            "price": pa.float64(),
            "ratio": pa.float32(),
            "name": pa.string(),
            "symbol": pa.dictionary(pa.int32(), pa.string()),
            "time": pa.timestamp("us"),
            "instant": pa.timestamp("ns", "Europe/Paris"),
            "second": pa.timestamp("s"),
            "day": pa.date32(),
            "wait": pa.duration("ms"),
            "money": pa.decimal128(10, 2),
            "end": pa.int16(),
        }
    )
)
"""Columns of every family; ``end`` is a keyword of the text grammar."""

_2013 = 1_356_998_400
_INTEGERS = st.integers(-9, 9) | st.integers(-(1 << 63), (1 << 63) - 1)
_EDGES = st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, 0])
_FLOATS = (
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64])
    | st.floats()
    | st.integers(-9, 9).map(float)
)
_TEXTS = st.sampled_from(["", "a", "ab", "b", "AAPL", "é", "z'q", "a%", "\U0010ffff"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=4
)
_WAITS = st.integers(-(10**15), 10**15).map(lambda count: datetime.timedelta(microseconds=count))
_SECONDS = st.integers(-9, 9) | st.integers(_2013 - 10**8, _2013 + 10**8)

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "tiny": st.integers(-128, 127) | st.sampled_from([-128, 127, 0, -1]),
    "count": _INTEGERS | _EDGES,
    "size": st.integers(0, 9) | st.integers(0, (1 << 64) - 1) | st.just((1 << 64) - 1),
    "level": st.integers(0, 255),
    "price": _FLOATS,
    "ratio": st.floats(width=32) | st.integers(-9, 9).map(float),
    "name": _TEXTS,
    "symbol": _TEXTS,
    "time": _SECONDS.map(lambda seconds: seconds * 1_000_000 + seconds % 7),
    "instant": _SECONDS.map(lambda seconds: seconds * 1_000_000_000 + seconds % 3),
    "second": _SECONDS,
    "day": st.integers(-9, 9) | st.integers(15_000, 16_000),
    "wait": st.integers(-9, 9) | st.integers(-(10**9), 10**9),
    "money": st.decimals(-(10**4), 10**4, places=2, allow_nan=False),
    "end": st.integers(-9, 9),
}

_Strategies = TypeVar("_Strategies", bound=Callable[..., st.SearchStrategy[Expression]])


def _named(function: _Strategies) -> _Strategies:
    """Let hypothesis show a strategy by its name instead of its parts and their parts."""
    made: Callable[..., st.SearchStrategy[Expression]] = functools.cache(function)

    def drawn(draw: st.DrawFn, /, *args: Any, **kwargs: Any) -> Expression:
        return draw(made(*args, **kwargs))

    drawn.__name__ = drawn.__qualname__ = function.__name__
    return cast("_Strategies", functools.wraps(function)(st.composite(drawn)))


def _array(name: str, values: list[Any]) -> pa.Array:
    type_ = SCHEMA.type_of(name)
    if pa.types.is_temporal(type_):
        stored = pa.int64() if type_.bit_width == 64 else pa.int32()
        return pa.array(values, stored).view(type_)
    if pa.types.is_dictionary(type_):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, type_, from_pandas=False)


@st.composite
def tables(draw: st.DrawFn, min_rows: int = 0, max_rows: int = 12) -> pa.Table:
    """Draw a table of `SCHEMA`, in one to three chunks."""
    rows = draw(st.integers(min_rows, max_rows))
    columns = [
        _array(name, draw(st.lists(st.none() | values, min_size=rows, max_size=rows)))
        for name, values in _VALUES.items()
    ]
    table = pa.table(columns, schema=SCHEMA.arrow)
    cut = draw(st.integers(0, rows))
    return (
        pa.concat_tables([table.slice(0, cut), table.slice(cut)]) if draw(st.booleans()) else table
    )


@_named
def literals() -> st.SearchStrategy[Expression]:
    """Draw literals of every kind."""
    values: st.SearchStrategy[Any] = st.one_of(
        st.none(),
        st.booleans(),
        _INTEGERS,
        st.integers(1 << 63, (1 << 64) - 1),
        _FLOATS,
        _TEXTS,
        st.binary(max_size=4),
        st.decimals(-(10**6), 10**6, places=3, allow_nan=False),
        st.dates(),
        st.datetimes(),
        st.datetimes(timezones=st.just(datetime.UTC)),
        st.times(),
        _WAITS,
        _INTEGERS.map(lambda count: pa.scalar(count, pa.timestamp("ns", "Europe/Paris"))),
        _INTEGERS.map(lambda count: pa.scalar(count, pa.timestamp("s"))),
        st.integers(-128, 127).map(lambda count: pa.scalar(count, pa.int8())),
        st.floats(width=32).map(lambda value: pa.scalar(value, pa.float32())),
    )
    return values.map(lit)


def _columns(*names: str) -> st.SearchStrategy[Expression]:
    return st.sampled_from([col(name) for name in names])


_ARITHMETIC: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a // b,
    lambda a, b: a % b,
)
_COMPARISONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
)


def _pairs(
    left: st.SearchStrategy[Any],
    right: st.SearchStrategy[Any],
    functions: tuple[Callable[[Any, Any], Any], ...],
) -> st.SearchStrategy[Expression]:
    return st.builds(lambda f, a, b: f(a, b), st.sampled_from(functions), left, right)


@_named
def numbers(depth: int = 2) -> st.SearchStrategy[Expression]:
    """Draw expressions of integers and floats; unsigned 64 bits only as operands of comparison."""
    leaves = st.one_of(
        _columns("tiny", "count", "level", "price", "ratio", "end"),
        st.integers(-9, 9).map(lit),
        _INTEGERS.map(lit),
        _FLOATS.map(lit),
    )
    if depth == 0:
        return leaves
    deeper = st.deferred(lambda: numbers(depth - 1))
    return st.one_of(
        leaves,
        _pairs(deeper, deeper, _ARITHMETIC),
        deeper.map(lambda a: -a),
        deeper.map(abs),
        st.builds(lambda c, a, b: when(c).then(a).otherwise(b), predicates(0), deeper, deeper),
        st.builds(lambda a, b: coalesce(a, b), deeper, deeper),
        st.builds(lambda a, b: min_of(a, b), deeper, deeper),
        st.builds(lambda a, b: max_of(a, b), deeper, deeper),
        texts().map(lambda a: a.length()),
    )


@_named
def texts() -> st.SearchStrategy[Expression]:
    """Draw expressions of text."""
    leaves = _columns("name", "symbol") | _TEXTS.map(lit)
    return st.one_of(
        leaves,
        leaves,
        st.builds(lambda a, b: a.concat(b), leaves, leaves),
        st.builds(lambda a, b: a.fill_missing(b), leaves, leaves),
        st.builds(lambda a, start, more: a.slice(start, start + more), leaves, *_SMALL),
        st.builds(lambda a, old, new: a.replace(old, new), leaves, _TEXTS.filter(len), _TEXTS),
    )


_SMALL = (st.integers(0, 3), st.integers(0, 3))


def _instants() -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.one_of(
            _columns("time", "second"),
            _SECONDS.map(lambda s: lit(_iso(s))),
            st.builds(
                lambda c, s: c + lit(pa.scalar(s, pa.duration("s"))),
                _columns("time", "second"),
                st.integers(-(10**6), 10**6),
            ),
        )
    )


def _iso(seconds: int) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return moment.isoformat()


def _comparisons(depth: int) -> st.SearchStrategy[Expression]:
    wide = st.one_of(numbers(depth), _columns("size"))
    naive, aware = _columns("time", "second"), _columns("instant")
    return st.one_of(
        _pairs(wide, wide, _COMPARISONS),
        _pairs(_columns("size"), _columns("count", "price", "ratio", "tiny"), _COMPARISONS),
        _pairs(texts(), texts(), _COMPARISONS),
        _pairs(naive, _instants(), _COMPARISONS),
        _pairs(aware, aware | _SECONDS.map(lambda s: lit(_iso(s) + "+02:00")), _COMPARISONS),
        _pairs(_columns("day"), st.dates().map(lambda d: lit(d.isoformat())), _COMPARISONS),
        _pairs(_columns("wait"), _WAITS.map(lit), _COMPARISONS),
        _pairs(_columns("money"), _decimal_literals() | _columns("money", "tiny"), _COMPARISONS),
        _pairs(_columns("flag"), st.booleans().map(lit) | _columns("flag"), _COMPARISONS),
    )


def _decimal_literals() -> st.SearchStrategy[Expression]:
    exact = st.decimals(-(10**4), 10**4, places=3, allow_nan=False)
    return exact.map(lit) | st.integers(-99, 99).map(lit) | exact.map(float).map(lit)


def _memberships() -> st.SearchStrategy[Expression]:
    numeric = st.lists(st.none() | st.integers(-9, 9) | _INTEGERS | _FLOATS, max_size=4)
    days = st.lists(st.none() | st.integers(-9, 9).map(_date_of), max_size=3)
    return st.one_of(
        st.builds(
            lambda c, values: c.is_in(values),
            _columns("tiny", "count", "size", "price", "ratio"),
            numeric,
        ),
        st.builds(
            lambda c, values: c.is_in(values),
            _columns("name", "symbol"),
            st.lists(st.none() | _TEXTS, max_size=4),
        ),
        st.builds(lambda c, values: c.is_in(values), _columns("day"), days),
    )


def _date_of(days: int) -> datetime.date:
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=days)


@_named
def predicates(depth: int = 2) -> st.SearchStrategy[Expression]:
    """Draw expressions of truth values."""
    every = _columns(*SCHEMA.names)
    leaves = st.one_of(
        _columns("flag"),
        st.sampled_from([lit(True), lit(False), lit(None)]),
        _comparisons(max(0, depth - 1)),
        _comparisons(max(0, depth - 1)),
        _memberships(),
        every.map(lambda a: a.is_missing()),
        st.builds(lambda a, part: a.starts_with(part), texts(), _TEXTS),
        st.builds(lambda a, part: a.ends_with(part), texts(), _TEXTS),
        st.builds(lambda a, part: a.contains(part), texts(), _TEXTS),
        st.builds(
            lambda a, regex: a.matches(regex), texts(), st.sampled_from(["^a", "b$", "[A-Z]+", "'"])
        ),
    )
    if depth == 0:
        return leaves
    deeper = st.deferred(lambda: predicates(depth - 1))
    return st.one_of(
        leaves,
        st.builds(lambda a, b: a & b, deeper, deeper),
        st.builds(lambda a, b: a | b, deeper, deeper),
        st.builds(lambda a, b: a ^ b, deeper, deeper),
        deeper.map(lambda a: ~a),
        st.lists(deeper, min_size=2, max_size=4).map(any_of),
        st.builds(lambda c, a, b: when(c).then(a).otherwise(b), deeper, deeper, deeper),
        st.builds(lambda a, b: a.fill_missing(b), deeper, deeper),
    )


@_named
def expressions() -> st.SearchStrategy[Expression]:
    """Draw expressions of any type."""
    return st.one_of(
        predicates(),
        numbers(),
        texts(),
        literals(),
        _columns(*SCHEMA.names),
        st.builds(lambda a, b: a**b, numbers(1), numbers(1)),
        st.builds(round, numbers(1), st.integers(0, 15)),
        st.builds(lambda a, b: a - b, _columns("time", "second"), _columns("time", "second")),
        _columns("time", "instant").map(lambda a: a.floor("1h30min")),
        _columns("time", "instant").map(lambda a: a.date()),
        numbers(1).map(lambda a: a.cast("float32")),
        numbers(1).map(lambda a: a.clip(0, 5)),  # of uint64 there is no clip at -1
        _columns("tiny", "end", "price").map(lambda a: a.clip(-1, 5)),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(col),
    )
