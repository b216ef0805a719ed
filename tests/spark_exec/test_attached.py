"""Components of a clause's own on Spark: they cross processes as JSON, and nothing else does."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from tessel import options
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError, SparkError, TesselError
from tessel.spark_exec import SparkExecutor
from tessel.spark_exec.plugins import kinds_of, received_components, sent_components
from tests.clauses.attaching import Case, Mark, Regroup, Rows, Span, Stamp, Told, cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Q = QueryBuilder()
_numbers = itertools.count()


def stored(folder: Path, case: Case) -> Store:
    store = open_store(str(folder / str(next(_numbers))))
    with options(segment_rows=case.segment_rows, segment_columns=case.segment_columns, fsync=False):
        store.write("x", case.table())
    return store


def told(store: Store, query: QueryBuilder, spark: SparkSession) -> list[tuple[int, str]]:
    table = store.read("x", query=query, executor=SparkExecutor(spark)).to_arrow()
    return list(zip(table["n"].to_pylist(), table["told"].to_pylist(), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attached")


@pytest.fixture(scope="module")
def store(folder: Path) -> Store:
    """Nine rows in three slices, beside a symbol of two."""
    case = Case(9, 4, 1, Q, [])
    store = stored(folder, case)
    store.write("y", case.table().slice(3, 2))
    return store


@pytest.mark.spark
@settings(max_examples=12)
@given(case=cases())
def test_components_go_with_their_rows(case: Case, folder: Path, spark: SparkSession) -> None:
    assert told(stored(folder, case), case.query, spark) == case.expected


@pytest.mark.spark
@pytest.mark.parametrize(
    "query",
    [
        Q.sort("v"),
        Q.head(6),
        Q.shift("n"),
        Q.tail(8),
        Q.distinct(["v"]),
        Q.groupby("n").agg(v=("v", "nunique")),
        Q.concat("y"),
        Q.concat("y").head(10).filter("v > 1"),
        Q.merge("y", on="n"),
        Q.join("y", "n", "left"),
        Q.join("y", "n", "semi"),
    ],
    ids=repr,
)
def test_clauses_between_leave_what_threads_leave(
    query: QueryBuilder, store: Store, spark: SparkSession
) -> None:
    query = Q.then(Stamp(), *query.clauses, Told())
    here = store.read("x", query=query).to_arrow()
    assert told(store, query, spark) == list(
        zip(here["n"].to_pylist(), here["told"].to_pylist(), strict=True)
    )


SOURCE = """
    from dataclasses import dataclass
    import pyarrow as pa
    import tessel as ts


    @dataclass(frozen=True)
    class Factor:
        value: int

        def to_json(self):
            return self.value

        @classmethod
        def from_json(cls, data):
            return cls(int(data))


    @dataclass(frozen=True)
    class Attach(ts.Clause):
        name = "test_attach"
        attaches = (Factor,)

        @property
        def structure(self):
            return ts.ClauseInfo(ts.Structure.ROW_SLICE, ts.Structure.ROW_SLICE)

        def output_schema(self, input_schema):
            return input_schema

        def process(self, unit):
            return unit.with_component(Factor(3))


    @dataclass(frozen=True)
    class Use(Attach):
        name = "test_use"
        attaches = ()

        @property
        def structure(self):
            return ts.ClauseInfo(ts.Structure.ALL, ts.Structure.ROW_SLICE)

        def process(self, unit):
            return unit.with_column("n", ts.col("n") * unit.component(Factor).value)
"""


@pytest.mark.spark
def test_a_component_of_a_script_or_a_notebook(
    store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(textwrap.dedent(SOURCE), main.__dict__)
    query = Q.then(main.Attach(), main.Use())
    found = store.read("x", query=query, executor=SparkExecutor(spark)).to_arrow()
    assert found["n"].to_pylist() == [n * 3 for n in range(9)]


@dataclass(frozen=True)
class Undeclared(Stamp):
    attaches = ()


@dataclass(frozen=True)
class Marks(Rows):
    name = "marks"
    attaches = (Mark,)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.with_component(Mark("a"))


@dataclass(frozen=True)
class UndeclaredMarks(Marks):
    attaches = ()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("clause", "kind", "message"),
    [
        (Undeclared(), SparkError, "Span cannot be received(.|\n)*name the class in attaches"),
        (Marks(), PlanError, "Mark of clause 'marks'(.|\n)*to_json"),
        (UndeclaredMarks(), SparkError, "Mark cannot be sent(.|\n)*to_json"),
    ],
    ids=["undeclared", "without methods", "neither"],
)
def test_a_component_that_cannot_cross_is_named(
    clause: Rows, kind: type[TesselError], message: str, store: Store, spark: SparkSession
) -> None:
    with pytest.raises(kind, match=message):
        told(store, Q.then(clause, Regroup() if kind is not SparkError else Told()), spark)


# --- as text --------------------------------------------------------------------------------------


def test_components_come_back_as_they_were() -> None:
    kinds = kinds_of([Stamp, Told])
    assert set(kinds.values()) == {Span}
    assert received_components(sent_components((Span(1, 2),)), kinds) == (Span(1, 2),)


@dataclass(frozen=True)
class Turned:
    """A component that comes back as something else."""

    to: str

    def to_json(self) -> object:
        return object() if self.to == "no JSON" else self.to

    @classmethod
    def from_json(cls, data: Any) -> Any:
        made: Mapping[str, Any] = {"another class": Span(1, 2), "a class": Turned}
        return made[data]


@dataclass(frozen=True)
class Turns(Rows):
    name = "turns"
    attaches = (Turned,)


@pytest.mark.parametrize("to", ["another class", "a class", "an error", "no JSON"])
def test_what_does_not_come_back_is_refused(to: str) -> None:
    with pytest.raises(SparkError, match=r"Turned cannot be (sent|received)"):
        received_components(sent_components((Turned(to),)), kinds_of([Turns]))
