"""What encoding finds out of a column of numbers is what looking at the column again tells."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.store.segment.file_writer import encode_segment
from tessel.store.segment.statistics import known_statistics, summarise
from tests.store.reference.segments import segment_sizes, segment_tables
from tests.store.segment.helpers import with_ids, write_options


def _agree(table: pa.Table, options: object = None) -> list[bool]:
    """Check the columns; return of which the statistics were known."""
    encoded = encode_segment(table, options)  # type: ignore[arg-type]
    found = []
    for column in encoded.columns:
        if column.node.parent >= 0:
            continue
        values, bounds = table.column(column.node.top), column.bounds
        known = None
        if bounds is not None:
            facts = values.null_count, bounds.nans, bounds.minimum, bounds.maximum
            known = known_statistics(values.type, len(values), *facts)
        found.append(known is not None)
        if known is not None:
            assert known == summarise(values)
    return found


@given(st.data())
def test_any_table(data: st.DataObject) -> None:
    table = with_ids(data.draw(segment_tables(data.draw(segment_sizes()))))
    _agree(table, data.draw(write_options(table)))


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.date32(), pa.duration("us"), pa.time64("ns")),
        *(pa.timestamp("s"), pa.timestamp("ns", "Europe/Berlin")),
    ],
    ids=str,
)
def test_every_type_of_numbers(kind: pa.DataType) -> None:
    random = np.random.default_rng(7)
    values = random.integers(1, 100, 200_000)
    for held in (values, values[:1], values.tolist()[:50] + [None] * 9, [None] * 5):
        column = pa.array(held, pa.int64()).cast(pa.int8() if kind == pa.int8() else pa.int32())
        plain = column.cast(pa.int64()).cast(kind) if kind.bit_width == 64 else column.cast(kind)
        assert _agree(with_ids(pa.table({"a": plain}))) == [True]


@pytest.mark.parametrize("values", [[-0.0, 1.0], [0.0, -1.0], [0.0, -0.0]])
def test_the_sign_of_zero_is_looked_for(values: list[float]) -> None:
    assert _agree(with_ids(pa.table({"a": values}))) == [False]


def test_not_a_number() -> None:
    nan = float("nan")
    columns = {"a": [nan, 2.5, None, nan], "b": [nan] * 4, "c": [float("inf"), 1.0, nan, None]}
    assert _agree(with_ids(pa.table(columns))) == [True, True, True]
