"""Which types are stored."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tessel.errors import UnsupportedTypeError
from tests.clauses.helpers import fresh_store


def _nested(levels: int) -> pa.DataType:
    kind = pa.int64()
    for level in range(levels):
        kind = pa.struct([("a", kind)]) if level % 2 else pa.list_(kind)
    return kind


def test_a_type_that_no_schema_is_read_back_with_is_refused() -> None:
    store = fresh_store()
    store.write("x", pa.table({"c": pa.array([None], _nested(100))}))
    assert store.schema("x").type_of("c") == _nested(100)
    for levels in (101, 125, 200):
        with pytest.raises(UnsupportedTypeError, match=r"'c' .*100 types within one another"):
            store.write("y", pa.table({"c": pa.array([None], _nested(levels))}))
    assert store.symbols() == ["x"]
