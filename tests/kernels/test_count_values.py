"""Counts of values by group, and first rows of groups: in every form, and one by one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessel.kernels.best_rows import first_of_groups
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.count_values import add_counts, count_values, runs_of_counts
from tessel.kernels.program import Op, Program
from tests.kernels.forced import FORMS, in_form

_SHIFT = 4
_GROUPS, _LOW, _SPAN = 4, -3, 9
_ROWS = st.lists(
    st.tuples(st.integers(0, _GROUPS - 1), st.integers(_LOW, _LOW + _SPAN - 1), st.booleans()),
    min_size=1,
    max_size=80,
)


def _stored(rows: list[tuple[int, int, bool]]) -> tuple[list[StoredBlocks], Program]:
    """Return three columns of 8 bits, a group, a value and whether a row counts, in two spans."""
    pages = -(-len(rows) // (1 << _SHIFT))
    columns = np.zeros((3, pages << _SHIFT), np.uint8)
    for column, (numbers, base) in enumerate(
        zip(zip(*rows, strict=True), (0, _LOW, 0), strict=True)
    ):
        columns[column, : len(rows)] = np.array(numbers, np.int64) - base
    data = np.concatenate([columns.ravel(), np.zeros(8, np.uint8)])
    data.flags.writeable = False
    facts = np.zeros((6, 3, pages), np.int64)
    for column in range(3):
        for page in range(pages):
            start = (column * pages + page) << _SHIFT
            facts[:, column, page] = start, 8, 255, (0, _LOW, 0)[column], 0, -1
    steps = [(Op.LOAD, 0, 0, 0, 0), (Op.LOAD, 1, 1, 0, 0), (Op.COLUMN_RANGE, 0, 2, 0, 0)]
    ranges = np.ones((1, pages, 2), np.int64)
    program = Program(
        np.array(steps, np.int64), ranges, np.zeros(0), np.zeros(0, np.uint8), 2, 0, 1
    )
    whole = StoredBlocks(data, facts, _SHIFT, 0, len(rows))
    middle = len(rows) // 2
    spans = [whole.cut(0, middle), whole.cut(middle, len(rows))] if middle else [whole]
    return spans, program


@given(rows=_ROWS, selects=st.booleans(), data=st.data())
def test_counts(rows: list[tuple[int, int, bool]], selects: bool, data: st.DataObject) -> None:
    spans, program = _stored(rows)
    grouped = data.draw(st.booleans())
    order = data.draw(st.permutations(range(_GROUPS if grouped else 1)))
    counted = Counter(
        (group if grouped else 0, value) for group, value, kept in rows if kept or not selects
    )
    wanted: list[tuple[int, int, int]] = [
        (group, value, counted[group, value])
        for group in order
        for value in range(_LOW, _LOW + _SPAN)
        if counted[group, value]
    ]
    for form in FORMS:
        with in_form(form):
            counts = count_values(
                spans,
                program,
                select=0 if selects else None,
                group=0 if grouped else None,
                groups=_GROUPS if grouped else 1,
                value=1,
                low=_LOW,
                span=_SPAN,
            )
            values, times, starts = runs_of_counts(counts, np.array(order), _LOW)
        owners = np.repeat(order, np.diff(starts)).tolist()
        assert list(zip(owners, values.tolist(), times.tolist(), strict=True)) == wanted


@given(rows=_ROWS, selects=st.booleans())
def test_first_rows(rows: list[tuple[int, int, bool]], selects: bool) -> None:
    spans, program = _stored(rows)
    wanted = [-1] * _GROUPS
    for row, (group, _, kept) in reversed(list(enumerate(rows))):
        if kept or not selects:
            wanted[group] = row
    for form in FORMS:
        with in_form(form):
            found = first_of_groups(
                spans, program, select=0 if selects else None, group=0, groups=_GROUPS
            )
        assert found.tolist() == wanted


_RUNS = st.lists(
    st.tuples(
        st.integers(0, _GROUPS - 1),
        st.lists(st.tuples(st.integers(_LOW, _LOW + _SPAN - 1), st.integers(1, 5)), max_size=9),
    ),
    max_size=8,
)


@given(runs=_RUNS, repeated=st.booleans())
def test_counts_are_added(runs: Any, repeated: bool) -> None:
    counted: Counter[tuple[int, int]] = Counter()
    for owner, values in runs:
        for value, times in values:
            counted[owner, value] += times if repeated else 1
    numbers = np.array([value for _, values in runs for value, _ in values], np.int64)
    times = np.array([times for _, values in runs for _, times in values], np.int64)
    lengths = np.array([len(values) for _, values in runs], np.int64)
    owners = np.array([owner for owner, _ in runs], np.int64)
    for form in FORMS:
        with in_form(form):
            found = add_counts(
                numbers,
                times if repeated else None,
                lengths,
                owners,
                groups=_GROUPS,
                low=_LOW,
                span=_SPAN,
            )
        there = {
            (int(group), int(place) + _LOW): int(found[group, place])
            for group, place in zip(*np.nonzero(found), strict=True)
        }
        assert there == dict(counted)
