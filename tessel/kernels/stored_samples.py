"""Samples of kernels on columns as they are stored, and on rows as structs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.best_rows import best_rows
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.count_values import add_counts, count_values, runs_of_counts
from tessel.kernels.decode_rows import TextTable, decode_numbers, decode_texts
from tessel.kernels.fields import Fact, FieldKind, SumField
from tessel.kernels.filter_rows import StructRows, filter_rows
from tessel.kernels.first_of_groups import first_of_groups
from tessel.kernels.group_sums import group_sums
from tessel.kernels.jit import frozen
from tessel.kernels.load_rows import load_rows
from tessel.kernels.program import Op, Program
from tessel.kernels.register_rows import register_rows
from tessel.kernels.row_program import RowOp, RowProgram
from tessel.kernels.run_facts import run_facts
from tessel.kernels.search_rows import search_rows
from tessel.kernels.select_rows import select_places, select_rows

__all__ = ["STORED_SAMPLES"]

_ROWS = 40
_LARGEST = 1 << 20


def _blocks() -> StoredBlocks:
    """Return two columns of one page: bytes that go up, and two of them in decimals."""
    data = np.concatenate([np.arange(_ROWS, dtype=np.uint8), np.zeros(3 * _ROWS + 8, np.uint8)])
    data[_ROWS : 3 * _ROWS : 2] = np.arange(_ROWS) % 7
    facts = np.zeros((6, 2, 1), np.int64)
    facts[:, 0, 0] = 0, 8, 255, 1000, 0, 0
    facts[:, 1, 0] = _ROWS, 16, 65535, 0, 0, 2
    return StoredBlocks(frozen(data), frozen(facts), 6, 0, _ROWS)


def _program() -> Program:
    """Load both, make a decimal of the second, and compare it."""
    steps = [
        (Op.LOAD, 0, 0, 0, 0),
        (Op.LOAD, 1, 1, 0, 0),
        (Op.DECIMAL, 0, 1, 1, 0),
        (Op.RANGE, 0, 1, 0, 0),
    ]
    return Program(
        np.array(steps, np.int64),
        np.array([[[1, 5]]], np.int64),
        np.zeros(0, np.float64),
        np.zeros(0, np.uint8),
        integers=2,
        floats=1,
        truths=1,
    )


_FIELDS = (
    SumField.of_integers(0, _LARGEST),
    SumField.of_floats(0, 8.0),
    SumField(FieldKind.LEAST, 0),
    SumField(FieldKind.GREATEST_FLOAT, 0),
)


def _load_rows() -> Any:
    blocks = _blocks()
    return load_rows(blocks.words, blocks.facts, blocks.shift, np.array([3, 1, 2], np.int64))


def _select_rows() -> Any:
    steps = np.array([[Op.COLUMN_RANGE, 0, 0, 0, 0]], np.int64)
    ranges = np.array([[[1, 5]]], np.int64)
    empty = np.zeros(0, np.float64), np.zeros(0, np.uint8)
    program = Program(steps, ranges, *empty, integers=0, floats=0, truths=1)
    places = select_places(_blocks(), program, 0)
    if places is None:  # of the twin
        places = np.flatnonzero(select_rows(_blocks(), program, 0))
    return [select_rows(_blocks(), _program(), 0), places]


def _search_rows() -> Any:
    bounds = np.array([1, 1010, 5000], np.int64)
    return [search_rows(_blocks(), 0, bounds, after=after) for after in (False, True)]


def _best_rows() -> Any:
    found = [
        best_rows(
            _blocks(), _program(), [(0, _ROWS, 0)], select=0, key=key, downwards=True, count=3
        )
        for key in (0, ~0)
    ]
    return [[each.rows, each.last] for each in found]


def _count_values() -> Any:
    counts = count_values(
        [_blocks()], _program(), select=0, group=1, groups=8, value=0, low=1000, span=_ROWS
    )
    values, times, starts = runs_of_counts(counts, np.array([3, 1], np.int64), 1000)
    lengths, owners = np.diff(starts), np.array([0, 1], np.int64)
    found = [
        add_counts(values, some, lengths, owners, groups=2, low=1000, span=_ROWS)
        for some in (times, None)
    ]
    return [counts, values, times, starts, *found]


def _first_of_groups() -> Any:
    return [
        first_of_groups([_blocks()], _program(), select=select, group=1, groups=7)
        for select in (None, 0)
    ]


def _decode_rows() -> Any:
    both = _blocks()
    numbers, decimals = (
        StoredBlocks(both.data, frozen(both.facts[:, [column]]), both.shift, both.start, both.stop)
        for column in (0, 1)
    )
    found: list[Any] = []
    for blocks, kind in [(numbers, np.int64), (numbers, np.int16), (decimals, np.float64)]:
        found.append(np.empty(_ROWS, kind))
        decode_numbers(blocks, found[-1])
    offsets, data = np.arange(8, dtype=np.int32), np.arange(7, dtype=np.uint8)
    for ends in (offsets, np.append(0, offsets[1:] - 1).astype(np.int32)):
        texts = decode_texts(decimals, TextTable.of(ends, data), np.empty)
        assert texts is not None
        found += texts
    return found


def _register_rows() -> Any:
    return [
        register_rows([_blocks()], _program(), select=select, registers=[0, ~0])
        for select in (None, 0)
    ]


def _group_sums() -> Any:
    found = group_sums(
        [_blocks()], _program(), select=0, group=1, groups=8, fields=_FIELDS, last=True
    )
    assert found is not None
    some = np.flatnonzero(found.counts)  # an extreme of no rows is anything
    facts = [held[some] for held in map(_totals, found.facts)]
    return [found.counts, found.first_row, found.last_row, facts]


def _run_facts() -> Any:
    found = run_facts(_blocks(), _program(), np.array([0, 10, 11], np.int64), _FIELDS)
    assert found is not None
    return [_totals(fact) for fact in found]


def _totals(fact: Fact) -> NDArray[Any]:
    """Return sums as numbers, however they are cut, or extremes as they are."""
    if not isinstance(fact, Mapping):
        return fact
    parts = [held.astype(object) << position for position, held in fact.items()]
    totals: NDArray[Any] = np.sum(parts, axis=0)
    return totals


def _filter_rows() -> Any:
    rows, size = 8, 16
    data = np.zeros((rows, size), np.uint8)
    data[:, 0] = np.arange(rows)
    data[:, 12] = 1
    heap, nothing = np.frombuffer(b"abcdefgh", np.uint8), np.zeros(0, np.int64)
    program = RowProgram(
        np.array(
            [
                (RowOp.SIGNED, 0, 0, 0, 0, -1),
                (RowOp.RANGE, 0, 0, 2, 5, 0),
                (RowOp.TEXT_EQUAL, 1, 8, 0, 0, -1),
                (RowOp.AND, 0, 0, 1, 0, 0),
            ],
            np.int64,
        ),
        conditions=4,
        truth=0,
        constants=np.zeros(0, np.float64),
        texts=np.frombuffer(b"a", np.uint8).copy(),
        text_starts=np.array([0, 1], np.int64),
        outputs=np.array([[0, 0]], np.int64),
        registers=np.array([1, 0, 2], np.int64),
    )
    found = filter_rows(StructRows(data.reshape(-1), size, heap, nothing), program)
    return [found.status, found.rows, found.bits, found.valid]


STORED_SAMPLES: dict[str, Callable[[], Any]] = {
    "best_rows": _best_rows,
    "count_values": _count_values,
    "decode_rows": _decode_rows,
    "filter_rows": _filter_rows,
    "first_of_groups": _first_of_groups,
    "group_sums": _group_sums,
    "load_rows": _load_rows,
    "register_rows": _register_rows,
    "run_facts": _run_facts,
    "search_rows": _search_rows,
    "select_rows": _select_rows,
}
"""By room, what calls all of its kernels, and gives what they answered."""
