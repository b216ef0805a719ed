"""What a plan, a text or a store costs grows with its size and no faster; limits say what they are.

Slopes of calls are counted, without clocks, on the cases of ``benchmarks.limits``; the slopes of
processor time run as slow tests.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import tessel as ts
from benchmarks.limits import ALLOWED, CASES, Case, calls_slope, measured
from benchmarks.limits.__main__ import NO_LIMITS
from tessel import Expression, QueryBuilder, SubQuery, TesselError, col, lit, parse
from tessel.errors import (
    ExpressionDepthError,
    ExpressionError,
    InvalidInputError,
    LimitError,
    SymbolNameError,
    UnicodeTextError,
)
from tessel.expression import all_of, any_of, when
from tessel.expression.evaluate import evaluate
from tessel.store.events import LiveStore, Recorder
from tests.clauses.helpers import fresh_store

Q = QueryBuilder()
HALF = "\ud800"
HUGE = 10**5_000

_COUNTED = ("plan: ", "build: ", "parse: nested", "refuse: ", "to JSON", "write: ", "explain: ")
"""What calls of functions tell of; what Arrow and numpy do in one call is timed."""


def _counted() -> list[Case]:
    chosen = [case for case in CASES if case.name.startswith(_COUNTED)]
    chosen = [case for case in chosen if case.most >= 16 * case.few]
    # The text of these is as long as it is allowed to be, from some size on.
    return [case for case in chosen if "shared" not in case.name]


@pytest.mark.parametrize("case", _counted()[::3], ids=lambda case: case.name)
def test_calls_grow_with_the_size(case: Case) -> None:
    with ts.options(workers=1):
        assert calls_slope(case) <= ALLOWED


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_processor_time_grows_with_the_size(case: Case) -> None:
    with ts.options(workers=1, **NO_LIMITS):
        found = measured(case, ALLOWED)
    assert found.slope <= ALLOWED, (found.sizes, found.seconds)


def _called(times: Callable[[int], int]) -> Case:
    return Case("calls", lambda size: lambda: [len(str(at)) for at in range(times(size))])


_LINEAR: dict[str, Callable[[int], int]] = {
    "linear": lambda n: n,
    "with a constant": lambda n: 10_000 + n,
    "with a step": lambda n: n + 100 * (n >= 64),
}
_QUADRATIC: dict[str, Callable[[int], int]] = {
    "quadratic": lambda n: n * n,
    "with a constant": lambda n: 100_000 + n * n,
    "with a linear part": lambda n: 100 * n + n * n,
    "but for one doubling": lambda n: n * n if n < 256 else 128 * n,
}


@pytest.mark.parametrize("name", _LINEAR)
def test_calls_that_grow_linearly_pass(name: str) -> None:
    assert calls_slope(_called(_LINEAR[name])) <= ALLOWED


@pytest.mark.parametrize("name", _QUADRATIC)
def test_calls_that_grow_with_the_square_fail(name: str) -> None:
    assert calls_slope(_called(_QUADRATIC[name])) > ALLOWED


def test_time_that_grows_with_the_square_is_told_from_a_step() -> None:
    def case(cost: Callable[[int], int]) -> Case:
        return Case("sum", lambda n: lambda: sum(range(cost(n))), 64, 2048)

    assert measured(case(lambda n: n * n), ALLOWED).slope > 1.5
    assert measured(case(lambda n: 500 * n + 200_000 * (n >= 512)), ALLOWED).slope <= ALLOWED


# --- limits ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store() -> ts.Store:
    made = fresh_store()
    times = pa.array(range(4), pa.timestamp("us"))
    made.write("x", pa.table({"t": times, "a": [1, 2, 3, 4], "s": list("abcd")}), index="t")
    return made


def _says(error: LimitError | ExpressionDepthError, option: str, given: int, limit: int) -> None:
    assert error.attributes == {"option": option, "given": given, "limit": limit}
    assert f"{given:,}" in error.message
    assert f"the limit is {limit:,}" in error.message
    assert f"tessel.options({option}={given})" in str(error.hint)
    assert f"TESSEL_{option.upper()}={given}" in str(error.hint)


def test_a_query_of_too_many_clauses(store: ts.Store) -> None:
    query = Q
    for _ in range(10_001):
        query = query.head(3)
    with pytest.raises(LimitError) as caught:
        store.read("x", query=query)
    _says(caught.value, "max_clauses", 10_001, 10_000)
    with ts.options(max_clauses=7), pytest.raises(LimitError):
        QueryBuilder.from_json({"tessel_plan": 1, "clauses": [{"clause": "head"}] * 8})
    few = Q.head(3).head(2).head(1)
    with ts.options(max_clauses=2), pytest.raises(LimitError):
        store.schema("x", few)
    with ts.options(max_clauses=3):
        assert len(store.read("x", query=few)) == 1


def test_an_expression_of_too_many_nodes(store: ts.Store) -> None:
    terms = all_of(col("a") > number for number in range(20))
    nodes = 1 + 1 + 20 + 20  # equal ones count once
    with ts.options(max_nodes=nodes - 1), pytest.raises(LimitError) as caught:
        store.read("x", query=Q.filter(terms))
    _says(caught.value, "max_nodes", nodes, nodes - 1)
    with ts.options(max_nodes=nodes):
        assert len(store.read("x", query=Q.filter(terms))) == 0


def test_an_expression_that_is_too_deep(store: ts.Store) -> None:
    deep: Expression = col("a")
    for _ in range(39):
        deep = deep / 2
    with ts.options(max_depth=40):
        assert deep.depth == 40
        with pytest.raises(ExpressionDepthError) as caught:
            deep / 2
        _says(caught.value, "max_depth", 41, 40)
        with pytest.raises(ExpressionDepthError):
            parse("abs(" * 41 + "a" + ")" * 41)
    with ts.options(max_depth=3_000):
        for _ in range(2_000):
            deep = deep / 2
        assert Expression.from_json(json.loads(json.dumps(deep.to_json()))).equals(deep)
        assert parse(str(deep)).equals(deep)
        assert store.read("x", query=Q.apply("b", deep)).to_arrow()["b"][0].as_py() == 0.0


_NESTED = {
    "concat": lambda other: Q.concat(other),
    "merge": lambda other: Q.merge(other),
    "join": lambda other: Q.select("t", "a").join(other, "t", suffix="_r").select("t", "a"),
    "join_asof": lambda other: Q.select("t", "a").join_asof(other, suffix="_r").select("t", "a"),
}


@pytest.mark.parametrize("name", _NESTED)
def test_queries_too_deep_in_one_another(store: ts.Store, name: str) -> None:
    query = SubQuery("x")
    for _ in range(50):
        query = SubQuery("x", None, _NESTED[name](query).clauses)
    assert query.depth == 50
    deepest = QueryBuilder(query.clauses)
    assert QueryBuilder.from_json(json.dumps(deepest.to_json())) == deepest
    assert pickle.loads(pickle.dumps(deepest)) == deepest
    assert str(store.explain("x", deepest))
    rows = 4 if "join" in name else 4 * 51
    assert len(store.read("x", query=deepest)) == rows
    deeper = _NESTED[name](query)
    for ask in (store.read, store.explain):
        with pytest.raises(LimitError) as caught:
            ask("x", query=deeper)
        _says(caught.value, "max_query_depth", 51, 50)


def _json_nested(levels: int) -> dict[str, object]:
    made: dict[str, object] = {"symbol": "x", "as_of": None, "clauses": []}
    for _ in range(levels):
        clause = {"clause": "concat", "others": [made], "join": "outer"}
        made = {"symbol": "x", "as_of": None, "clauses": [clause]}
    return made


@pytest.mark.parametrize("levels", [300, 3_000])
@pytest.mark.parametrize("form", ["text", "data"])
def test_plans_nested_far_too_deep_are_refused_by_the_name_of_the_limit(
    levels: int, form: str
) -> None:
    inner = '{"symbol": "x", "as_of": null, "clauses": ['
    clause = '{"clause": "concat", "join": "outer", "others": ['
    text = f'{{"tessel_plan": 1, "clauses": [{clause}' + (inner + clause) * levels
    text += '{"symbol": "x"}' + "]}]}" * levels + "]}]}"
    plan = {"tessel_plan": 1, "clauses": _json_nested(levels)["clauses"]}
    with pytest.raises(TesselError) as caught:
        QueryBuilder.from_json(text if form == "text" else plan)
    assert caught.value.attributes["option"] == "max_query_depth"
    assert caught.value.attributes.get("given", 51) == 51


@pytest.mark.parametrize("verb", ["concat", "merge"])
def test_clauses_over_several_symbols_in_a_row_are_one(store: ts.Store, verb: str) -> None:
    query = Q
    for _ in range(300):  # one in another, 141 concats or 69 merges went past Python's stack
        query = getattr(query, verb)("x")
    found = store.read("x", query=query.head(900)).to_arrow()
    together = getattr(Q, verb)(*["x"] * 300).head(900)
    assert found.equals(store.read("x", query=together).to_arrow())
    assert len(found) == 900


@pytest.mark.parametrize("verb", ["concat", "merge"])
def test_clauses_that_become_one_keep_their_types_and_columns(verb: str) -> None:
    store = fresh_store()
    for at, kind in enumerate(("int16", "uint16", "float32")):
        times = pa.array(range(at, 9, 3), pa.timestamp("us"))
        values = pa.array([at] * 3, pa.type_for_alias(kind))
        store.write(kind, pa.table({"t": times, "v": values, kind: values}), index="t")
    for join in ("outer", "inner"):
        one = getattr(Q, verb)("uint16", join=join)
        two = getattr(one, verb)("float32", join=join)
        found = store.read("int16", query=two).to_arrow()
        assert found.schema.field("v").type == pa.float64()  # of int32 and float32
        apart = getattr(one.filter("v >= 0"), verb)("float32", join=join)
        assert found.equals(store.read("int16", query=apart).to_arrow())
        other = "inner" if join == "outer" else "outer"
        found = store.read("int16", query=getattr(one, verb)("float32", join=other)).to_arrow()
        apart = getattr(one.filter("v >= 0"), verb)("float32", join=other)
        assert found.equals(store.read("int16", query=apart).to_arrow())


def test_a_text_of_too_many_bytes() -> None:
    text = "a == 'é" + "x" * 3_000 + "'"
    size = len(text.encode())
    with ts.options(max_text_bytes=size):
        parse(text)
    with ts.options(max_text_bytes=size - 1), pytest.raises(LimitError) as caught:
        parse(text)
    _says(caught.value, "max_text_bytes", size, size - 1)
    with pytest.raises(LimitError):
        parse("?" * 10_000_000)


def test_limits_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSEL_MAX_TEXT_BYTES", "2000")
    with pytest.raises(LimitError):
        parse("x" * 2_001)


@pytest.mark.parametrize(
    "text",
    ["a == '" + "x" * 1_000_000 + "'", "`" + "x" * 1_000_000 + "`", "binary '" + "0" * 10**6 + "'"],
    ids=["literal", "name", "typed"],
)
def test_a_long_token_takes_memory_of_its_own_size(text: str) -> None:
    parse("a == 'x'")
    code = (
        "import resource, sys, tessel as ts; ts.parse(\"a == 'x'\");"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; ts.parse(sys.stdin.read());"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=text, text=True, capture_output=True, check=True
    )
    assert int(run.stdout) < 48 * 1024  # kilobytes; a group repeated for each took 800 MB


@pytest.mark.parametrize(
    "nest",
    [
        lambda e: ~e,
        lambda e: e & (col("a") > 1) | (col("a") > 2),
        lambda e: (e | (col("t") > "2020-01-01")) & (col("t") > "2019-01-01"),
        lambda e: when(e).then(True).otherwise(False),
        lambda e: e ^ (col("a") > 0),
        lambda e: (e.cast("int8") + 0) > 0,
    ],
)
def test_what_is_nested_as_deep_as_is_allowed_runs(
    store: ts.Store, nest: Callable[[Expression], Expression]
) -> None:
    expression: Expression = col("a") > 0
    while True:
        try:
            expression = nest(expression)
        except ExpressionDepthError:
            break
    rows = store.read("x").to_arrow()
    kept = rows.filter(evaluate(expression, rows))  # as written, without a plan
    assert store.read("x", query=Q.filter(expression)).to_arrow().equals(kept)
    assert str(store.explain("x", Q.filter(expression)))
    assert QueryBuilder.from_json(json.dumps(Q.filter(expression).to_json())) == Q.filter(
        expression
    )


def test_many_terms_and_values_give_the_answer(store: ts.Store) -> None:
    many = 3_000
    assert len(store.read("x", query=Q.filter(any_of(col("a") == n for n in range(many))))) == 4
    assert len(store.read("x", query=Q.filter(col("a").is_in(range(3, many))))) == 2
    query = Q.apply("b", col("a") * 2)
    for number in range(200):
        query = query.filter(col("a") != number + 3).apply(f"c{number % 3}", col("b") + number)
    assert store.read("x", query=query).to_arrow()["a"].to_pylist() == [1, 2]


def test_a_builder_holds_only_what_it_added() -> None:
    query = Q.head(3)
    tracemalloc.start()
    for _ in range(2_000):
        query = query.head(3)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2_000 * 2_000  # a list of all clauses in each took four times as much
    assert len(query.clauses) == 2_001


def test_chains_share_what_was_built(store: ts.Store) -> None:
    base = Q.filter("a > 1")
    left, right = base.head(1), base.tail(1)
    assert [clause.name for clause in left.clauses] == ["filter", "head"]
    assert [clause.name for clause in right.clauses] == ["filter", "tail"]
    first = (col("a") > 1) & (col("a") > 2)
    second, third = first & (col("a") > 3), first & (col("a") > 4)
    assert str(second) == "a > 1 and a > 2 and a > 3"
    assert str(third) == "a > 1 and a > 2 and a > 4"
    branch = when(col("a") > 1).then(1)
    one, two = branch.when(col("a") > 0).then(2).otherwise(0), branch.otherwise(5)
    assert str(one) == "case when a > 1 then 1 when a > 0 then 2 else 0 end"
    assert str(two) == "case when a > 1 then 1 else 5 end"


# --- text that no UTF-8 can hold, and numbers that no type can ------------------------------------


SURROGATES: dict[str, Callable[[ts.Store], object]] = {
    "matches": lambda s: col("s").matches(HALF),
    "like": lambda s: col("s").like(HALF),
    "contains": lambda s: col("s").contains(HALF),
    "replace": lambda s: col("s").replace(HALF, ""),
    "literal": lambda s: lit(HALF),
    "comparison": lambda s: col("s") == HALF,
    "numpy": lambda s: col("s") == np.str_(HALF),
    "is_in": lambda s: col("s").is_in(["a", HALF]),
    "column": lambda s: col(HALF),
    "field": lambda s: col("s").field(HALF),
    "parse": lambda s: parse(f"s == '{HALF}'"),
    "select": lambda s: Q.select(HALF),
    "rename": lambda s: Q.rename({"a": HALF}),
    "apply": lambda s: Q.apply(HALF, "a"),
    "output": lambda s: Q.groupby("s").agg(**{HALF: ("a", "sum")}),
    "suffix": lambda s: Q.join("x", "a", suffix=HALF),
    "plan": lambda s: QueryBuilder.from_json(
        json.dumps({"tessel_plan": 1, "clauses": [{"clause": "select", "columns": [HALF]}]})
    ),
    "add_column": lambda s: s.add_column("x", HALF, 1),
    "rename_columns": lambda s: s.rename_columns("x", {"a": HALF}),
    "index": lambda s: s.write("y", {"a": [1]}, index=HALF),
    "names": lambda s: s.write("y", {HALF: [1]}),
    "values": lambda s: s.write("y", {"a": [HALF]}),
    "symbol": lambda s: s.read(HALF),
    "pattern": lambda s: s.symbols(HALF),
    "as_of": lambda s: s.read("x", as_of=HALF),
    "branch": lambda s: s.create_branch(HALF),
    "tag": lambda s: s.create_tag(HALF),
    "message": lambda s: s.transaction(HALF),
    "revert": lambda s: s.revert(1, HALF),
    "metadata": lambda s: s.set_metadata("x", {"deep": [{HALF: 1}]}),
    "metadata of a write": lambda s: s.write("x", {"a": [1]}, metadata={"a": HALF}),
    "metadata of a commit": lambda s: s.transaction("m", metadata={"a": HALF}),
    "task": lambda s: s.stage("x", {"a": [1]}, task_id=HALF),
    "write_id": lambda s: s.finalize("x", [s.stage("x", {"a": [1]}, task_id="1")], write_id=HALF),
    "entity": lambda s: Recorder(LiveStore()).log(HALF, {"a": 1.0}, frame=1),
    "component": lambda s: Recorder(LiveStore()).log("q", {HALF: 1.0}, frame=1),
    "timeline": lambda s: Recorder(LiveStore()).log("q", {"a": 1.0}, **{HALF: 1}),
    "date_range": lambda s: s.read("x", date_range=(HALF, None)),
    "resample": lambda s: s.read("x", query=Q.resample(HALF).agg(a=("a", "sum"))),
    "uri": lambda s: ts.open(f"/tmp/{HALF}"),
}


@pytest.mark.parametrize("name", SURROGATES)
def test_half_of_a_surrogate_pair_is_refused(store: ts.Store, name: str) -> None:
    with pytest.raises(ts.TesselError) as caught:
        SURROGATES[name](store)
    assert json.loads(json.dumps(caught.value.to_json()))
    str(caught.value).encode()  # can be printed
    assert store.version == 1


def test_a_symbol_is_told_apart_from_the_message_that_names_it(store: ts.Store) -> None:
    for verb in (store.delete, lambda name: store.write(name, store.scan("x"))):
        with pytest.raises(SymbolNameError):
            verb(HALF)


def test_the_error_says_where_the_half_is() -> None:
    with pytest.raises(UnicodeTextError, match=r"a column name .* at character 3: 'é?.*") as caught:
        col(f"xy{HALF}")
    assert caught.value.attributes == {"place": 2}
    assert isinstance(caught.value, UnicodeError)


NUMBERS: dict[str, Callable[[ts.Store], object]] = {
    "literal": lambda s: lit(HUGE),
    "comparison": lambda s: col("a") == -HUGE,
    "is_in": lambda s: col("a").is_in([HUGE]),
    "text": lambda s: parse("a == " + "9" * 5_000),
    "negative text": lambda s: parse("a == -" + "9" * 5_000),
    "typed": lambda s: parse("a == int8 '" + "9" * 5_000 + "'"),
    "instant": lambda s: parse("t > timestamp '@" + "9" * 5_000 + "'"),
    "duration": lambda s: parse("t > duration '" + "9" * 5_000 + "s'"),
    "floor": lambda s: col("t").floor("9" * 5_000 + "s"),
    "plan": lambda s: QueryBuilder.from_json(
        '{"tessel_plan": 1, "clauses": [{"clause": "head", "n": ' + "9" * 5_000 + "}]}"
    ),
    "round": lambda s: round(col("a"), HUGE),
    "slice": lambda s: col("s").slice(HUGE),
    "shift": lambda s: Q.shift("a", HUGE),
    "rolling": lambda s: Q.rolling(HUGE).agg(a=("a", "sum")),
    "resample": lambda s: Q.resample("9" * 5_000 + "s").agg(a=("a", "sum")),
    "fill": lambda s: s.read("x", query=Q.fill("a", value=HUGE)),
    "ewm": lambda s: Q.ewm(span=HUGE).agg(a=("a", "mean")),
    "quantile": lambda s: Q.agg(a=("a", "quantile", HUGE)),
    "as_of": lambda s: s.read("x", as_of=HUGE),
    "date_range": lambda s: s.read("x", date_range=(HUGE, None)),
    "limit": lambda s: s.log(limit=HUGE),
    "write": lambda s: s.write("y", {"a": [HUGE]}),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_of_many_digits_is_refused(store: ts.Store, name: str) -> None:
    with pytest.raises(ts.TesselError) as caught:
        NUMBERS[name](store)
    assert len(str(caught.value)) < 2_000
    assert json.loads(json.dumps(caught.value.to_json()))


# --- regular expressions --------------------------------------------------------------------------


def test_patterns_over_symbols_take_linear_time() -> None:
    store = fresh_store()
    store.write("a" * 1_000, pa.table({"v": [1]}))
    assert store.symbols("(a+)+b") == []  # Python's re would take 2^1000 steps
    assert store.symbols("(a+)+") == ["a" * 1_000]
    assert store.symbols("a") == []


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)", "a" * 1_001, 5, HALF])
def test_a_pattern_that_is_none_is_refused(pattern: object) -> None:
    with pytest.raises(InvalidInputError, match="is no regular expression"):
        fresh_store().symbols(pattern)  # type: ignore[arg-type]


def test_patterns_that_are_refused_leave_nothing_on_the_error_output() -> None:
    code = """
import tessel as ts
store = ts.open("memory://")
for pattern in ["(", "(?=a)", "a**", "[[:x:]]", "(x{1000}){1000}", "x" * 2_000_000, "\\ud800"]:
    for use in (store.symbols, ts.col("s").matches, ts.col("s").like):
        try:
            use(pattern)
        except ts.TesselError as error:
            str(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")


def test_a_pattern_too_large_for_re2_is_refused() -> None:
    for use in (col("s").matches, col("s").like):
        with pytest.raises(ExpressionError) as caught:
            use("x_" * 2_000_000)
        assert len(str(caught.value)) < 2_000
