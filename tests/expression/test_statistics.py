"""The statistics domain against the data it speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from tessel.errors import IntegerOverflowError
from tessel.expression import (
    FALSE,
    TRUE,
    UNKNOWN,
    Expression,
    TableSchema,
    col,
    evaluate_statistics,
    parse,
)
from tessel.expression.evaluate import evaluate
from tests.strategies import expressions as drawn


@dataclass
class Facts:
    minimum: pa.Array
    maximum: pa.Array
    minimum_exact: Any
    maximum_exact: Any
    missing: Any
    numbers: None = None


class View:
    """Statistics computed from the slices themselves, with bounds loosened as storage may."""

    def __init__(self, slices: list[pa.Table], loosen: bool = False) -> None:
        self.slices = slices
        self.loosen = loosen

    @property
    def row_counts(self) -> Any:
        return np.array([table.num_rows for table in self.slices], dtype=np.int64)

    def facts(self, name: str) -> Facts:
        kind = self.slices[0].schema.field(name).type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        lows, highs, missing, exact = [], [], [], []
        for table in self.slices:
            values = table.column(name).cast(plain)
            if pa.types.is_floating(plain):
                values = pc.if_else(pc.is_nan(values), pa.scalar(None, plain), values)
            missing.append(values.null_count)
            ordered = values.drop_null()
            counts = ordered.cast(pa.int64()) if pa.types.is_duration(plain) else ordered
            ends = pc.min_max(counts)
            low, high = ends["min"].cast(plain), ends["max"].cast(plain)
            cut = self.loosen and pa.types.is_string(plain) and len(ordered) > 0
            exact.append(not cut and len(ordered) > 0)
            lows.append(pa.scalar(low.as_py()[:1]) if cut else low)
            highs.append(pa.scalar(high.as_py() + "\U0010ffff") if cut else high)
        return Facts(
            _gathered(lows, plain),
            _gathered(highs, plain),
            np.array(exact, dtype=bool),
            np.array(exact, dtype=bool),
            np.array(missing, dtype=np.int64),
        )


def _gathered(scalars: list[pa.Scalar], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.repeat(scalar, 1) for scalar in scalars]).cast(kind)


@given(
    drawn.predicates(), st.lists(drawn.tables(max_rows=4), min_size=1, max_size=4), st.booleans()
)
def test_statistics_are_sound(predicate: Expression, slices: list[pa.Table], loosen: bool) -> None:
    note(str(predicate))
    proofs = evaluate_statistics(predicate, View(slices, loosen), drawn.SCHEMA)
    assert proofs.dtype == np.int8
    for table, proof in zip(slices, proofs, strict=True):
        try:
            rows = evaluate(predicate, table).to_pylist()
        except IntegerOverflowError:
            continue
        event(f"proof {proof}")
        if proof == FALSE:
            assert not any(row is True for row in rows)
        if proof == TRUE:
            assert all(row is True for row in rows)


SCHEMA = TableSchema(
    pa.schema({"price": pa.float64(), "count": pa.int64(), "name": pa.string(), "flag": pa.bool_()})
)
SLICES = [
    pa.table(
        {"price": [1.0, 2.0], "count": [1, 2], "name": ["a", "b"], "flag": [True, True]},
        schema=SCHEMA.arrow,
    ),
    pa.table(
        {"price": [5.0, None], "count": [5, 5], "name": ["x", "xy"], "flag": [False, True]},
        schema=SCHEMA.arrow,
    ),
    pa.table(
        {"price": [None, float("nan")], "count": [9, 8], "name": [None, None], "flag": [None] * 2},
        schema=SCHEMA.arrow,
    ),
]

PROVED = [
    ("price > 3", [FALSE, UNKNOWN, FALSE]),
    ("price < 3", [TRUE, FALSE, FALSE]),
    ("price != 7", [TRUE, UNKNOWN, FALSE]),
    ("price == 7", [FALSE, FALSE, FALSE]),
    ("count == 5", [FALSE, TRUE, FALSE]),
    ("not (count == 5)", [TRUE, FALSE, TRUE]),
    ("count in (5, 100)", [FALSE, TRUE, FALSE]),
    ("count not in (5, 100)", [TRUE, FALSE, TRUE]),
    ("price is missing", [FALSE, UNKNOWN, TRUE]),
    ("price is not missing", [TRUE, UNKNOWN, FALSE]),
    ("count > 100 or price > 3", [FALSE, UNKNOWN, FALSE]),
    ("count > 0 and price > 0", [TRUE, UNKNOWN, FALSE]),
    ("starts_with(name, 'x')", [FALSE, TRUE, FALSE]),
    ("flag", [TRUE, UNKNOWN, FALSE]),
    ("not flag", [FALSE, UNKNOWN, FALSE]),
    ("count + 1 > 3", [FALSE, TRUE, TRUE]),
    ("count - count > 7", [FALSE, FALSE, FALSE]),
    ("true", [TRUE, TRUE, TRUE]),
    ("null", [FALSE, FALSE, FALSE]),
    ("(price > 3) == true", [UNKNOWN, UNKNOWN, FALSE]),
    ("coalesce(price > 3, false)", [FALSE, UNKNOWN, FALSE]),
    ("coalesce(price > 3, true)", [FALSE, TRUE, TRUE]),
]


@pytest.mark.parametrize(("text", "wanted"), PROVED, ids=[text for text, _ in PROVED])
def test_statistics_prove(text: str, wanted: list[int]) -> None:
    assert evaluate_statistics(parse(text), View(SLICES), SCHEMA).tolist() == wanted


def test_a_slice_without_rows_has_no_true_row() -> None:
    empty = View([SLICES[0].slice(0, 0)])
    assert evaluate_statistics(parse("true"), empty, SCHEMA).tolist() == [FALSE]


def test_cut_bounds_never_prove_true() -> None:
    view = View(SLICES[:2], loosen=True)
    assert evaluate_statistics(col("name") >= "", view, SCHEMA).tolist() == [UNKNOWN, UNKNOWN]
    assert evaluate_statistics(col("name") > "y", view, SCHEMA).tolist()[0] == FALSE


def test_missing_counts_are_limits_once_a_slice_is_cut() -> None:
    class Cut(View):
        def facts(self, name: str) -> Facts:
            facts = super().facts(name)
            facts.missing = self.row_counts
            return facts

    proofs = evaluate_statistics(col("count") == 5, Cut(SLICES[:2]), SCHEMA)
    assert proofs.tolist() == [FALSE, UNKNOWN]
    proofs = evaluate_statistics(col("count").not_missing(), Cut(SLICES[:2]), SCHEMA)
    assert proofs.tolist() == [UNKNOWN, UNKNOWN]
