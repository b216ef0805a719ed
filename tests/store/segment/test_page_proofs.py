"""Plain conditions say of pages what is true of their rows, and what the statistics domain says."""

from __future__ import annotations

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
    Expression,
    ExpressionContext,
    col,
    evaluate_statistics,
    parse,
)
from tessel.expression.evaluate import evaluate
from tessel.expression.sargable import sargable_conjuncts
from tessel.expression.schema import TableSchema
from tessel.store.segment.file_writer import WriteOptions
from tessel.store.segment.page_proofs import page_proofs
from tessel.store.segment.page_statistics import ColumnZones, PageStatistics
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
    conditions = sargable_conjuncts(ExpressionContext.of(predicate), schema)
    if conditions is None:
        return
    found = page_proofs(conditions, zones, stop - start)
    assert found is not None
    edges, proofs = found
    statistics = PageStatistics(stop - start, zones, {n: kind for n, (kind, _) in _TYPES.items()})
    proved = evaluate_statistics(predicate, statistics, schema)
    assert edges.tolist() == statistics.edges.tolist()
    mask = evaluate(predicate, table.slice(start, stop - start))
    truths = np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
    for page, proof in enumerate(proofs.tolist()):
        here = truths[edges[page] : edges[page + 1]]
        assert proof != FALSE or not here.any()
        assert proof != TRUE or here.all()
        if proved[page] == FALSE:
            assert proof == FALSE, "nothing is read that the statistics domain rules out"


@pytest.mark.parametrize(
    "text",
    [
        "`1` != 3",
        "`1` < `2`",
        "`1` + 1 < 3",
        "`1` < 3 or `2` < 3",
        "`6` < 'b'",
        "`1` < 2.5",
        "not (`1` < 3)",
        "`1` is null",
    ],
)
def test_other_predicates_are_left_to_the_statistics_domain(text: str) -> None:
    schema = TableSchema(pa.schema([(name, kind) for name, (kind, _) in _TYPES.items()]))
    assert sargable_conjuncts(ExpressionContext.of(parse(text)), schema) is None


def test_columns_that_are_cut_differently_are_left_alone() -> None:
    table = pa.table({"1": np.arange(64), "2": np.arange(64)})
    segment = opened(table, WriteOptions(page_shifts=dict.fromkeys(table.column_names, 3)))
    one, two = (
        ColumnZones(node.type, segment.first_rows(node.number), segment.zone_maps(node.number))
        for node in segment.tops
    )
    moved = ColumnZones(two.type, two.edges + 1, two.zones)
    schema = TableSchema(table.schema)
    predicate = (col("1") < 3) & (col("2") < 3)
    conditions = sargable_conjuncts(ExpressionContext.of(predicate), schema)
    assert conditions is not None
    assert page_proofs(conditions, {"1": one, "2": two}, 64) is not None
    assert page_proofs(conditions, {"1": one, "2": moved}, 64) is None
    assert page_proofs(conditions, {"1": one}, 64) is None
