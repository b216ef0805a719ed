"""No pass changes an answer: random chains with every pass on, with each one off, and with none.

The chains tempt the passes: predicates on the time index, constants, conditions that raise, filters
behind projections, limits, several symbols with columns of other types or none. An answer as
written is the answer of every plan; where a query as written raises, a plan may raise or not.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.errors import TesselError
from tessel.expression import Expression, col, lit
from tessel.expression.schema import TableSchema
from tessel.pipeline.planner.planner import PASSES, REQUIRED, query_schema
from tests.clauses.helpers import Latest, answer_of_passes, bare_answer, fresh_store, same_table
from tests.strategies.queries import build, chains, query_tables, row_ends
from tests.strategies.tables import cut_into_segments

LARGE = 2**62
INSTANTS = ("2021-03-13T00:00:00", "2021-03-13T01:00:00", "2021-03-14T06:00:00", "2021-03-12")


@st.composite
def _predicates(draw: st.DrawFn, schema: TableSchema) -> Expression:
    """Draw a condition: on the index, constant, or one that may raise."""
    choices: list[Expression] = [
        lit(True),
        lit(None) > 3,
        lit(2) < lit(1),
        lit(2**63 - 1) + lit(LARGE) > 0,
    ]
    whole = [n for n in schema.names if schema.type_of(n) == pa.int64()]
    if whole:
        name = draw(st.sampled_from(whole))
        choices += [col(name) * LARGE > 0, col(name) > lit(1) + 1, col(name).is_in([1, None])]
    if schema.index is not None:
        index, zone = col(schema.index), schema.type_of(schema.index).tz
        first, second = (draw(st.sampled_from(INSTANTS)) for _ in range(2))
        choices += [
            index > first,
            index <= first,
            ~(index >= first),
            index == first,
            index.between(first, second),
            index.is_in([first, second]),
            (index < first) | (index > second),
            index != first,
        ]
        choices += [index >= f"{second[:10]}T05:00:00+02:00"] if zone else []
    first_choice = draw(st.sampled_from(choices))
    if draw(st.booleans()):
        return first_choice
    join = draw(st.sampled_from(["and", "or"]))
    other = draw(st.sampled_from(choices))
    return first_choice & other if join == "and" else first_choice | other


@st.composite
def _more(draw: st.DrawFn, schema: TableSchema, query: QueryBuilder) -> QueryBuilder:
    """Draw one more clause of those that the passes look for."""
    kind = draw(st.sampled_from(["filter", "filter", "head", "row_range", "merge", "aggregates"]))
    if kind == "filter":
        return query.filter(draw(_predicates(schema)))
    if kind == "head":
        return draw(st.sampled_from([query.head, query.tail]))(draw(st.integers(0, 6)))
    if kind == "row_range":
        ends = draw(row_ends(st.integers(-6, 6)))
        return query.row_range(*ends)
    if kind == "merge":
        return query.merge("y") if schema.index == "t" else query
    outputs: dict[str, Any] = {"size": "size"}
    for at, name in enumerate(schema.names):
        outputs |= {f"count{at}": (name, "count"), f"max{at}": (name, "max")}
        outputs |= {f"min{at}": (name, "min")}
    chosen = draw(st.lists(st.sampled_from(sorted(outputs)), min_size=1, max_size=4, unique=True))
    return query.agg(**{name: outputs[name] for name in chosen})


@st.composite
def tempting_chains(draw: st.DrawFn, store: Store, others: dict[str, TableSchema]) -> QueryBuilder:
    """Draw a query on the symbol ``x`` that the planner accepts."""
    query = QueryBuilder()
    catalog = Latest(store)
    for _ in range(draw(st.integers(1, 5))):
        schema = query_schema(catalog, SubQuery("x", None, query.clauses))
        if draw(st.booleans()):
            longer = build(draw(chains(schema, others=others, max_steps=2)), query)
        else:
            longer = draw(_more(schema, query))
        try:
            query_schema(catalog, SubQuery("x", None, longer.clauses))
        except TesselError:
            continue  # the types of two symbols do not go together, or outputs share a name
        query = longer
    return query


def _drawn(data: st.DataObject) -> tuple[Store, QueryBuilder]:
    store = fresh_store()
    schemas = {}
    for name, rows in (("x", 24), ("y", 8)):
        table = data.draw(query_tables(max_rows=rows))
        index = "t" if "t" in table.column_names else None
        data.draw(cut_into_segments(table, index=index)).write(store, name)
        schemas[name] = TableSchema(table.schema, index)
    query = data.draw(tempting_chains(store, {"y": schemas["y"]}))
    note(repr(query))
    return store, query


def _check(store: Store, query: QueryBuilder, left_out: list[Any]) -> None:
    try:
        written = bare_answer(store, query)
    except TesselError:
        return  # a plan may do better; it may not do worse
    for one in left_out:
        passes = tuple(each for each in PASSES if each is not one)
        found = answer_of_passes(store, query, passes)
        assert same_table(found, written), f"without {getattr(one, '__name__', one)}"


OPTIONAL = [each for each in PASSES if each not in REQUIRED]


@settings(max_examples=40)
@given(data=st.data())
def test_with_all_passes_and_with_one_left_out(data: st.DataObject) -> None:
    store, query = _drawn(data)
    _check(store, query, [None, data.draw(st.sampled_from(OPTIONAL))])


@settings(max_examples=40)
@given(data=st.data())
def test_with_one_pass_alone(data: st.DataObject) -> None:
    store, query = _drawn(data)
    chosen = data.draw(st.sampled_from(OPTIONAL))
    try:
        written = bare_answer(store, query)
    except TesselError:
        return
    passes = tuple(each for each in PASSES if each is chosen or each in REQUIRED)
    assert same_table(answer_of_passes(store, query, passes), written), chosen.__name__


@pytest.mark.slow
@settings(max_examples=10_000)
@given(data=st.data())
def test_many_with_each_left_out(data: st.DataObject) -> None:
    store, query = _drawn(data)
    _check(store, query, [None, *OPTIONAL])
