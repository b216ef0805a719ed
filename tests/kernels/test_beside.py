"""Columns of several buffers as those of one, and masks beside them: against numpy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.kernels.blocks import ALL_MISSING, ALL_PRESENT, Gap, StoredBlocks, beside
from tessel.kernels.load_rows import load_rows
from tessel.store.lru_cache import LruCache
from tessel.store.segment.stored_columns import StoredColumns
from tests.kernels.block_model import stored_integers
from tests.kernels.forced import FORMS, in_form

_START, _WIDTH, _MASK, _BASE, _STEP, _EXPONENT = range(6)


def _signed(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _part(draw: Any, shift: int, start: int, stop: int, pages: int) -> StoredBlocks:
    """Draw some columns in a buffer of their own, with gaps or without."""
    columns, rows = draw(st.integers(1, 3)), 1 << shift
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    facts = np.zeros((6, columns, pages), np.int64)
    gaps = np.zeros((Gap.COUNT, columns, pages), np.int64)
    data = random.bytes(draw(st.integers(0, 9)))
    for column in range(columns):
        for page in range(pages):
            width = int(random.choice([0, 1, 8, 16, 13, 32, 64]))
            ends = [0, 1, -1, 1 << 40, -(1 << 63)]
            base, step = (int(each) for each in random.choice(ends, 2))
            facts[:, column, page] = len(data), width, _signed((1 << width) - 1), base, step, -1
            data += random.bytes((rows * width + 7 >> 3) + int(random.integers(0, 3)))
            gaps[Gap.VALIDITY, column, page] = random.choice([ALL_PRESENT, ALL_MISSING, len(data)])
            data += random.bytes((rows + 7 >> 3) + int(random.integers(0, 3)))
            if random.random() < 0.3:
                places = np.flatnonzero(random.random(rows) < 0.4).astype(np.uint8)
                gaps[Gap.EXCEPTIONS, column, page] = len(places)
                gaps[Gap.PLACES, column, page], gaps[Gap.PLACE_WIDTH, column, page] = len(data), 8
                data += places.tobytes()
                gaps[Gap.VALUES, column, page] = len(data)
                values = random.normal(size=len(places))
                values[random.random(len(places)) < 0.3] = np.nan
                data += values.tobytes()
                gaps[Gap.NANS, column, page] = int(np.isnan(values).any())
    held = np.frombuffer(bytearray(data + bytes(8)), np.uint8)
    held.flags.writeable = False
    has_gaps = draw(st.booleans())
    return StoredBlocks(held, facts, shift, start, stop, gaps if has_gaps else None)


@st.composite
def _parts(draw: Any) -> list[StoredBlocks]:
    shift = draw(st.integers(1, 6))
    start = draw(st.integers(0, 70))
    stop = draw(st.integers(start + 1, start + 90))
    pages = (stop - 1 >> shift) + 1 + draw(st.integers(0, 1))
    return [_part(draw, shift, start, stop, pages) for _ in range(draw(st.integers(1, 3)))]


def _integers(blocks: StoredBlocks, column: int) -> list[int]:
    """Return the integers of a column, read by the kernel, of any buffer."""
    rows = np.arange(blocks.start, blocks.stop)
    facts = np.ascontiguousarray(blocks.facts[:, column : column + 1])
    words, _ = load_rows(blocks.data, facts, blocks.shift, rows)
    found: list[int] = words[0].view(np.int64).tolist()
    return found


def _known(blocks: StoredBlocks, column: int, page: int) -> tuple[Any, ...]:
    assert blocks.gaps is not None
    rows = 1 << blocks.shift
    places, bits = blocks.exceptions(column, page, 0, rows)
    start = int(blocks.gaps[Gap.VALIDITY, column, page])
    held = blocks.data[start : start + (rows + 7 >> 3)].tolist() if start >= 0 else start
    return held, places.tolist(), bits.tolist(), int(blocks.gaps[Gap.NANS, column, page])


@pytest.mark.parametrize("form", FORMS)
@given(parts=_parts())
def test_columns_of_several_buffers(form: str, parts: list[StoredBlocks]) -> None:
    together = beside(parts)
    assert together is not None
    assert (together.start, together.stop) == (parts[0].start, parts[0].stop)
    at = 0
    for part in parts:
        for column in range(part.facts.shape[1]):
            with in_form(form):
                assert _integers(together, at) == stored_integers(part, column).tolist()
            for page in range(together.start >> together.shift, part.facts.shape[2] - 1):
                if part.gaps is not None:
                    assert _known(together, at, page) == _known(part, column, page)
                elif together.gaps is not None:
                    assert _known(together, at, page) == (ALL_PRESENT, [], [], 0)
            at += 1
    assert together.facts.shape[1] == at
    assert (together.gaps is None) == all(part.gaps is None for part in parts)


@given(parts=_parts())
def test_bytes_stay_alive_with_the_columns(parts: list[StoredBlocks]) -> None:
    wanted = [stored_integers(p, c).tolist() for p in parts for c in range(p.facts.shape[1])]
    together = beside(parts)
    assert together is not None
    parts.clear()
    assert [_integers(together, at) for at in range(len(wanted))] == wanted


@pytest.mark.parametrize("change", ["shift", "start", "stop"])
@given(parts=_parts())
def test_other_edges_are_refused(change: str, parts: list[StoredBlocks]) -> None:
    other = dataclasses.replace(parts[0], **{change: getattr(parts[0], change) + 1})
    assert beside([parts[0], other]) is None


@pytest.mark.parametrize("line", [_START, _WIDTH])
@pytest.mark.parametrize("value", [-1, -(1 << 62), 1 << 40, (1 << 57) + 1, (1 << 63) - 1])
@given(parts=_parts())
def test_places_outside_of_a_buffer_are_refused(
    line: int, value: int, parts: list[StoredBlocks]
) -> None:
    """Between two buffers there may be no memory: no kernel may be sent there."""
    facts = parts[-1].facts.copy()
    facts[line, -1, parts[-1].start >> parts[-1].shift] = value
    assert beside([*parts[:-1], dataclasses.replace(parts[-1], facts=facts)]) is None


@given(parts=_parts(), data=st.data())
def test_masks(parts: list[StoredBlocks], data: st.DataObject) -> None:
    together = beside(parts)
    assert together is not None
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(together), max_size=len(together)))
    )
    columns = StoredColumns((), together, LruCache(1)).with_mask(mask)
    assert columns is not None
    last = together.facts.shape[1]
    assert _integers(columns.blocks, last) == mask.astype(int).tolist()
    assert [_integers(columns.blocks, at) for at in range(last)] == [
        _integers(together, at) for at in range(last)
    ]
    order = data.draw(st.permutations(range(last + 1)))
    turned = StoredColumns((None,) * (last + 1), columns.blocks, LruCache(1)).in_order(order)  # type: ignore[arg-type]
    assert [_integers(turned.blocks, at) for at in range(last + 1)] == [
        _integers(columns.blocks, place) for place in order
    ]


def test_a_mask_over_pages_without_an_end_is_refused() -> None:
    assert StoredColumns.nothing(0, 5).with_mask(np.ones(5, np.bool_)) is None
