"""Random chains of clauses that bind, on random stores: what the tests of bound units draw."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import note
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import Clause, ClauseInfo, QueryBuilder, Structure, register
from tessel.clauses.base import IndexEffect
from tessel.clauses.units.bound_unit import BoundUnit
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError
from tessel.expression import Expression, col
from tessel.expression.schema import TableSchema
from tessel.options import options
from tessel.pipeline import scan
from tessel.pipeline.source_loader import SourceLoader
from tests.clauses.helpers import SETTINGS, fresh_store
from tests.clauses.stored_ways import by_values
from tests.clauses.test_late_materialization import _tiny_pages
from tests.strategies.tables import as_dictionary, bits

__all__ = [
    "BindsBoth",
    "FiltersBy",
    "OneColumn",
    "TakesMask",
    "TakesTable",
    "chain_tables",
    "drawn_chain",
    "drawn_predicate",
    "drawn_sink",
    "drawn_store",
    "outcome",
    "outcome_read_first",
    "read_again",
]

Q = QueryBuilder()


@contextlib.contextmanager
def _read_first() -> Iterator[None]:
    """Give units that are read whole before their first clause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SourceLoader, "unit", lambda loader, ordinal: loader.whole(ordinal))
        patch.setattr(scan, "may_be_joined", lambda read, stage: False)
        yield


@contextlib.contextmanager
def read_again() -> Iterator[list[int]]:
    """Note the units that are read whole because something raised."""
    again: list[int] = []
    old = BoundUnit.read_whole

    def read_whole(unit: BoundUnit) -> ProcessingUnit:
        again.append(unit.ordinal)
        return old(unit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoundUnit, "read_whole", read_whole)
        yield again


# --- clauses of one's own -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Own(Clause):
    """What the clauses here share: row slices, of which any column may be read."""

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return input_schema


@register
@dataclass(frozen=True)
class BindsBoth(_Own):
    """A column and a filter, both as expressions."""

    name: ClassVar[str] = "binds_both"
    column: str
    expression: Expression
    predicate: Expression

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(
            Structure.ROW_SLICE,
            Structure.ROW_SLICE,
            adds=frozenset([self.column]),
            index=IndexEffect.KEEP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        self.predicate.result_type(input_schema)
        return input_schema.with_column(self.column, self.expression.result_type(input_schema))

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.filter(self.predicate).with_column(self.column, self.expression)


@register
@dataclass(frozen=True)
class TakesMask(_Own):
    """A filter by the values of a predicate."""

    name: ClassVar[str] = "takes_mask"
    predicate: Expression

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.filter(unit.evaluate(self.predicate))


@register
@dataclass(frozen=True)
class TakesTable(_Own):
    """Puts a copy of its own in the place of what it got, or gives back the unit that it read."""

    name: ClassVar[str] = "takes_table"
    how: str = "replace"

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        if self.how == "rows":
            return unit if unit.num_rows >= 0 else unit.slice(0, 0)
        if self.how == "column":
            assert len(unit.column(unit.schema.names[0])) == unit.num_rows
            return unit
        table = unit.table
        return unit if self.how == "same" else unit.replace(table)


@register
@dataclass(frozen=True)
class OneColumn(_Own):
    """What is left of the unit is one column, as a new table."""

    name: ClassVar[str] = "one_column"
    column: str

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE, index=IndexEffect.DROP)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return TableSchema(input_schema.select([self.column]).arrow)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.replace(pa.table({self.column: unit.column(self.column)}))


@register
@dataclass(frozen=True)
class FiltersBy(_Own):
    """A filter that does not look at what its predicate is."""

    name: ClassVar[str] = "filters_by"
    predicate: Expression

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.filter(self.predicate)


# --- tables ---------------------------------------------------------------------------------------

_ODD = (-0.0, 0.0, math.nan, math.inf, -math.inf, 0.1 + 0.2, 1e300)


@st.composite
def chain_tables(draw: Any) -> pa.Table:
    rows = draw(st.integers(1, 60))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))

    def holes(values: Any, kind: pa.DataType) -> pa.Array:
        density = draw(st.sampled_from([0.0, 0.0, 0.1, 1.0]))
        return pa.array(values, kind, mask=random.random(rows) < density)

    def floats(scaled: bool, kind: pa.DataType) -> pa.Array:
        values = random.integers(-500, 500, rows) / 100 if scaled else random.normal(size=rows)
        odd = random.random(rows) < draw(st.sampled_from([0.0, 0.0, 0.1]))
        values[odd] = random.choice(_ODD, int(odd.sum()))
        with np.errstate(over="ignore"):
            return holes(values.astype(kind.to_pandas_dtype()), kind)

    wide = random.integers(-(1 << 63), (1 << 63) - 1, rows)
    if draw(st.booleans()):
        wide //= 1 << 20
    times = np.cumsum(random.integers(0, 3, rows)) * 10**9
    small = random.integers(-128 if draw(st.booleans()) else 1, 128, rows)
    words = random.choice(["", "a", "b", "é", "zebra"], rows)
    unsigned = random.integers(0, 1 << 64, rows, dtype=np.uint64)
    if draw(st.booleans()):
        unsigned >>= np.uint64(40)
    cents = [Decimal(int(v)) / 100 for v in random.integers(-999, 999, rows)]
    return pa.table(
        {
            "t": pa.array(times).cast(pa.timestamp("ns")),
            "i": holes(small, pa.int8()),
            "n": holes(
                random.integers(-9, 9, rows) + (random.integers(0, 9, rows) << 32), pa.int64()
            ),
            "g": holes(random.integers(0, 4, rows), pa.int32()),
            "u": holes(unsigned, pa.uint64()),
            "w": holes(wide, pa.int64()),
            "p": floats(True, pa.float64()),
            "x": floats(False, pa.float64()),
            "f": floats(True, pa.float32()),
            "m": holes(cents, pa.decimal128(9, 2)),
            "s": holes(words.tolist(), pa.string()),
            "d": as_dictionary(holes(words.tolist(), pa.string())),
        }
    )


def drawn_store(draw: Any, table: pa.Table) -> Store:
    """Return a store of the table: in one go, with columns that came later, or changed since."""
    store, rows = fresh_store(), table.num_rows
    page = draw(st.sampled_from([2, 3, 12]))
    size = draw(st.integers(1, 40))
    slices = draw(st.sampled_from([1, 3, 20]))
    how = draw(st.sampled_from(["whole", "later", "changed"])) if rows > 1 else "whole"
    with _tiny_pages(page, 64 << page), options(segment_rows=size, segment_columns=slices):
        if how == "later":
            half = rows // 2
            later = draw(st.lists(st.sampled_from("inupxfmsd"), unique=True, min_size=1))
            store.write("x", table.slice(0, half).drop_columns(later), index="t")
            store.append("x", table.slice(half), evolve="add")
            return store
        store.write("x", table, index="t")
        if how == "changed":
            first = draw(st.integers(0, rows - 1))
            last = draw(st.integers(first + 1, rows))
            if last - first < rows:
                store.delete_rows("x", rows=(first, last))
    note(f"{how}: pages of {1 << page}, {size} rows, {slices} columns")
    return store


# --- chains ---------------------------------------------------------------------------------------


def _expression(draw: Any, schema: TableSchema) -> Expression | None:
    """Draw a number computed of one or two columns; None where there is none."""
    numbers = [
        f.name for f in schema.arrow if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)
    ]
    if not numbers:
        return None
    one = col(draw(st.sampled_from(numbers)))
    other = col(draw(st.sampled_from(numbers)))
    made: list[Callable[[], Expression]] = [
        lambda: one + draw(st.sampled_from([1, 0.5])),
        lambda: one * draw(st.sampled_from([2, 4, 0.25])),
        lambda: one - other,
        lambda: one + other,
        lambda: abs(one),
        lambda: -one,
        lambda: abs(one - other),
        lambda: one.cast(draw(st.sampled_from(["int64", "float64", "int16"]))),
    ]
    return draw(st.sampled_from(made))()


def drawn_predicate(draw: Any, schema: TableSchema) -> Expression:
    name = draw(st.sampled_from(schema.names))
    kind = schema.type_of(name)
    text = kind.value_type if pa.types.is_dictionary(kind) else kind
    asked: Expression
    if pa.types.is_string(text):
        asked = draw(
            st.sampled_from([col(name) == "a", col(name) != "b", col(name).is_in(["", "é"])])
        )
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        number = _expression(draw, schema) if draw(st.booleans()) else None
        left = col(name) if number is None else number
        bound = draw(st.sampled_from([-1, 0, 1, 2.5, 100, 1 << 33]))
        asked = draw(st.sampled_from([left > bound, left <= bound, left != bound, left == bound]))
    else:
        asked = ~col(name).is_missing()
    if draw(st.integers(0, 4)) == 0:
        other = draw(st.sampled_from(schema.names))
        missing = col(other).is_missing()
        asked = draw(st.sampled_from([asked & ~missing, asked | missing, ~asked]))
    return asked


def _step(draw: Any, schema: TableSchema) -> list[Clause] | None:
    """Draw a clause that binds, or reads; None where the columns allow for no such one."""
    names = schema.names
    kind = draw(
        st.sampled_from(
            ["filter", "filter", "apply", "apply", "rename", "swap", "select", "drop", "cast",
             "date_range", "both", "mask", "table"]
        )
    )  # fmt: skip
    if kind == "filter":
        return list(Q.filter(drawn_predicate(draw, schema)).clauses)
    if kind in ("apply", "both"):
        made = _expression(draw, schema)
        if made is None:
            return None
        name = draw(st.sampled_from([*names, "new", "more"]))
        if kind == "both":
            return [BindsBoth(name, made, drawn_predicate(draw, schema))]
        return list(Q.apply(name, made).clauses)
    if kind == "rename":
        name = draw(st.sampled_from(names))
        return None if name + "_" in names else list(Q.rename({name: name + "_"}).clauses)
    if kind == "swap":
        some = draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=4))
        return list(Q.rename(dict(zip(some, [*some[1:], some[0]], strict=True))).clauses)
    if kind == "select":
        return list(Q.select(draw(st.permutations(names))[: max(1, len(names) - 2)]).clauses)
    if kind == "drop":
        return None if len(names) < 2 else list(Q.drop(draw(st.sampled_from(names))).clauses)
    if kind == "cast":
        numbers = [name for name in names if pa.types.is_integer(schema.type_of(name))]
        targets = st.sampled_from(["int64", "float64", "int16"])
        strict = draw(st.booleans())
        some = draw(st.lists(st.sampled_from(numbers), unique=True, max_size=2)) if numbers else []
        return (
            list(Q.cast({n: draw(targets) for n in some}, strict=strict).clauses) if some else None
        )
    if kind == "date_range":
        if schema.index is None:
            return None
        first, last = sorted(draw(st.tuples(st.integers(0, 70), st.integers(0, 70))))
        low, high = (np.datetime64(bound, "s") for bound in (first, last))
        return list(Q.date_range(f"{low}", f"{high}").clauses)
    if kind == "mask":
        return [TakesMask(drawn_predicate(draw, schema))]
    return [TakesTable(draw(st.sampled_from(["replace", "same", "rows", "column"])))]


def drawn_sink(draw: Any, schema: TableSchema) -> QueryBuilder:
    names = schema.names
    numbers = [
        f.name for f in schema.arrow if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)
    ]
    kinds = ["nothing", "top_k", "distinct"]
    if numbers:
        kinds += ["group", "group", "total"] + ["resample"] * (2 if schema.index else 0)
    kind = draw(st.sampled_from(kinds))
    some = st.sampled_from(numbers or names)
    keys = [n for n in names if not pa.types.is_decimal(schema.type_of(n))]
    if kind == "nothing":
        return Q
    if kind == "top_k":
        by = draw(some)
        return Q.top_k(draw(st.integers(1, 5)), by=by, descending=draw(st.booleans()))
    if kind == "distinct":
        return Q.distinct(
            draw(st.lists(st.sampled_from(keys or names), unique=True, min_size=1, max_size=2))
        )
    facts = draw(
        st.lists(
            st.sampled_from(["count", "min", "max", "first", "last", "sum", "median"]),
            unique=True,
            min_size=1,
            max_size=3,
        )
    )
    asked = {f"{fact}_": (draw(some), fact) for fact in facts} | {"rows": "size"}
    if kind == "total":
        return Q.agg(**asked)
    if kind == "resample":
        return Q.resample(draw(st.sampled_from(["2s", "10s", "1min"]))).agg(**asked)
    by = draw(st.lists(st.sampled_from(keys or names), unique=True, min_size=1, max_size=2))
    return Q.groupby(*by).agg(**asked)


def drawn_chain(draw: Any, schema: TableSchema) -> QueryBuilder:
    query = Q
    for _ in range(draw(st.integers(1, 5))):
        step = _step(draw, schema)
        if step is None:
            continue
        query = query.then(*step)
        for clause in step:
            schema = clause.output_schema(schema)
    return query.then(*drawn_sink(draw, schema).clauses)


def outcome(store: Store, query: QueryBuilder, setting: dict[str, int]) -> Any:
    """Return names, types and bits of an answer, or type, text and clause of an error."""
    try:
        with options(**setting):
            found = store.read("x", query=query).to_arrow()
    except TesselError as error:
        return type(error).__name__, str(error), error.context.get("clause")
    return [(f.name, f.type, bits(found.column(f.name))) for f in found.schema]


def outcome_read_first(store: Store, query: QueryBuilder) -> Any:
    with _read_first(), by_values():
        return outcome(store, query, SETTINGS[0])
