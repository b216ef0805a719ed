"""Compiled twin of :mod:`tessel.kernels.best_rows`: the best rows so far are a heap."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, place_of, run_steps
from tessel.kernels.jit import inner, kernel

__all__ = ["best_rows"]

_MAGNITUDE = np.int64((1 << 63) - 1)


@inner
def _comes_later(keys: Any, rows: Any, one: int, other: int) -> Any:
    if keys[one] != keys[other]:
        return keys[one] > keys[other]
    return rows[one] > rows[other]


@inner
def _exchange(keys: Any, rows: Any, one: int, other: int) -> None:
    key, row = keys[one], rows[one]
    keys[one], rows[one] = keys[other], rows[other]
    keys[other], rows[other] = key, row


@inner
def _rise(keys: Any, rows: Any, place: int) -> None:
    while place > 0:
        above = (place - 1) >> 1
        if not _comes_later(keys, rows, place, above):
            return
        _exchange(keys, rows, place, above)
        place = above


@inner
def _sink(keys: Any, rows: Any, size: int) -> None:
    place = 0
    while True:
        latest = place
        for below in range(2 * place + 1, min(2 * place + 3, size)):
            if _comes_later(keys, rows, below, latest):
                latest = below
        if latest == place:
            return
        _exchange(keys, rows, place, latest)
        place = latest


@inner
def _order_floats(floats: Any, source: Any, flip: int, integers: Any, out: Any, rows: Any) -> None:
    for row in range(rows):
        bits = np.float64(floats[source + row] + 0.0).view(np.int64)
        integers[out + row] = (bits ^ ((bits >> 63) & _MAGNITUDE)) ^ flip


@kernel
def best_rows(
    data: Any,
    words: Any,
    facts: Any,
    gaps: Any,
    shift: int,
    steps: Any,
    ranges: Any,
    constants: Any,
    tables: Any,
    registers: Any,
    select: int,
    key: int,
    downwards: bool,
    later: bool,
    stretches: Any,
    limit_key: int,
    limit_row: int,
    keys: Any,
    rows: Any,
) -> int:
    """Fill ``keys`` and ``rows`` with the best rows, the last of them first; return how many."""
    integers = np.empty((registers[0] + 2) * BLOCK_ROWS, np.int64)
    floats = np.empty(registers[1] * BLOCK_ROWS, np.float64)
    truths = np.empty(registers[2] * BLOCK_ROWS, np.uint8)
    page_rows = 1 << shift
    flip = -1 if downwards else 0
    line, selected = place_of(registers[0] if key < 0 else key), place_of(max(select, 0))
    most = len(keys)
    size = 0
    for stretch in range(len(stretches)):
        row, stop, least = stretches[stretch, 0], stretches[stretch, 1], stretches[stretch, 2]
        lead = 1 - stop if later else row
        if least > limit_key or (least == limit_key and lead >= limit_row):
            continue
        while row < stop:
            page, first = row >> shift, row & (page_rows - 1)
            count = min(BLOCK_ROWS, page_rows - first, stop - row)
            run_steps(
                data, words, facts, gaps, shift, steps, ranges, constants, tables,
                page, first, count, integers, floats, truths,
            )  # fmt: skip
            if key < 0:
                _order_floats(floats, place_of(~key), flip, integers, line, np.uint64(count))
            near = 0
            for place in range(np.uint64(count)):
                near += integers[line + place] <= limit_key
            for place in range(count if near else 0):
                found = integers[line + np.uint64(place)]
                own = -(row + place) if later else row + place
                if found > limit_key or (found == limit_key and own >= limit_row):
                    continue
                if select >= 0 and not truths[selected + np.uint64(place)]:
                    continue
                if size < most:
                    keys[size], rows[size] = found, own
                    size += 1
                    _rise(keys, rows, size - 1)
                else:
                    keys[0], rows[0] = found, own
                    _sink(keys, rows, size)
                if size == most:
                    limit_key, limit_row = keys[0], rows[0]
            row += count
    return size
