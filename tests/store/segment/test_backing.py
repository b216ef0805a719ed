"""A page that decodes to much stores something: a small file cannot ask for a large allocation."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tessel.errors import CorruptSegmentError
from tessel.store.encodings.base import COMPACT, FAST, Profile
from tessel.store.segment import column_writer
from tessel.store.segment.file_writer import WriteOptions, encode_segment
from tests.store.reference.decoder import read_segment
from tests.store.segment.helpers import scanned

MANY = 5_000_000


def _long_list(item: int | None) -> pa.Table:
    items = pa.nulls(MANY, pa.int64()) if item is None else pa.repeat(pa.scalar(item), MANY)
    column = pa.ListArray.from_arrays(pa.array([0, 0, MANY], pa.int32()), items)
    return pa.table({"7": column})


def _encoded(table: pa.Table, profile: Profile) -> bytes:
    return encode_segment(table, WriteOptions(profile=profile)).to_buffer().to_pybytes()


@pytest.mark.parametrize("profile", [FAST, COMPACT], ids=["fast", "compact"])
@pytest.mark.parametrize("item", [0, None])
def test_a_long_list_of_one_value_is_backed_by_bytes(item: int | None, profile: Profile) -> None:
    table = _long_list(item)
    data = _encoded(table, profile)
    assert len(data) >= (MANY * 8 - (16 << 20)) // 512
    assert len(data) < MANY  # and by few of them
    assert scanned(data).column("7").combine_chunks().equals(table.column("7").combine_chunks())
    page = read_segment(data).pages[1][-1]
    assert page.row_count == MANY


def test_one_that_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_writer, "backing_bytes", lambda rows, kind, width: 0)
    data = _encoded(_long_list(0), FAST)
    assert len(data) < 4096
    with pytest.raises(CorruptSegmentError, match="more values than its bytes") as caught:
        scanned(data)
    assert (caught.value.attributes["column"], caught.value.attributes["page"]) == (7, 1)
    with pytest.raises(Exception, match="claims too many values"):
        read_segment(data)
