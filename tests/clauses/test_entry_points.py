"""Clauses of installed packages: found by their entry point, imported when they are first named."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tessel.clauses import QueryBuilder, clause_names
from tessel.errors import NameNotFoundError, PlanError
from tests.clauses.helpers import answer, stored

Q = QueryBuilder()

MODULE = '''
from dataclasses import dataclass
from typing import ClassVar

import tessel as ts


@dataclass(frozen=True)
class Doubled(ts.Clause):
    """Every row twice."""

    name: ClassVar[str] = "doubled_by_a_plug_in"
    column: str

    @property
    def structure(self):
        slices = ts.Structure.ROW_SLICE
        return ts.ClauseInfo(slices, slices, columns=frozenset([self.column]))

    def output_schema(self, input_schema):
        input_schema.require([self.column])
        return input_schema

    def process(self, unit):
        import numpy as np

        return unit.take(np.repeat(np.arange(unit.num_rows), 2))
'''


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a package of one module, as far as Python can tell."""
    (tmp_path / "tessel_plug_in_of_a_test.py").write_text(MODULE)
    info = tmp_path / "tessel_plug_in_of_a_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tessel-plug-in\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tessel.clauses]\n"
        "doubled_by_a_plug_in = tessel_plug_in_of_a_test:Doubled\n"
        "named_otherwise = tessel_plug_in_of_a_test:Doubled\n"
        "gone = tessel_plug_in_of_a_test:Gone\n"
        "no_module = tessel_plug_in_that_is_not_there:Gone\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return "tessel_plug_in_of_a_test"


def test_a_clause_of_a_package_works_like_ours(plug_in: str) -> None:
    assert "doubled_by_a_plug_in" in clause_names()
    assert plug_in not in sys.modules, "it is imported when it is named, and not before"
    store = stored({"v": [1, 2, 3]})
    query = Q.doubled_by_a_plug_in("v").filter("v > 1").head(3)
    assert answer(store, query).column("v").to_pylist() == [2, 2, 3]
    again = QueryBuilder.from_json(query.to_json())
    assert again == query
    assert plug_in in sys.modules
    # It is none of ours: nothing passes it.
    stages = store.scan("x").then(*query.clauses).plan().stages
    shown = [clause.name for stage in stages for clause in stage.clauses]
    assert shown == ["doubled_by_a_plug_in", "filter", "head"]


@pytest.mark.usefixtures("plug_in")
def test_a_package_that_does_not_keep_its_word_is_named() -> None:
    with pytest.raises(PlanError, match="promises the clause 'named_otherwise'"):
        Q.named_otherwise("v")
    for name in ("gone", "no_module"):
        for _ in range(2):
            with pytest.raises(PlanError, match=f"{name}' cannot be imported") as caught:
                QueryBuilder.from_json({"tessel_plan": 1, "clauses": [{"clause": name}]})
            assert f"{name}=tessel_plug_in" in str(caught.value)


def test_what_nobody_has_is_unknown() -> None:
    with pytest.raises(NameNotFoundError, match="doubled_by"):
        QueryBuilder.from_json({"tessel_plan": 1, "clauses": [{"clause": "doubled_by"}]})
