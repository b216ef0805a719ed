"""Samples of kernels on codes, keys and texts, and on sums of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.count_repeats import count_repeats
from tessel.kernels.fade_rows import Fading, fade_rows, new_states
from tessel.kernels.group_rows import group_range, group_words
from tessel.kernels.group_texts import Texts, group_texts
from tessel.kernels.jit import frozen
from tessel.kernels.limb_lines import (
    add_by_group,
    round_sums,
    sums_of_doubles,
    sums_of_parts,
    sums_of_sums,
)
from tessel.kernels.match_rows import match_ends, match_rows
from tessel.kernels.nearest_rows import Looks, NearestRows
from tessel.kernels.rows_by_code import rows_by_code
from tessel.kernels.running_rows import (
    exponent_range,
    run_best,
    run_counts,
    run_doubles,
    run_integers,
)
from tessel.kernels.sort_runs import sort_runs
from tessel.kernels.source_rows import edges_of_gaps, nearest_present, rows_away
from tessel.kernels.text_numbers import TextNumbers
from tessel.kernels.window_rows import rows_until, window_best, window_sums
from tessel.kernels.window_spreads import window_spreads
from tessel.kernels.word_numbers import WordNumbers

__all__ = ["CODED_SAMPLES", "WITHOUT_TWIN"]

_ROWS = 40


def _codes() -> NDArray[np.int64]:
    return np.arange(_ROWS, dtype=np.int64) * 5 % 7


def _count_repeats() -> Any:
    return count_repeats(np.sort(_codes()))


def _fade_rows() -> Any:
    values = (1.0 / (_codes() + 3.0)).astype(np.float64)
    values[::6] = np.nan
    starts, owners = np.array([0, 3, _ROWS], np.int64), np.array([1, 0], np.int64)
    found: list[Any] = []
    for fading in (Fading(0.1, True, False, True), Fading(0.3, False, True, False),
                   Fading(0.5, True, False, True, 9.7)):  # fmt: skip
        times = None if fading.half is None else np.arange(_ROWS, dtype=np.int64) ** 2
        states, seen = new_states(2), np.zeros(2, np.int64)
        moments = fade_rows(fading, values, starts, owners, states, times, seen)
        found += [np.nan_to_num(moments), states, seen]
    return found


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


def _running_rows() -> Any:
    codes = _codes() % 3
    numbers = codes * 5 - 4
    values = numbers / 8.0
    found: list[Any] = []
    for present, groups in ((None, None), (codes != 1, codes)):
        found += [exponent_range(values, present)]
        totals, high, rest, counts = np.arange(12, dtype=np.int64).reshape(4, 3)
        found += [run_integers(numbers, present, groups, totals), totals]
        found += [run_doubles(values, present, groups, -55, high, rest), high, rest]
        found += [run_counts(_ROWS, present, groups, counts), counts]
        for each in (numbers, values):
            for greatest in (True, False):
                best, known = np.ones(3, each.dtype), np.array([True, True, False])
                # The last is known of nobody, and anything until there is one.
                rows = run_best(each, present, groups, best, known, greatest=greatest)
                found += [rows[12:], best[known], known]
    return found


def _source_rows() -> Any:
    codes = _codes()
    present, bounds = codes % 3 > 0, np.searchsorted(np.sort(codes), np.arange(8))
    found: list[Any] = [edges_of_gaps(present, codes, 7)]
    order = np.argsort(codes, kind="stable")
    found += [rows_away(order, bounds, distance, 3, 30) for distance in (2, -1)]
    for groups in (None, codes):
        for backward in (True, False):
            last, passed = np.arange(-1, 6), np.arange(7)
            found.append(
                nearest_present(present, groups, last, passed, offset=7, limit=4, backward=backward)
            )
    return found


def _window_rows() -> Any:
    codes = _codes()
    stops = np.arange(1, _ROWS + 1)
    starts = np.maximum(stops - 5, 0)
    starts[7], starts[20:22] = stops[7], 0
    values = (codes - 3) / 8.0
    found: list[Any] = [
        window_best(each, starts, stops, greatest=greatest)[starts < stops]
        for each in (codes, values)
        for greatest in (True, False)
    ]
    found += [rows_until(np.sort(codes), np.arange(-1, 9), included=each) for each in (True, False)]
    return [*found, *(window_sums(values, starts, stops, -56, 46, mean=m) for m in (True, False))]


def _window_spreads() -> Any:
    values = np.array([1.0, 3.0, 3.0, 3.0, -7.0, 3.0])
    starts, stops = np.array([0, 0, 1, 2, 5], np.int64), np.array([2, 3, 4, 6, 6], np.int64)
    return [
        window_spreads(values, starts, stops, ddof=ddof, root=root, of_mean=root)
        for ddof, root in ((1, False), (0, True))
    ]


def _spreads() -> Any:
    sure = [True] * 5
    variances = [2.0, 4 / 3, 0.0, 25.0, 0.0]
    errors = [0.5**0.5, (8 / 27) ** 0.5, 0.0, (18.75 / 4) ** 0.5, 0.0]
    return [[variances, sure], [errors, sure]]


CODED_SAMPLES: dict[str, Callable[[], Any]] = {
    "count_repeats": _count_repeats,
    "fade_rows": _fade_rows,
    "group_rows": _group_rows,
    "group_texts": _group_texts,
    "limb_lines": _limb_lines,
    "match_rows": _match_rows,
    "nearest_rows": _nearest_rows,
    "rows_by_code": _rows_by_code,
    "running_rows": _running_rows,
    "sort_runs": _sort_runs,
    "source_rows": _source_rows,
    "text_numbers": _text_numbers,
    "window_rows": _window_rows,
    "window_spreads": _window_spreads,
    "word_numbers": _word_numbers,
}
"""By room, what calls all of its kernels, and gives what they answered."""

WITHOUT_TWIN: dict[str, Callable[[], Any]] = {
    "group_rows": _grouped_rows,
    "group_texts": _grouped_texts,
    "limb_lines": _lines_of_limbs,
    "sort_runs": _sorted_runs,
    "text_numbers": _numbered_texts,
    "window_spreads": _spreads,
}
"""What the others answer: those have no twin in this package."""
