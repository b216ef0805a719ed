"""join_asof against a search row by row, Polars, pandas and DuckDB."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import AsofInputs, JoinAsof, QueryBuilder, SubQuery
from tessel.clauses.joining.asof_shape import AsofShape
from tessel.clauses.structures import UnitFacts
from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.piece import ColRange, RowRange, TimeRange
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    ExpressionError,
    IndexColumnError,
    IntegerOverflowError,
    PlanError,
    PlanFormatError,
    SchemaMismatchError,
    UnsortedIndexError,
)
from tessel.expression.schema import TableSchema
from tessel.options import options
from tessel.testing.conformance import check_clause
from tests.clauses.helpers import answer, fresh_store
from tests.clauses.joins.tables import MOST_KEYS, narrowed
from tests.oracles import as_declared, duckdb_answer, polars_frame, same_rows

Q = QueryBuilder()
DIRECTIONS = ("backward", "forward", "nearest")
TIMES = (
    (pa.int64(), pa.int16()),
    (pa.timestamp("s"), pa.timestamp("ns")),
    (pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ms", "UTC")),
    (pa.date32(), pa.date32()),
)


def _times(kind: pa.DataType, values: list[int]) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(pa.timestamp("s")).cast(kind)
    width = pa.int32() if pa.types.is_date(kind) else pa.int64()
    return pa.array(values, width).cast(kind)


def _expected(
    left: list[tuple[int, Any]],
    right: list[tuple[int, Any]],
    direction: str,
    within: int | None,
    exact: bool,
    by: bool,
) -> list[int | None]:
    """Search for each row of the left, over all rows of the right."""
    found = []
    for time, key in left:
        best: tuple[int, int, int] | None = None
        for at, (other, of) in enumerate(right):
            apart = abs(time - other)
            looks = {"backward": other <= time, "forward": other >= time, "nearest": True}
            if by and (key is None or key != of):
                continue
            if not looks[direction] or (within is not None and apart > within):
                continue
            if not exact and apart == 0:
                continue
            rank = (apart, int(other > time), -at)
            if best is None or rank < best:
                best = rank
        found.append(None if best is None else -best[2])
    return found


rows = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["a", "b", None])), max_size=12).map(
    lambda drawn: sorted(drawn, key=lambda row: row[0])
)


@settings(max_examples=40)
@given(
    left=rows,
    right=rows,
    kinds=st.sampled_from(TIMES),
    direction=st.sampled_from(DIRECTIONS),
    within=st.none() | st.integers(0, 4),
    exact=st.booleans(),
    by=st.booleans(),
    named=st.booleans(),
    cuts=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    most_keys=MOST_KEYS,
)
def test_rows_are_those_of_a_search(
    left: Any,
    right: Any,
    kinds: Any,
    direction: Any,
    within: int | None,
    exact: bool,
    by: bool,
    named: bool,
    cuts: tuple[int, int],
    most_keys: int | None,
) -> None:
    store = fresh_store()
    for name, drawn, kind, cut in zip("xy", (left, right), kinds, cuts, strict=True):
        table = pa.table(
            {
                "t": _times(kind, [time for time, _ in drawn]),
                "k": pa.array([key for _, key in drawn], pa.string()),
                "v": pa.array(range(len(drawn)), pa.int64()),
            }
        )
        with options(segment_rows=cut, segment_columns=2):
            store.write(name, table, index=None if named else "t")
    tolerance: Any = within
    if within and not pa.types.is_integer(kinds[0]):
        tolerance = f"{within}s" if pa.types.is_timestamp(kinds[0]) else f"{within}D"
    query = Q.join_asof(
        "y",
        "t" if named else None,
        by="k" if by else None,
        tolerance=tolerance,
        direction=direction,
        allow_exact_matches=exact,
    )
    with narrowed(most_keys):
        found = answer(store, query)
    assert found.column("v").to_pylist() == list(range(len(left)))
    expected = _expected(left, right, direction, within, exact, by)
    assert found.column("v_right").to_pylist() == expected
    assert found.column_names == ["t", "k", "v", *([] if by else ["k_right"]), "v_right"]
    promised = store.schema("x", query)
    assert promised.index == "t"
    assert promised.arrow == found.schema.remove_metadata()


def _trades(count: int = 150, seed: int = 0) -> tuple[Store, pa.Table, pa.Table]:
    """Return trades and quotes; no two are equally far from one, so that engines agree."""
    random = np.random.default_rng(seed)

    def side(rows: int, odd: int, name: str) -> pa.Table:
        times = np.sort(random.choice(10 * count, rows, replace=False)) * 4 + odd
        return pa.table(
            {
                "t": pa.array(times * 1_000, pa.timestamp("us")),
                "s": pa.array(random.choice(["A", "B", "C"], rows), pa.string()),
                name: random.normal(size=rows),
            }
        )

    left, right = side(count, 0, "price"), side(2 * count, 1, "bid")
    store = fresh_store()
    with options(segment_rows=40):
        store.write("x", left, index="t")
        store.write("y", right, index="t")
    return store, left, right


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("by", [None, "s"])
def test_rows_are_those_of_polars_and_pandas(direction: Any, by: str | None) -> None:
    store, left, right = _trades()
    query = Q.join_asof("y", by=by, tolerance="25ms", direction=direction)
    found = answer(store, query)
    theirs = polars_frame(left).join_asof(
        polars_frame(right),
        on="t",
        by=by,
        strategy=direction,
        tolerance="25ms",
        check_sortedness=False,
    )
    assert same_rows(found, theirs.to_arrow())
    merged = pd.merge_asof(
        left.to_pandas(),
        right.rename_columns(["t", "s" if by else "s_right", "bid"]).to_pandas(),
        on="t",
        by=by,
        tolerance=pd.Timedelta("25ms"),
        direction=direction,
    )
    expected = pa.Table.from_pandas(merged, preserve_index=False)
    assert same_rows(found, as_declared(expected, found.schema))
    bids = found.column("bid").null_count
    assert 0 < bids < found.num_rows


def test_rows_are_those_of_duckdb() -> None:
    store, left, right = _trades(seed=3)
    for operator, direction in ((">=", "backward"), ("<=", "forward")):
        query = Q.join_asof("y", by="s", direction=direction)  # type: ignore[arg-type]
        found = answer(store, query)
        expected = duckdb_answer(
            "select l.t, l.s, l.price, r.bid from l asof left join r "
            f"on l.s = r.s and l.t {operator} r.t order by l.t",
            l=left,
            r=right,
        )
        assert same_rows(found, as_declared(expected, found.schema))


def test_polars_takes_the_first_of_equal_times_looking_forward() -> None:
    """The adapter in use: without equal times of the right both agree."""
    left, right = {"t": [1]}, {"t": [2, 2], "v": [1, 2]}
    store = fresh_store()
    store.write("x", pa.table(left), index="t")
    store.write("y", pa.table(right), index="t")
    ours = answer(store, Q.join_asof("y", direction="forward"))
    theirs = pl.DataFrame(left).join_asof(pl.DataFrame(right), on="t", strategy="forward")
    assert ours.column("v").to_pylist() == [2]
    assert theirs["v"].to_list() == [1]


def test_the_time_of_the_match_is_seen_under_another_name() -> None:
    store, _, _ = _trades()
    other = SubQuery("y", None, Q.rename({"t": "quoted"}).clauses)
    found = answer(store, Q.join_asof(other, by="s").filter("quoted is not missing"))
    assert found.column_names == ["t", "s", "price", "quoted", "bid"]
    apart = [
        a - b for a, b in zip(*(found.column(n).to_pylist() for n in ("t", "quoted")), strict=True)
    ]
    assert min(apart).total_seconds() > 0
    late = answer(
        store,
        Q.join_asof(other, ("t", "quoted"), tolerance="2ms")
        .resample("1s")
        .agg(n=("quoted", "count")),
    )
    assert late.num_rows > 1


def test_a_stream_holds_no_more_than_it_needs() -> None:
    """Of a right with many rows between two of the left, those that are past are let go."""
    schema = TableSchema(pa.schema([("t", pa.int64())]), "t")
    wide = TableSchema(pa.schema([("t", pa.int64()), ("v", pa.int64())]), "t")
    shape = AsofShape(schema, wide, (), "backward", None, True, "_right")
    alive: list[int] = []

    def units(of: TableSchema, times: list[range]) -> Iterator[ProcessingUnit]:
        for number, part in enumerate(times):
            alive.append(pa.total_allocated_bytes())
            table = pa.table({name: pa.array(part) for name in of.names})
            yield ProcessingUnit(number, of, [Piece(table, RowRange(0, 1), ColRange(0, 1))])

    right = [range(at, at + 50_000) for at in range(0, 4_000_000, 50_000)]
    left = [range(0, 4_000_000, 1_000_000)]
    joined = AsofInputs(shape, ("x", "y")).interleave([units(schema, left), units(wide, right)])
    before = pa.total_allocated_bytes()
    (unit,) = joined
    assert unit.table.to_pydict() == {"t": list(left[0]), "v": list(left[0])}
    assert len(alive) == len(right) + 1
    assert max(alive) - before < 8_000_000  # three units; all of the right are 64 MB


cuts = st.lists(st.integers(0, 14), max_size=5).map(sorted)


@settings(max_examples=60)
@given(
    times=st.tuples(*[st.lists(st.integers(0, 12), max_size=14).map(sorted)] * 2),
    cut=st.tuples(cuts, cuts),
    kinds=st.sampled_from(TIMES),
    direction=st.sampled_from(DIRECTIONS),
    exact=st.booleans(),
    slack=st.integers(0, 3),
    told=st.booleans(),
)
def test_pieces_in_reach_are_enough(
    times: Any, cut: Any, kinds: Any, direction: Any, exact: bool, slack: int, told: bool
) -> None:
    """Each unit of the left with what is given to it, against everything with everything."""
    schemas = [
        TableSchema(pa.schema([("t", kind), (name, pa.int64())]), "t")
        for kind, name in zip(kinds, "ab", strict=True)
    ]
    shape = AsofShape(schemas[0], schemas[1], (), direction, None, exact, "_right")
    step = AsofInputs(shape, ("x", "y"))
    pieces: list[Piece] = []
    facts: list[UnitFacts] = []
    for symbol, (schema, values, places) in enumerate(zip(schemas, times, cut, strict=True)):
        held = _times(schema.type_of("t"), values)
        table = pa.Table.from_arrays([held, pa.array(range(len(held)))], schema=schema.arrow)
        scale = 10**9 if schema.type_of("t") == pa.timestamp("ns") else 1
        scale = {"us": 10**6, "ms": 10**3}.get(getattr(schema.type_of("t"), "unit", ""), scale)
        for start, stop in itertools.pairwise(
            [0, *(min(at, len(held)) for at in places), len(held)]
        ):
            part = table.slice(start, stop - start)
            # What is known may be wider than what is there, as far as the neighbours let it.
            low = max([values[start] - slack, *values[:start]]) if part.num_rows else 0
            high = min([values[stop - 1] + slack, *values[stop:]]) if part.num_rows else 0
            span = TimeRange(low * scale, high * scale) if told else None
            rows = RowRange(start, stop)
            pieces.append(Piece(part, rows, ColRange(0, 2), span, symbol))
            facts.append(UnitFacts(len(facts), part.num_rows, rows, ColRange(0, 2), span, symbol))
    groups = step.restructure(facts, schemas[0])
    made = [
        step.process(ProcessingUnit(at, schemas[0], [pieces[place] for place in group])).table
        for at, group in enumerate(groups)
    ]
    found = pa.concat_tables([shape.schema.empty(), *made])
    ours, theirs = ([(time, None) for time in side] for side in times)
    expected = _expected(ours, theirs, direction, None, exact, False)
    assert found["a"].to_pylist() == list(range(len(times[0])))
    assert found["b"].to_pylist() == expected


def test_a_unit_gets_no_piece_out_of_reach() -> None:
    schema = TableSchema(pa.schema([("t", pa.int64()), ("v", pa.int64())]), "t")
    facts = [
        UnitFacts(at, 10, RowRange(0, 10), ColRange(0, 2), TimeRange(first, first + 9), symbol)
        for symbol in (0, 1)
        for at, first in enumerate(range(0, 100, 10), 10 * symbol)
    ]
    for direction, around in (("backward", (1, 0)), ("forward", (0, 1)), ("nearest", (1, 1))):
        shape = AsofShape(schema, schema, (), direction, None, True, "_right")  # type: ignore[arg-type]
        groups = AsofInputs(shape, ("x", "y")).restructure(facts, schema)
        assert groups[5] == [5, *range(15 - around[0], 16 + around[1])]
        assert len(groups) == 10


@pytest.mark.parametrize("by", [(), (("k", "k"),)])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_every_clause_promises(by: Any, direction: Any) -> None:
    table = pa.table(
        {
            "t": pa.array([n // 2 for n in range(24)], pa.timestamp("us")),
            "k": pa.array([None if n % 5 == 0 else n % 4 for n in range(24)], pa.int32()),
            "f": pa.array([n % 3 / 2 for n in range(24)]),
        }
    )
    other = SubQuery("symbol", None, Q.row_range(3, 20).clauses)
    check_clause(
        lambda: JoinAsof(other, None, by, None, direction, allow_exact_matches=False),
        table,
        index="t",
    )


def test_explain_tells_the_way() -> None:
    store, _, _ = _trades()
    assert "broadcast_asof(on=t, by=s, backward" in str(
        store.explain("x", Q.join_asof("y", by="s"))
    )
    with options(live_bytes=64):
        assert "hash_asof" in str(store.explain("x", Q.join_asof("y", by="s")))
        assert "asof_inputs" in str(store.explain("x", Q.join_asof("y")))


def test_the_plain_form_and_the_lazy_table() -> None:
    store, _, _ = _trades()
    other = SubQuery("y", None, Q.filter("bid > 0").clauses)
    query = Q.join_asof(other, by=["s"], tolerance="5ms", direction="nearest").tail(9)
    again = QueryBuilder.from_json(json.dumps(query.to_json()))
    assert again == query
    assert answer(store, again).equals(answer(store, query))
    right = store.scan("y").filter("bid > 0")
    lazy = store.scan("x").join_asof(right, by="s", tolerance="5ms", direction="nearest").tail(9)
    assert lazy.collect().to_arrow().equals(answer(store, query))
    plain = {"clause": "join_asof", "other": {"symbol": "y"}}
    assert QueryBuilder.from_json({"tessel_plan": 1, "clauses": [plain]}) == Q.join_asof("y")


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"on": "t"}, PlanFormatError, r"join_asof\.on takes a list"),
        ({"on": ["t"]}, PlanFormatError, "a list of 2 items"),
        ({"by": ["s"]}, PlanFormatError, r"join_asof\.by\[0\] takes a list"),
        ({"tolerance": 1.5}, PlanFormatError, r"join_asof\.tolerance takes"),
        ({"tolerance": True}, PlanFormatError, r"join_asof\.tolerance takes"),
        ({"tolerance": "5 parsecs"}, PlanError, "'5 parsecs' is not a tolerance"),
        ({"tolerance": -1}, PlanError, "tolerance is -1"),
        ({"direction": "sideways"}, PlanFormatError, "direction takes"),
        ({"allow_exact_matches": 1}, PlanFormatError, "allow_exact_matches takes"),
    ],
)
def test_rubbish_is_refused_with_its_place(
    change: dict[str, Any], error: type[Exception], text: str
) -> None:
    plain = {"clause": "join_asof", "other": {"symbol": "y"}} | change
    with pytest.raises(error, match=text):
        QueryBuilder.from_json({"tessel_plan": 1, "clauses": [plain]})


@dataclass(frozen=True)
class Misuse:
    make: Callable[[], QueryBuilder]
    error: type[Exception]
    text: str
    symbol: str = "x"


MISUSES = (
    Misuse(lambda: Q.join_asof("plain"), IndexColumnError, "no time index in the right, 'plain'"),
    Misuse(lambda: Q.join_asof("x"), IndexColumnError, "no time index in the left", "plain"),
    Misuse(lambda: Q.join_asof("y", "tt"), ColumnNotFoundError, "'tt' in the left"),
    Misuse(lambda: Q.join_asof("y", ("t", "tt")), ColumnNotFoundError, "'tt' in the right, 'y'"),
    Misuse(lambda: Q.join_asof("y", "s"), IndexColumnError, "cannot be a time index"),
    Misuse(lambda: Q.join_asof("whole"), SchemaMismatchError, "such keys are not compared"),
    Misuse(lambda: Q.join_asof("y", by="z"), ColumnNotFoundError, "'z' in the left"),
    Misuse(lambda: Q.join_asof("y", by={"s": "z"}), ColumnNotFoundError, "'z' in the right"),
    Misuse(lambda: Q.join_asof("y", by={"s": "v"}), SchemaMismatchError, "'s' of the left is str"),
    Misuse(lambda: Q.join_asof("y", by=["s", "s"]), DuplicateColumnError, "twice"),
    Misuse(lambda: Q.join_asof("y", suffix=""), DuplicateColumnError, "would be named 's'"),
    Misuse(lambda: Q.join_asof("whole", tolerance="5s"), PlanError, "give a whole number", "whole"),
    Misuse(lambda: Q.join_asof("y", direction="up"), PlanError, "backward"),  # type: ignore[arg-type]
    Misuse(lambda: Q.join_asof(None), PlanError, "takes symbols, not None"),  # type: ignore[arg-type]
)


@pytest.mark.parametrize("case", MISUSES, ids=lambda case: case.text)
def test_misuse_is_refused_before_anything_is_read(case: Misuse) -> None:
    store = fresh_store()
    times = pa.array([1, 2], pa.timestamp("s"))
    for name, index in (("x", "t"), ("y", "t"), ("plain", None)):
        store.write(name, pa.table({"t": times, "s": ["p", "q"], "v": [1, 2]}), index=index)
    store.write("whole", pa.table({"t": [1, 2]}), index="t")
    with pytest.raises(case.error, match=case.text):
        store.explain(case.symbol, case.make())


@pytest.mark.parametrize("by", [None, "s"])
@pytest.mark.parametrize("symbol", ["x", "y"])
def test_what_is_not_ordered_is_refused_with_symbol_and_row(by: str | None, symbol: str) -> None:
    store = fresh_store()
    for name in ("x", "y"):
        times = [1, 2, 3, 9, 8] if name == symbol else [1, 2, 3, 4, 5]
        with options(segment_rows=2):
            store.write(name, pa.table({"t": times, "s": list("abcde")}))
    for live_bytes in (64, 1 << 28):
        with options(live_bytes=live_bytes), pytest.raises(UnsortedIndexError) as caught:
            store.read("x", query=Q.join_asof("y", "t", by=by))
        assert "goes back in row 4" in str(caught.value)
        assert f"symbol {symbol!r}" in str(caught.value)
    store.write("x", pa.table({"t": [1, None], "s": ["a", "b"]}))
    with pytest.raises(IndexColumnError, match=r"missing in row 1(.|\n)*symbol 'x'"):
        store.read("x", query=Q.join_asof(SubQuery("y", None, Q.merge(on="t").clauses), ("t", "t")))


def test_times_that_a_finer_unit_cannot_count_are_refused() -> None:
    store = fresh_store()
    store.write("x", pa.table({"t": pa.array([1, 2**40], pa.timestamp("s"))}), index="t")
    store.write("y", pa.table({"t": pa.array([1], pa.timestamp("ns"))}), index="t")
    with pytest.raises(IntegerOverflowError, match="cannot hold all of 't'"):
        store.read("x", query=Q.join_asof("y"))


def test_times_at_both_ends_of_64_bits() -> None:
    store = fresh_store()
    ends = [-(2**63), -1, 2**63 - 1]
    store.write("x", pa.table({"t": ends}), index="t")
    store.write("y", pa.table({"t": [-(2**63), 2**63 - 1], "v": [1, 2]}), index="t")
    found = answer(store, Q.join_asof("y", direction="nearest"))
    assert found.column("v").to_pylist() == [1, 1, 2]
    near = answer(store, Q.join_asof("y", direction="nearest", tolerance=2**62))
    assert near.column("v").to_pylist() == [1, None, 2]


def test_only_the_columns_that_are_wanted_are_read() -> None:
    store, _, _ = _trades(30)
    for query in (Q.join_asof("y"), Q.join_asof("y", by="s")):
        whole = answer(store, query)
        for name in whole.column_names:
            assert answer(store, query.select(name)).equals(whole.select([name])), name
    assert "columns: 2 of 3: t, bid" in str(store.explain("x", Q.join_asof("y").select("t", "bid")))


@pytest.mark.parametrize("live_bytes", [1, 256 << 20])
def test_what_fails_before_a_join_says_nothing_of_it(live_bytes: int) -> None:
    store = fresh_store()
    table = pa.table({"t": range(4), "s": ["1", "2", "x", "y"]})
    store.write("x", table, index="t")
    wrong = SubQuery("x", None, Q.apply("y", "cast(s, 'int64')").clauses)
    with options(live_bytes=live_bytes), pytest.raises(ExpressionError, match="'x'") as caught:
        store.read("x", query=Q.join_asof(wrong))
    assert set(caught.value.context) == {"clause", "symbol", "rows", "segment"}
