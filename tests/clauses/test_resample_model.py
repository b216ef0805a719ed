"""resample on any split and any number of threads, against plain interpreters of its rules."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.expression.schema import TableSchema
from tests.clauses.calendar_model import FIRST_DAYS, ZONES, bucket_start
from tests.clauses.helpers import SETTINGS, answer, fresh_store, stored
from tests.clauses.reference import comparable, comparable_table, frame_of, run
from tests.strategies.queries import Step, build, conditions, query_tables, resamples
from tests.strategies.tables import cut_into_segments

Q = QueryBuilder()


def _check_resample(data: st.DataObject) -> None:
    table = data.draw(query_tables(index=True))
    schema = TableSchema(table.schema, "t")
    steps = []
    if data.draw(st.booleans()):
        steps.append(Step("filter", {"condition": data.draw(conditions(schema))}))
    steps.append(data.draw(resamples(schema)))
    query = build(steps)
    note(repr(query))
    store = fresh_store()
    data.draw(cut_into_segments(table, index="t")).write(store, "x")
    expected = run(steps, {"x": frame_of(table, "t")}, "x")
    found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))])
    assert found.column_names == list(expected.columns)
    for ours, wanted in zip(comparable_table(found, expected), comparable(expected), strict=True):
        assert ours == wanted
    assert store.schema("x", query).arrow.equals(found.schema, check_metadata=False)


@settings(max_examples=60)
@given(data=st.data())
def test_resamples(data: st.DataObject) -> None:
    _check_resample(data)


@pytest.mark.slow
@settings(max_examples=10_000)
@given(data=st.data())
def test_many_resamples(data: st.DataObject) -> None:
    _check_resample(data)


def _check_calendar(
    steps: list[int],
    first: int,
    zone: str | None,
    rule: str,
    closed: Literal["left", "right"],
    how: str,
    cut: int,
) -> None:
    seconds = [first]
    for step in steps:
        seconds.append(seconds[-1] + step)
    kind = pa.timestamp("s", zone)
    table = pa.table({"t": pa.array(seconds, kind), "v": list(range(len(seconds)))})
    query = Q.resample(rule, closed=closed, label=None if "E" in rule[1:2] else "left")
    found = answer(stored(table, index="t", rows=cut), query.agg(o=("v", how), n="size"))
    groups: dict[int, list[int]] = {}
    for value, second in enumerate(seconds):
        groups.setdefault(bucket_start(second, zone, rule, closed), []).append(value)
    assert found.column("n").to_pylist() == [len(rows) for rows in groups.values()]
    totals = {"max": max, "median": lambda rows: (rows[0] + rows[-1]) / 2}
    assert found.column("o").to_pylist() == [totals[how](rows) for rows in groups.values()]
    if query.agg(n="size").clauses[0].sides[1] == "left":  # type: ignore[attr-defined]
        assert found.column("t").cast(pa.int64()).to_pylist() == list(groups)


CALENDAR = {
    "steps": st.lists(st.integers(0, 40) | st.integers(0, 9_000_000), max_size=8),
    "first": st.integers(-4_100_000_000, 4_000_000_000)
    | st.sampled_from([1541300400, 1552190400, 1162089060, 1617463800, 1325239200, -3944736000]),
    "zone": st.sampled_from(ZONES),
    "rule": st.sampled_from(sorted(FIRST_DAYS)),
    "closed": st.sampled_from(["left", "right"]),
    "how": st.sampled_from(["max", "median"]),
    "cut": st.integers(1, 5),
}


@settings(max_examples=40)
@given(**CALENDAR)
@example(
    steps=[], first=1162089000, zone="America/St_Johns", rule="D", closed="left", how="max", cut=1
)
def test_calendars(**drawn: object) -> None:
    _check_calendar(**drawn)  # type: ignore[arg-type]


@pytest.mark.slow
@settings(max_examples=5_000)
@given(**CALENDAR)
def test_many_calendars(**drawn: object) -> None:
    _check_calendar(**drawn)  # type: ignore[arg-type]
