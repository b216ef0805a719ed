"""Random tables to join, and joins by nested loops over them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import join
from tessel.options import options
from tessel.pipeline.planner import plan_cache, plan_join
from tests.clauses.helpers import fresh_store
from tests.strategies.tables import as_dictionary

Rows = list[dict[str, Any]]

TEXTS = pa.dictionary(pa.int8(), pa.string())


MOST_KEYS = st.sampled_from([None, 0, 2, 10_000])
"""For :func:`narrowed`; None leaves small tables as they are."""


@contextlib.contextmanager
def narrowed(most_keys: int | None) -> Iterator[None]:
    """Let joins ask for keys whatever the sizes of both sides, and take so many as a set."""
    with pytest.MonkeyPatch.context() as patch:
        if most_keys is not None:
            patch.setattr(plan_cache, "_MEMO", f"plans with {most_keys} keys")
            patch.setattr(plan_join, "_LEAST_BYTES", 0)
            patch.setattr(plan_join, "_TIMES_SMALLER", 0)
            patch.setattr(plan_join, "_MOST_KEYS", most_keys)
        yield


@contextlib.contextmanager
def left_held(held: bool) -> Iterator[None]:
    """Let inner joins hold the left, whatever the sizes of both sides."""
    with pytest.MonkeyPatch.context() as patch:
        if held:
            patch.setattr(plan_cache, "_MEMO", "plans that hold the left")
            patch.setattr(join, "is_held_whole", lambda *_: False)
            patch.setattr(join, "is_left_held", lambda *_: True)
        yield


@dataclass(frozen=True)
class KeyKind:
    """Two types whose values are compared, and how a small number becomes a value of either."""

    name: str
    left: pa.DataType
    right: pa.DataType
    values: Callable[[pa.DataType, list[int | None]], pa.Array] = lambda kind, numbers: pa.array(
        numbers, pa.int64()
    ).cast(kind)

    def __str__(self) -> str:
        return self.name


def _floats(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    """Zero is −0.0 in one type, and a missing value NaN in the other."""
    signed = kind == pa.float32()
    made = [
        (None if signed else math.nan) if n is None else (-0.0 if signed and n == 0 else n / 2)
        for n in numbers
    ]
    return pa.array(made, kind)


def _texts(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    words = ["", "a", "ä", "aa", "\U0001f600", "zz zz zz zz", "b"]
    made = pa.array([None if n is None else words[n] for n in numbers], pa.string())
    return as_dictionary(made, kind) if pa.types.is_dictionary(kind) else made.cast(kind)


def _instants(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    return pa.array(numbers, pa.int64()).cast(pa.timestamp("s")).cast(kind)


def _durations(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    return pa.array(numbers, pa.int64()).cast(pa.duration("s")).cast(kind)


def _whole_days(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    return pa.array(numbers, pa.int32()).cast(pa.date32()).cast(kind)


KEY_KINDS = (
    KeyKind("int8, int64", pa.int8(), pa.int64()),
    KeyKind("uint64, int64", pa.uint64(), pa.int64()),
    KeyKind("int8, uint64", pa.int8(), pa.uint64()),
    KeyKind("uint16, int16", pa.uint16(), pa.int16()),
    KeyKind("bool", pa.bool_(), pa.bool_()),
    KeyKind("float32, float64", pa.float32(), pa.float64(), _floats),
    KeyKind("int16, float64", pa.int16(), pa.float64()),
    KeyKind("decimals", pa.decimal128(30, 2), pa.decimal128(22, 3)),
    KeyKind("text, large text", pa.string(), pa.large_string(), _texts),
    KeyKind("dictionaries", TEXTS, TEXTS, _texts),
    KeyKind("text, dictionary", pa.string(), TEXTS, _texts),
    KeyKind("binary", pa.binary(), pa.binary(), _texts),
    KeyKind("instants", pa.timestamp("s"), pa.timestamp("ns"), _instants),
    KeyKind("zones", pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ms", "UTC"), _instants),
    KeyKind("dates", pa.date32(), pa.date64(), _whole_days),
    KeyKind("durations", pa.duration("ms"), pa.duration("us"), _durations),
    KeyKind("durations of one unit", pa.duration("us"), pa.duration("us"), _durations),
    KeyKind("instants of one unit", pa.timestamp("ns"), pa.timestamp("ns"), _instants),
    KeyKind("one zone", *[pa.timestamp("ms", "Asia/Tokyo")] * 2, _instants),
    KeyKind("days", pa.date32(), pa.date32(), _whole_days),
    KeyKind("decimals of one type", pa.decimal128(22, 3), pa.decimal128(22, 3)),
    KeyKind("doubles", pa.float64(), pa.float64(), _floats),
    KeyKind("nothing", pa.null(), pa.int32(), lambda kind, n: pa.array([None] * len(n), kind)),
)

numbers = st.none() | st.integers(0, 6)


@dataclass(frozen=True)
class Case:
    """Two tables with key columns ``k0``, ``k1``, … and a column of row numbers each."""

    left: pa.Table
    right: pa.Table
    keys: int
    left_numbers: list[tuple[int | None, ...]]
    right_numbers: list[tuple[int | None, ...]]

    @property
    def on(self) -> list[str]:
        return [f"k{at}" for at in range(self.keys)]

    def stored(self, left_rows: int, right_rows: int) -> Store:
        store = fresh_store()
        with options(segment_rows=left_rows, segment_columns=2):
            store.write("x", self.left, index="t")
        with options(segment_rows=right_rows, segment_columns=1):
            store.write("y", self.right)
        return store


@st.composite
def cases(draw: st.DrawFn, max_rows: int = 9) -> Case:
    """Draw two tables; a value is that of one number in every kind, bool is of its last bit."""
    kinds = draw(st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=2))
    rows = st.lists(st.tuples(*(numbers for _ in kinds)), max_size=max_rows)
    left, right = draw(rows), draw(rows)
    sides = []
    for at, drawn in enumerate((left, right)):
        columns: dict[str, pa.Array] = {}
        for number, kind in enumerate(kinds):
            type_ = kind.right if at else kind.left
            values = [row[number] for row in drawn]
            if type_ == pa.bool_():
                values = [None if v is None else v % 2 for v in values]
            columns[f"k{number}"] = kind.values(type_, values)
        columns["v"] = pa.array(
            [f"{'r' if at else 'l'}{n}" for n in range(len(drawn))], pa.string()
        )
        if at == 0:
            columns["t"] = pa.array([n // 2 for n in range(len(drawn))], pa.timestamp("s"))
        sides.append(pa.table(columns))
    meant = [
        [
            tuple(
                None if kind.name == "nothing" and not at else _number(kind, v)
                for kind, v in zip(kinds, row, strict=True)
            )
            for row in drawn
        ]
        for at, drawn in enumerate((left, right))
    ]
    return Case(sides[0], sides[1], len(kinds), meant[0], meant[1])


def _number(kind: KeyKind, value: int | None) -> int | None:
    if kind.name == "nothing":
        return None
    return value % 2 if kind.name == "bool" and value is not None else value


def nested_loops(
    left: Sequence[tuple[int | None, ...]], right: Sequence[tuple[int | None, ...]], how: str
) -> list[tuple[int | None, int | None]]:
    """Return pairs of row numbers that come out, in order; None is no row."""
    found: list[tuple[int | None, int | None]] = []
    used = set()
    for at, key in enumerate(left):
        matches = [b for b, other in enumerate(right) if None not in key and key == other]
        used |= set(matches)
        if how == "semi":
            found += [(at, None)] if matches else []
        elif how == "anti":
            found += [] if matches else [(at, None)]
        elif matches:
            found += [(at, b) for b in matches]
        elif how in ("left", "outer"):
            found.append((at, None))
    if how in ("right", "outer"):
        found += [(None, b) for b in range(len(right)) if b not in used]
    return found
