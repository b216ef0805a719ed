"""Random tables and random chains of clauses over them, as plain steps.

A test can hand the same chain to the builder (:func:`build`) and to an interpreter of its own::

    @given(data=st.data())
    def test_mine(data):
        table = data.draw(query_tables())
        steps = data.draw(chains(TableSchema(table.schema, "t")))
        store.read("symbol", query=build(steps))

Steps and their trees are those of :mod:`tests.strategies.steps`.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tessel.clauses.combining import SubQuery
from tessel.clauses.concat import Concat
from tessel.errors import PlanError, SchemaMismatchError
from tessel.expression.schema import TableSchema
from tests.strategies.join_steps import draw_asof, draw_join
from tests.strategies.steps import Step, Tree, build, expression_of
from tests.strategies.tables import as_dictionary

__all__ = [
    "Step",
    "Tree",
    "build",
    "chains",
    "conditions",
    "expression_of",
    "query_tables",
    "resamples",
    "row_ends",
]

EPOCH = dt.datetime(2020, 3, 7, 22, 0)
"""First instant of the random indexes: the day before New York moves its clocks."""

_TEXTS = ["", "a", "b", "Bé", "zz", "\U0001f600"]
_FLOATS = [0.0, -0.0, 1.5, -2.25, 0.1, 1e300, float("inf"), float("-inf"), float("nan")]
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
_INDEXES = (pa.timestamp("us"), pa.timestamp("ns", "America/New_York"), pa.timestamp("s", "UTC"))

# --- tables ---------------------------------------------------------------------------------------


@st.composite
def query_tables(draw: st.DrawFn, *, max_rows: int = 24, index: bool | None = None) -> pa.Table:
    """Draw a table with one column of each family that clauses treat differently.

    ``i`` small int64, ``w`` an integer of another width up to its bounds, ``f`` and ``g`` floats
    with NaN, infinities and both zeros, ``s`` text or a dictionary of it, ``b`` bool, ``u``
    instants, ``d`` dates; all with nulls. ``t``, where drawn, is fit to be the time index.
    """
    rows = draw(st.integers(0, max_rows))

    def values(strategy: st.SearchStrategy[Any]) -> list[Any]:
        present = draw(st.sampled_from([strategy, strategy, st.none() | strategy, st.none()]))
        return draw(st.lists(present, min_size=rows, max_size=rows))

    wide = draw(st.sampled_from(_INTEGERS))
    bounds = np.iinfo(wide.to_pandas_dtype())
    text = pa.array(values(st.sampled_from(_TEXTS)), pa.string())
    columns = {
        "i": pa.array(values(st.integers(-4, 4)), pa.int64()),
        "w": pa.array(
            values(st.sampled_from([bounds.min, bounds.max, 0, 1]) | st.integers(0, 5)), wide
        ),
        "f": pa.array(values(st.sampled_from(_FLOATS) | st.floats(-8, 8)), pa.float64()),
        "g": pa.array(values(st.sampled_from(_FLOATS[:5] + _FLOATS[6:])), pa.float32()),
        "s": as_dictionary(text) if draw(st.booleans()) else text,
        "b": pa.array(values(st.booleans()), pa.bool_()),
        "u": pa.array(values(st.integers(0, 5)), pa.timestamp("ms", draw(st.sampled_from(_ZONES)))),
        "d": pa.array(values(st.integers(-2, 2)), pa.int32()).cast(pa.date32()),
    }
    names = draw(st.permutations(sorted(columns)))
    kept = names[: draw(st.integers(2, len(names)))]
    made = {name: columns[name] for name in kept}
    if draw(st.booleans()) if index is None else index:
        made["t"] = draw(_index(rows))
        order = draw(st.permutations(sorted(made)))
        made = {name: made[name] for name in order}
    return pa.table(made)


_ZONES = (None, "UTC", "Asia/Kolkata")


@st.composite
def _index(draw: st.DrawFn, rows: int) -> pa.Array:
    kind = draw(st.sampled_from(_INDEXES))
    minutes = st.sampled_from([0, 0, 1, 7, 20, 60, 300])
    steps = draw(st.lists(minutes, min_size=rows, max_size=rows))
    seconds = (EPOCH - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=1)
    values = seconds + 60 * np.cumsum(np.array(steps, dtype=np.int64)) if rows else np.array([])
    naive = pa.array(values.astype(np.int64), pa.int64()).cast(pa.timestamp("s"))
    return naive.cast(pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)


# --- conditions and values ------------------------------------------------------------------------

_SAMPLES: tuple[tuple[Callable[[pa.DataType], bool], st.SearchStrategy[Any]], ...] = (
    (pa.types.is_boolean, st.booleans()),
    (pa.types.is_integer, st.integers(-5, 5)),
    (pa.types.is_floating, st.sampled_from([0.0, 1.5, -2.0, 100.0])),
    (pa.types.is_string, st.sampled_from(_TEXTS)),
)


def _samples(kind: pa.DataType) -> st.SearchStrategy[Any] | None:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return next((found for check, found in _SAMPLES if check(plain)), None)


def _column(name: str) -> Tree:
    return Tree("column", (name,))


@st.composite
def conditions(draw: st.DrawFn, schema: TableSchema, *, depth: int = 2) -> Tree:
    """Draw a condition over the columns of a schema."""
    if depth and draw(st.integers(0, 2)) == 0:
        operator = draw(st.sampled_from(["and", "or", "not"]))
        count = 1 if operator == "not" else 2
        return Tree(
            operator, tuple(draw(conditions(schema, depth=depth - 1)) for _ in range(count))
        )
    name = draw(st.sampled_from(schema.names))
    samples = _samples(schema.type_of(name))
    if samples is None or draw(st.integers(0, 5)) == 0:
        return Tree("missing", (_column(name),))
    if pa.types.is_boolean(schema.type_of(name)):
        return _column(name)
    literal = samples.map(lambda value: Tree("literal", (value,)))
    operator = draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "between"]))
    if operator == "in":
        return Tree("in", (_column(name), tuple(draw(st.lists(samples, min_size=1, max_size=3)))))
    if operator == "between":
        return Tree("between", (_column(name), draw(literal), draw(literal)))
    return Tree(operator, (_column(name), draw(literal)))


@st.composite
def _values(draw: st.DrawFn, schema: TableSchema) -> Tree:
    """Draw a value; the types are those whose result the semantics state without a doubt."""
    whole = [n for n in schema.names if schema.type_of(n) == pa.int64()]
    real = [n for n in schema.names if schema.type_of(n) == pa.float64()]
    choices = [conditions(schema)]
    if whole:
        name = st.sampled_from(whole).map(_column)
        three = Tree("literal", (3,))
        choices += [
            name.map(lambda a: Tree("+", (a, three))),
            name.map(lambda a: Tree("when", (Tree(">", (a, three)), a, a))),
        ]
    if real:
        name = st.sampled_from(real).map(_column)
        half = Tree("literal", (0.5,))
        choices += [name.map(lambda a: Tree("*", (a, half)))]
    if whole and real:
        pairs = st.tuples(st.sampled_from(real).map(_column), st.sampled_from(whole).map(_column))
        choices += [pairs.map(lambda pair: Tree("/", pair))]
    return draw(st.one_of(choices))


# --- steps ----------------------------------------------------------------------------------------


@st.composite
def _aggregates(draw: st.DrawFn, schema: TableSchema) -> dict[str, tuple[str | None, str]]:
    found: dict[str, tuple[str | None, str]] = {}
    merge_only = draw(st.booleans())
    free = (f"o{number}" for number in itertools.count() if f"o{number}" not in schema)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(schema.names))
        kind = schema.type_of(name)
        hows = ["count", "first", "last", "min", "max"] + ([] if merge_only else ["nunique"])
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            hows += ["sum", "mean", "var", "std"] + ([] if merge_only else ["median"])
        if pa.types.is_boolean(kind):
            hows += ["any", "all"]
        how = draw(st.sampled_from([*hows, "size"]))
        found[next(free)] = (None, "size") if how == "size" else (name, how)
    return found


@st.composite
def _bounds(draw: st.DrawFn) -> str | None:
    minutes = st.integers(-60, 60 * 60).filter(_exists_everywhere)
    at = EPOCH + dt.timedelta(minutes=draw(minutes))
    forms = ["%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
    return draw(st.none() | st.sampled_from(forms).map(at.strftime))


def _in_order(bounds: tuple[str | None, str | None]) -> tuple[str | None, str | None]:
    """Exchange ends that are exchanged, which are an error."""
    start, end = bounds
    backwards = start is not None and end is not None and start[: len(end)] > end
    return (end, start) if backwards else bounds


def _with_ends(drawn: Step) -> Step:
    start, end = drawn.arguments["bounds"]
    more = {"start": start, "end": end, "closed": drawn.arguments["closed"]}
    return Step(drawn.verb, more)


def row_ends(
    position: st.SearchStrategy[int],
) -> st.SearchStrategy[tuple[int | None, int | None]]:
    """Return ends of a range of rows, in order where both count from the same end."""

    def in_order(ends: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
        start, stop = ends
        if start is None or stop is None or (start < 0) != (stop < 0):
            return ends
        return min(start, stop), max(start, stop)

    return st.tuples(st.none() | position, st.none() | position).map(in_order)


def _exists_everywhere(minutes: int) -> bool:
    """Say whether an instant, read as local time, is not skipped by a change of clocks."""
    return (EPOCH + dt.timedelta(minutes=minutes)).hour != 2


def resamples(schema: TableSchema) -> st.SearchStrategy[Step]:
    """Return resamples of a table with a time index: rules, keys, origins, empty buckets."""
    sides = st.sampled_from(["left", "right"])
    keys = [
        name
        for name in schema.names
        if name != schema.index and not pa.types.is_nested(schema.type_of(name))
    ]
    by = st.lists(st.sampled_from(keys), max_size=2, unique=True) if keys else st.just([])
    return st.fixed_dictionaries(
        {
            "rule": st.sampled_from(["20min", "1h", "90min", "1D", "W", "MS"]),
            "aggregates": _aggregates(schema),
            "closed": sides,
            "label": sides,
            "by": st.just([]) | by,
            "drop_missing": st.booleans(),
            "origin": st.sampled_from(["epoch", "epoch", "start", "end"]),
            "empty": st.sampled_from(["omit", "omit", "null", "zero", "ffill"]),
        }
    ).map(lambda drawn: Step("resample", drawn))


def _steps(schema: TableSchema) -> list[st.SearchStrategy[Step]]:
    """Return what may come next, each verb as one choice."""
    names = schema.names
    some = st.lists(st.sampled_from(names), min_size=1, unique=True)
    position = st.integers(-30, 30)

    def step(verb: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
        return st.fixed_dictionaries(arguments).map(lambda drawn: Step(verb, drawn))

    keys = [n for n in names if not pa.types.is_nested(schema.type_of(n))]

    choices = [
        step("filter", condition=conditions(schema)),
        step("filter", condition=conditions(schema)),
        step("apply", name=st.sampled_from([*names, "new"]), value=_values(schema)),
        step("select", columns=some),
        step("rename", columns=_renames(names)),
        step("head", n=position),
        step("tail", n=position),
        row_ends(position).map(lambda ends: Step("row_range", {"start": ends[0], "stop": ends[1]})),
        step("agg", aggregates=_aggregates(schema)),
        *_orders(keys),
        step(
            "distinct",
            columns=st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True),
            keep=st.sampled_from(["first", "last", "none"]),
        ),
        step(
            "groupby",
            keys=st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True),
            aggregates=_aggregates(schema),
            sort=st.booleans(),
            drop_missing=st.booleans(),
        ),
    ]
    if len(names) > 1:
        choices.append(step("drop", columns=some.filter(lambda drawn: len(drawn) < len(names))))
    if schema.index is not None:
        choices += [
            step(
                "date_range",
                bounds=st.tuples(_bounds(), _bounds()).map(_in_order),
                closed=st.sampled_from(["both", "left", "right", "neither"]),
            ).map(_with_ends),
            resamples(schema),
        ]
    return choices


def _orders(names: Sequence[str]) -> list[st.SearchStrategy[Step]]:
    """Return the verbs that order rows."""

    def ordered(verb: str, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
        keys = st.lists(
            st.tuples(st.sampled_from(names), st.booleans()),
            min_size=1,
            max_size=3,
            unique_by=lambda key: key[0],
        )
        rest = st.fixed_dictionaries({"missing": st.sampled_from(["last", "first"]), **more})
        return st.tuples(keys, rest).map(
            lambda drawn: Step(
                verb,
                {
                    "by": [name for name, _ in drawn[0]],
                    "descending": [downwards for _, downwards in drawn[0]],
                    **drawn[1],
                },
            )
        )

    return [ordered("sort"), ordered("top_k", k=st.integers(0, 12))]


@st.composite
def _renames(draw: st.DrawFn, names: Sequence[str]) -> dict[str, str]:
    """Draw new names: fresh ones, and names that columns trade."""
    if len(names) > 1 and draw(st.booleans()):
        one, other = draw(st.permutations(list(names)))[:2]
        return {one: other, other: one}
    return {draw(st.sampled_from(list(names))): "renamed"} if "renamed" not in names else {}


@st.composite
def chains(
    draw: st.DrawFn,
    schema: TableSchema,
    *,
    others: dict[str, TableSchema] | None = None,
    max_steps: int = 5,
) -> list[Step]:
    """Draw a chain that is valid for a schema.

    Parameters
    ----------
    draw
        Given by hypothesis.
    schema
        Of the symbol the chain runs on.
    others
        Symbols that a concat may add, of columns whose types go together with those of ``schema``.
    max_steps
        The longest chain.
    """
    steps: list[Step] = []
    for _ in range(draw(st.integers(0, max_steps))):
        if others and draw(st.integers(0, 4)) == 0:
            taking = [_concats(schema, others)]
            if not any(step.verb == "join" for step in steps):  # rows multiply with each
                taking += [_joins(schema, others)] * 2
            joined = draw(st.one_of(taking))
            if joined is not None:
                steps.append(joined[0])
                schema = joined[1]
            continue
        step = draw(st.one_of(_steps(schema)))
        schema = build([step]).schema(schema)
        steps.append(step)
    return steps


@st.composite
def _concats(
    draw: st.DrawFn, schema: TableSchema, others: dict[str, TableSchema]
) -> tuple[Step, TableSchema] | None:
    """Draw a concat and the schema after it; None where the types do not go together."""
    name = draw(st.sampled_from(sorted(others)))
    inner = draw(chains(others[name], max_steps=2))
    join: Literal["outer", "inner"] = draw(st.sampled_from(["outer", "inner"]))
    schemas = [schema, build(inner).schema(others[name])]
    try:
        combined = Concat((SubQuery(name),), join).combined_schema(schemas)
    except (SchemaMismatchError, PlanError):
        return None
    return Step("concat", {"symbol": name, "steps": inner, "join": join}), combined


@st.composite
def _joins(
    draw: st.DrawFn, schema: TableSchema, others: dict[str, TableSchema]
) -> tuple[Step, TableSchema] | None:
    """Draw a join, of keys or of times, and the schema after it; None where none is possible."""
    name = draw(st.sampled_from(sorted(others)))
    inner = draw(chains(others[name], max_steps=2))
    right = build(inner).schema(others[name])
    drawn = draw(
        draw_join(name, schema, right) if draw(st.booleans()) else draw_asof(name, schema, right)
    )
    if drawn is None:
        return None
    verb, arguments, combined = drawn
    return Step(verb, {"symbol": name, "steps": inner} | arguments), combined
