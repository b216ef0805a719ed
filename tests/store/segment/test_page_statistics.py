"""Interval rules on zone maps: by numbers and by Arrow arrays they prove what holds of all rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.expression import (
    FALSE,
    TRUE,
    UNKNOWN,
    Expression,
    col,
    evaluate_statistics,
    parse,
)
from tessel.expression.evaluate import evaluate
from tessel.expression.schema import TableSchema
from tessel.store.segment.file_writer import WriteOptions
from tessel.store.segment.statistics import ColumnZones, PageStatistics
from tests.store.segment.test_decode import opened

_NUMBERS = st.one_of(st.none(), st.integers(-6, 6))
_FLOATS = st.one_of(_NUMBERS, st.sampled_from([float("nan"), float("inf"), -0.0, 0.5, -2.25]))
_TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b", "long enough to be cut", "π"]))
_TYPES = {
    "1": (pa.int64(), _NUMBERS),
    "2": (pa.int8(), _NUMBERS),
    "3": (pa.uint64(), st.one_of(st.none(), st.integers(0, 6), st.just((1 << 64) - 1))),
    "4": (pa.float64(), _FLOATS),
    "5": (pa.timestamp("ms", "UTC"), _NUMBERS),
    "6": (pa.string(), _TEXTS),
}
_SIGNS = ["<", "<=", ">", ">=", "=="]


@st.composite
def _conditions(draw: Any) -> Expression:
    """Draw a conjunction of comparisons, either way round."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(_TYPES)))
        sign = draw(st.sampled_from(_SIGNS))
        if name == "6":
            sign, bound = "==", repr(draw(_TEXTS.filter(lambda text: text is not None)))
        elif name == "5":
            bound = f"'1970-01-01T00:00:00.00{draw(st.integers(0, 9))}Z'"
        elif name == "4":
            bound = repr(draw(st.one_of(st.integers(-7, 7), st.floats(-7, 7))))
        else:
            bound = str(draw(st.one_of(st.integers(-7, 7), st.sampled_from([1 << 63, 300]))))
        sides = [f"`{name}`", sign, bound]
        if draw(st.booleans()) and name not in "56":
            sides = [bound, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign), sides[0]]
        parts.append(" ".join(sides))
    return parse(" and ".join(parts))


@given(st.data())
def test_pages_are_as_said(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 40))
    table = pa.table(
        {
            name: pa.array(data.draw(st.lists(values, min_size=rows, max_size=rows)), kind)
            for name, (kind, values) in _TYPES.items()
        }
    )
    segment = opened(table, WriteOptions(page_shifts=dict.fromkeys(table.column_names, 3)))
    schema = TableSchema(table.schema)
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    zones = {
        name: ColumnZones(
            node.type, segment.first_rows(node.number) - start, segment.zone_maps(node.number)
        )
        for name, node in zip(_TYPES, segment.tops, strict=True)
    }
    predicate = data.draw(_conditions())
    kinds = {name: kind for name, (kind, _) in _TYPES.items()}
    statistics = PageStatistics(stop - start, zones, kinds)
    edges, proofs = statistics.edges, evaluate_statistics(predicate, statistics, schema)
    by_arrays = evaluate_statistics(predicate, _ArraysAlone(stop - start, zones, kinds), schema)
    mask = evaluate(predicate, table.slice(start, stop - start))
    truths = np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
    for page, proof in enumerate(proofs.tolist()):
        here = truths[edges[page] : edges[page + 1]]
        assert proof != FALSE or not here.any()
        assert proof != TRUE or here.all()
        if by_arrays[page] != UNKNOWN:
            assert proof == by_arrays[page], "numbers prove what arrays prove"


class _ArraysAlone(PageStatistics):
    """Bounds as Arrow arrays alone, which the kernels of operators are applied to."""

    def facts(self, name: str) -> Any:
        facts = super().facts(name)
        names = ["minimum", "maximum", "minimum_exact", "maximum_exact", "missing"]
        return SimpleNamespace(numbers=None, **{each: getattr(facts, each) for each in names})


@pytest.mark.parametrize(
    ("text", "sargable"),
    [
        ("`1` < 3", True),
        ("3 >= `2` and `4` > 0.5", True),
        ("`6` == 'b' or not (`1` < 3)", True),
        ("`1` != 3", False),
        ("`1` < `2`", False),
        ("`1` + 1 < 3", False),
        ("`6` < 'b'", False),
        ("`1` < 2.5", False),
    ],
)
def test_arrays_are_made_for_what_is_not_sargable_alone(text: str, *, sargable: bool) -> None:
    made: list[str] = []

    class Watched(PageStatistics):
        def facts(self, name: str) -> Any:
            facts = super().facts(name)

            class Watching:
                def __getattr__(self, attribute: str) -> Any:
                    if attribute in ("minimum", "maximum"):
                        made.append(name)
                    return getattr(facts, attribute)

            return Watching()

    table = pa.table(
        {name: pa.array([1, 2], kind) for name, (kind, _) in _TYPES.items() if name < "6"}
    )
    table = table.append_column("6", pa.array(["a", "b"]))
    segment = opened(table, WriteOptions())
    zones = {
        name: ColumnZones(
            node.type, segment.first_rows(node.number), segment.zone_maps(node.number)
        )
        for name, node in zip(_TYPES, segment.tops, strict=True)
    }
    statistics = Watched(2, zones, {name: kind for name, (kind, _) in _TYPES.items()})
    evaluate_statistics(parse(text), statistics, TableSchema(table.schema))
    assert bool(made) != sargable


def test_columns_that_are_cut_differently_have_the_edges_of_both() -> None:
    table = pa.table({"1": np.arange(64), "2": np.arange(64)})
    segment = opened(table, WriteOptions(page_shifts=dict.fromkeys(table.column_names, 3)))
    one, two = (
        ColumnZones(node.type, segment.first_rows(node.number), segment.zone_maps(node.number))
        for node in segment.tops
    )
    moved = ColumnZones(two.type, two.edges - 1, two.zones)
    kinds = dict.fromkeys(table.column_names, pa.int64())
    predicate, schema = (col("1") < 9) & (col("2") >= 8), TableSchema(table.schema)
    alike = PageStatistics(64, {"1": one, "2": two}, kinds)
    assert alike.edges.tolist() == list(range(0, 65, 8))
    apart = PageStatistics(64, {"1": one, "2": moved}, kinds)
    assert apart.edges.tolist() == sorted({*range(0, 65, 8), *range(7, 64, 8)})
    assert evaluate_statistics(predicate, alike, schema).tolist() == [FALSE, UNKNOWN, *[FALSE] * 6]
    alone = PageStatistics(64, {"1": one}, kinds)
    found = evaluate_statistics(predicate, alone, schema)
    assert found.tolist() == [UNKNOWN, UNKNOWN, *[FALSE] * 6]
