"""What is fetched of segments that are far: the pages of wanted rows, once, and all at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.ecs.piece import SegmentKey
from tessel.errors import CorruptSegmentError, CorruptStoreError, NotFoundError, StoreError
from tessel.store.segment.fetch import Rows, Wanted, fetch
from tessel.store.segment.file import SegmentFile
from tessel.store.segment.file_writer import WriteOptions
from tessel.store.segment.pages import SegmentPages
from tessel.store.segment.sources import ByteRanges, CoalesceLimits, MemorySource, ReadAnswer
from tests.store.segment.helpers import with_ids, written

ROWS = 45
NAME = "seg/x"
TABLE = with_ids(
    pa.table(
        {
            "number": np.arange(ROWS) ** 3,
            "text": pa.array([f"text {at % 3}" for at in range(ROWS)]),
            "lists": pa.array([list(range(at % 4)) for at in range(ROWS)]),
        }
    )
)
DATA = written(TABLE, WriteOptions(page_shifts={"7": 3, "8": 4, "9": 2}))


class Recording(MemorySource):
    """Notes what it is asked for, and fails where it is told to."""

    limits = CoalesceLimits(0, 1 << 20)  # type: ignore[misc]  # ranges that touch alone

    def __init__(self, objects: dict[str, pa.Buffer]) -> None:
        super().__init__(objects)
        self.asked: list[ByteRanges] = []
        self.errors: dict[int, Exception] = {}

    def read(self, ranges: ByteRanges) -> list[ReadAnswer]:
        self.asked.append(ranges)
        answers = super().read(ranges)
        return [
            self.errors.get(start, answer)
            for start, answer in zip(ranges.start.tolist(), answers, strict=True)
        ]

    @property
    def bytes(self) -> set[int]:
        """All bytes of the object that were asked for."""
        pairs = [zip(r.start.tolist(), r.end.tolist(), strict=True) for r in self.asked]
        return {at for held in pairs for start, end in held for at in range(start, end)}


def far(before: int = 64) -> tuple[Recording, SegmentKey, SegmentPages]:
    """Return a segment of which no page is there, and what reads it."""
    source = Recording({NAME: pa.py_buffer(bytes(before) + DATA)})
    file = SegmentFile.open(
        lambda start, stop: source.view(NAME).slice(start, stop - start),
        object=NAME,
        offset=before,
        length=len(DATA),
    )
    records = int(file.directory["page_count"].sum() + file.directory["has_dictionary"].sum())
    sound = np.zeros(records, np.bool_)
    segment = SegmentPages(file, np.zeros(len(DATA), np.uint8), sound, views=False)
    return source, SegmentKey(NAME, before, len(DATA), file.checksum), segment


def pages_of(segment: SegmentPages, tops: Sequence[int], rows: set[int]) -> set[int]:
    """Return the bytes of the segment that hold rows of columns."""
    found: set[int] = set()
    for top in tops:
        for node in range(segment.tops[top].number, segment.tops[top].end):
            shift = segment.file.page_shift(node)
            records = [segment.records(node)[page] for page in {row >> shift for row in rows}]
            dictionary = segment.file.dictionary(node)
            for record in [*records, *([dictionary] if rows and dictionary is not None else [])]:
                start = int(record["offset"])
                found |= set(range(start, start + int(record["length"])))
    return found


some_rows = st.one_of(
    st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).map(lambda pair: range(*pair)),
    st.lists(st.integers(0, ROWS - 1), max_size=6).map(lambda rows: np.array(rows, np.int64)),
)


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 2)).map(sorted), st.lists(some_rows, max_size=3)),
        max_size=4,
    )
)
def test_the_pages_of_wanted_rows_are_asked_for_once(touches: list[tuple[list[int], list[Rows]]]):
    source, key, segment = far()
    there: set[int] = set()
    for tops, rows in touches:
        nodes = [segment.tops[top] for top in tops]
        wanted = {int(row) for each in rows for row in each}
        expected = pages_of(segment, tops, wanted) - there
        source.asked.clear()
        fetch(source, [Wanted(key, segment, nodes, rows)])
        assert len(source.asked) == bool(expected)
        assert source.bytes == {key.offset + at for at in expected}
        there |= expected
    held = sorted(there)
    assert segment.data[held].tobytes() == bytes(DATA[at] for at in held)


@given(
    st.sets(st.integers(0, 2), min_size=1).map(sorted),
    st.lists(some_rows, min_size=1, max_size=3),
    st.integers(0, 2_000),
)
def test_what_is_read_ahead_takes_no_request_and_few_bytes(
    tops: list[int], rows: list[Rows], gap: int
):
    source, key, segment = far()
    source.limits = CoalesceLimits(gap, 1 << 20)  # type: ignore[misc]
    nodes = [segment.tops[top] for top in tops]
    later = [top for top in segment.tops if top not in nodes]
    wanted = pages_of(segment, tops, {int(row) for each in rows for row in each})
    fetch(source, [Wanted(key, segment, nodes, rows)])
    requests, alone = sum(map(len, source.asked)), len(source.bytes)
    assert alone <= len(wanted) + requests * gap

    ahead, key, segment = far()
    ahead.limits = source.limits  # type: ignore[misc]
    fetch(ahead, [Wanted(key, segment, nodes, rows, later)])
    assert sum(map(len, ahead.asked)) <= requests
    assert len(ahead.bytes) <= alone + requests * gap
    assert {key.offset + at for at in wanted} <= ahead.bytes
    # What is not asked for again is there.
    for touched in (nodes, later):
        fetch(ahead, [Wanted(key, segment, touched, rows)])
    held = sorted(pages_of(segment, [0, 1, 2], {int(row) for each in rows for row in each}))
    assert segment.data[held].tobytes() == bytes(DATA[at] for at in held)


def test_pages_in_a_gap_are_not_asked_for_again():
    source, key, segment = far()
    source.limits = CoalesceLimits(1 << 20, 1 << 20)  # type: ignore[misc]
    first, *others = segment.tops
    fetch(source, [Wanted(key, segment, [first], [range(ROWS)], others)])
    assert sum(map(len, source.asked)) == 1
    fetch(source, [Wanted(key, segment, segment.tops, [range(ROWS)])])
    assert len(source.asked) == 1


def test_what_cannot_be_read_ahead_is_left():
    source, key, segment = far()
    source.limits = CoalesceLimits(1 << 20, 1 << 20)  # type: ignore[misc]
    last = segment.tops[2]
    begins = min(pages_of(segment, [0, 1, 2], {0}))
    source.errors = {key.offset + begins: StoreError("busy")}
    fetch(source, [Wanted(key, segment, [last], [range(4)], segment.tops[:2])])
    assert segment.fetched.sum() == len(segment.nodes[last.number : last.end])


def test_several_segments_are_one_request():
    one, key, segment = far()
    _, other_key, other = far(before=64 + len(DATA))
    source = Recording({NAME: pa.py_buffer(bytes(64) + DATA * 2)})
    source.limits = CoalesceLimits(1 << 20, 1 << 20)  # type: ignore[misc]
    rows = [range(ROWS)]
    fetch(
        source,
        [Wanted(key, segment, segment.tops, rows), Wanted(other_key, other, other.tops, rows)],
    )
    assert [len(each) for each in source.asked] == [1]
    assert (
        segment.data.tobytes()[: segment.file.metadata_start] == DATA[: segment.file.metadata_start]
    )
    assert (other.data == segment.data)[: segment.file.metadata_start].all()
    assert not one.asked


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (NotFoundError("gone"), CorruptSegmentError, "missing or cut short: gone"),
        (CorruptStoreError("short"), CorruptSegmentError, "missing or cut short: short"),
        (RuntimeError("no route to host"), StoreError, "no route to host"),
        (StoreError("busy"), StoreError, "busy"),
    ],
)
def test_an_error_names_object_column_and_page(error: Exception, kind: type[Exception], text: str):
    source, key, segment = far()
    last = segment.records(segment.tops[0].number)[5]
    first = segment.records(segment.tops[0].number)[2]
    source.errors = {
        key.offset + int(last["offset"]): ValueError("later"),
        key.offset + int(first["offset"]): error,
    }
    single = [np.array([41, 17])]
    with pytest.raises(kind, match=text) as caught:
        fetch(source, [Wanted(key, segment, [segment.tops[0]], single)])
    assert caught.value.context == {"object": NAME, "column": "0", "page": "2"}  # type: ignore[attr-defined]
    assert not segment.fetched.any()
    source.errors.clear()
    fetch(source, [Wanted(key, segment, [segment.tops[0]], single)])
    assert segment.fetched.sum() == 2


def test_a_dictionary_is_named_as_one():
    source, key, segment = far()
    text = segment.tops[1]
    record = segment.file.dictionary(text.number)
    assert record is not None
    source.errors = {key.offset + int(record["offset"]): StoreError("busy")}
    with pytest.raises(StoreError) as caught:
        fetch(source, [Wanted(key, segment, [text], [range(1)])])
    assert caught.value.context["page"] == "dictionary"
