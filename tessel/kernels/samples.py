"""A sample of each room: calls that have all of its machine code made, or loaded, and check it.

A room that is new has a line in :data:`ROOMS`. Its sample calls the room as clauses do, with arrays
of each kind that they hand over, so that no query meets a kernel that has yet to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.best_rows import best_rows
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.count_repeats import count_repeats
from tessel.kernels.count_values import add_counts, count_values, runs_of_counts
from tessel.kernels.decode_rows import TextTable, decode_numbers, decode_texts
from tessel.kernels.fields import Fact, FieldKind, SumField
from tessel.kernels.filter_rows import StructRows, filter_rows
from tessel.kernels.first_of_groups import first_of_groups
from tessel.kernels.group_rows import group_range, group_words
from tessel.kernels.group_sums import group_sums
from tessel.kernels.group_texts import Texts, group_texts
from tessel.kernels.jit import frozen, using_compiled
from tessel.kernels.limb_lines import (
    add_by_group,
    round_sums,
    sums_of_doubles,
    sums_of_parts,
    sums_of_sums,
)
from tessel.kernels.load_rows import load_rows
from tessel.kernels.match_rows import match_ends, match_rows
from tessel.kernels.nearest_rows import Looks, NearestRows
from tessel.kernels.program import Op, Program
from tessel.kernels.register_rows import register_rows
from tessel.kernels.row_program import RowOp, RowProgram
from tessel.kernels.rows_by_code import rows_by_code
from tessel.kernels.run_facts import run_facts
from tessel.kernels.search_rows import search_rows
from tessel.kernels.select_rows import select_places, select_rows
from tessel.kernels.sort_runs import sort_runs
from tessel.kernels.text_numbers import TextNumbers
from tessel.kernels.word_numbers import WordNumbers

__all__ = ["ROOMS", "agrees"]

_ROWS = 40
_LARGEST = 1 << 20


def agrees(room: str) -> bool:
    """Run the sample of a room compiled, and return whether its answer is the right one.

    That is the numpy twin's; rooms that have none here know it themselves.
    """
    sample = ROOMS[room]
    with np.errstate(over="ignore"):
        with using_compiled(True):
            found = sample()
        with using_compiled(False):
            wanted = _WITHOUT_TWIN[room]() if room in _WITHOUT_TWIN else sample()
    is_same: bool = _plain(found) == _plain(wanted)
    return is_same


def _plain(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        return found.tolist()
    if isinstance(found, Mapping):
        return {key: _plain(each) for key, each in found.items()}
    return [_plain(each) for each in found] if isinstance(found, Sequence) else found


# --- columns as they are stored -------------------------------------------------------------------


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


# --- rows as structs ------------------------------------------------------------------------------


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


# --- codes, keys, and sums of groups --------------------------------------------------------------


def _codes() -> NDArray[np.int64]:
    return np.arange(_ROWS, dtype=np.int64) * 5 % 7


def _count_repeats() -> Any:
    return count_repeats(np.sort(_codes()))


def _rows_by_code() -> Any:
    return rows_by_code(_codes() - 1, 6)


def _sort_runs() -> Any:
    numbers = -_codes()
    starts = np.array([0, 3, len(numbers)], np.int64)
    sort_runs(numbers, starts)
    return numbers


def _sorted_runs() -> Any:
    numbers = -_codes()
    return np.concatenate([np.sort(numbers[:3]), np.sort(numbers[3:])])


def _group_rows() -> Any:
    return [group_range(_codes(), 7), group_words(_codes() << 40)]


def _grouped_rows() -> Any:
    numbers = list(dict.fromkeys(_codes().tolist()))
    codes = [numbers.index(code) for code in _codes().tolist()]
    return [[codes, list(range(len(numbers)))]] * 2


def _words() -> list[tuple[NDArray[np.int64], NDArray[np.bool_] | None]]:
    """Return words near one another, and some that have to move to a larger table."""
    absent = np.zeros(_ROWS, np.bool_)
    absent[3] = True
    return [(_codes(), absent), (np.arange(5000, dtype=np.int64) << 32, None)]


def _word_numbers() -> Any:
    found: list[Any] = []
    for words, absent in _words():
        numbers = WordNumbers(words, absent)
        found += [numbers.codes, numbers.find(words[::-1]), numbers.find(words, absent)]
    return found


def _texts() -> list[str]:
    return [str(number * 7 % 5000) * 3 for number in range(6000)]


def _group_texts() -> Any:
    texts = _texts()
    data = frozen(np.frombuffer("".join(texts).encode(), np.uint8))
    ends = np.cumsum([0, *map(len, texts)])
    return [group_texts([Texts(data, ends.astype(kind))]) for kind in (np.int32, np.int64)]


def _grouped_texts() -> Any:
    numbers = {text: number for number, text in enumerate(dict.fromkeys(_texts()))}
    return [[[numbers[text] for text in _texts()], len(numbers)]] * 2


def _text_numbers() -> Any:
    texts = _texts()[:40]
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    ends = np.cumsum([0, *map(len, texts)])
    absent = np.zeros(len(texts), np.bool_)
    found: list[Any] = []
    for kind in (np.int32, np.int64):
        held = Texts(data, ends.astype(kind))
        numbers = TextNumbers.of(held)
        assert numbers is not None
        found += [numbers.codes, numbers.find(held, absent)]
    return found


def _numbered_texts() -> Any:
    return [list(range(40))] * 4


def _match_rows() -> Any:
    codes = _codes() - 1
    starts, rows = np.array([0, 1, 1, 3, 3, 4, 6], np.int64), np.arange(6, dtype=np.int64)
    found: list[Any] = []
    for held in (starts, np.zeros(0, np.int64)):
        ends = match_ends(codes, held, keep_unmatched=True)
        found += [ends, match_rows(codes, held, rows, ends, 1, int(ends[-1]))]
    return found


def _nearest_rows() -> Any:
    held, starts = np.array([1, 4, 4, 9, 2, 3], np.int64), np.array([0, 4, 6], np.int64)
    asked, codes = np.array([0, 4, 6, 2], np.int64), np.array([0, 0, 1, -1], np.int64)
    found = [
        NearestRows(held, starts, looks=looks, exact=False, most_apart=2).find(asked, codes)
        for looks in Looks
    ]
    one = NearestRows(held[:4], starts[:2], looks=Looks.BACKWARD, exact=True)
    return [*found, one.find(asked)]


def _limb_lines() -> Any:
    values = np.array([1.5, -0.25, 1e10, 3.0])
    codes = np.array([0, 1, 1, 0], np.int64)
    sums = sums_of_doubles(values, codes, 2)
    assert sums is not None
    total = sums_of_sums([sums, sums], np.zeros(4, np.int64), 1)
    parts = sums_of_parts({1074: np.array([3, 4], np.int64)}, 2)
    assert total is not None
    assert parts is not None
    added = np.zeros(2, np.int64)
    add_by_group(added, codes, np.arange(4))
    by = np.array([2, 1], np.int64)
    return [round_sums(*sums, None), round_sums(*sums, by), round_sums(*total, None),
            round_sums(*parts, None), added]  # fmt: skip


def _lines_of_limbs() -> Any:
    high = 1e10 - 0.25
    return [[4.5, high], [2.25, high], [2 * (high + 4.5)], [3.0, 4.0], [3, 3]]


ROOMS: dict[str, Callable[[], Any]] = {
    "best_rows": _best_rows,
    "count_repeats": _count_repeats,
    "count_values": _count_values,
    "decode_rows": _decode_rows,
    "filter_rows": _filter_rows,
    "first_of_groups": _first_of_groups,
    "group_rows": _group_rows,
    "group_sums": _group_sums,
    "group_texts": _group_texts,
    "limb_lines": _limb_lines,
    "load_rows": _load_rows,
    "match_rows": _match_rows,
    "nearest_rows": _nearest_rows,
    "register_rows": _register_rows,
    "rows_by_code": _rows_by_code,
    "run_facts": _run_facts,
    "search_rows": _search_rows,
    "select_rows": _select_rows,
    "sort_runs": _sort_runs,
    "text_numbers": _text_numbers,
    "word_numbers": _word_numbers,
}
"""By room, what calls all of its kernels, and gives what they answered."""

_WITHOUT_TWIN: dict[str, Callable[[], Any]] = {
    "group_rows": _grouped_rows,
    "group_texts": _grouped_texts,
    "limb_lines": _lines_of_limbs,
    "sort_runs": _sorted_runs,
    "text_numbers": _numbered_texts,
}
"""What the others answer: those have no twin in this package."""
