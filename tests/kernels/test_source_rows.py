"""From which row a row gets its value, in each form of the kernels, against Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.kernels.group_rows import rows_by_code
from tessel.kernels.source_rows import edges_of_gaps, nearest_on_side, nearest_present, rows_away
from tests.kernels.forced import FORMS, in_form

_GROUPS = 3
_FAR = 99
rows = st.lists(st.tuples(st.integers(0, _GROUPS - 1), st.booleans()), max_size=30)
carried = st.lists(
    st.tuples(st.integers(-1, 4), st.integers(0, 3)), min_size=_GROUPS, max_size=_GROUPS
)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40)
@given(held=rows, keyed=st.booleans(), before=carried, limit=st.integers(1, 5) | st.just(_FAR))
def test_gaps(
    form: str,
    held: list[tuple[int, bool]],
    keyed: bool,
    before: list[tuple[int, int]],
    limit: int,
) -> None:
    codes = np.array([code if keyed else 0 for code, _ in held], np.int64)
    present = np.array([there for _, there in held], np.bool_)
    for backward in (False, True):
        last, passed = (np.array(part, np.int64) for part in zip(*before, strict=True))
        with in_form(form):
            found = nearest_present(
                present, codes if keyed else None, last, passed,
                offset=5, limit=limit, backward=backward,
            )  # fmt: skip
            last, passed = (np.array(part, np.int64) for part in zip(*before, strict=True))
            nearest, distances = nearest_on_side(
                present, codes, last, passed, offset=5, backward=backward
            )
        state, wanted = dict(enumerate(before)), {}
        sides: dict[int, tuple[int, int]] = {}
        for row in reversed(range(len(held))) if backward else range(len(held)):
            source, gone = state[int(codes[row])]
            if present[row]:
                state[int(codes[row])] = row + 5, 0
            else:
                state[int(codes[row])] = source, gone + 1
                if source >= 0 and gone < limit:
                    wanted[row] = source
            source, gone = state[int(codes[row])]
            sides[row] = (source, gone) if source >= 0 else (row + 5, -1)
        assert dict(zip(*(part.tolist() for part in found), strict=True)) == wanted
        assert list(zip(nearest, distances, strict=True)) == [sides[row] for row in sorted(sides)]
    groups = _GROUPS if keyed else 1
    with in_form(form):
        edges = edges_of_gaps(present, codes, groups)
    for group in range(groups):
        own = [row for row in range(len(held)) if codes[row] == group]
        at = [place for place, row in enumerate(own) if present[row]]
        end = [own[at[0]], at[0], own[at[-1]], len(own) - 1 - at[-1]] if at else None
        assert edges[:, group].tolist() == [len(own), *(end or [-1, len(own)] * 2)]


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=20)
@given(held=rows, distance=st.integers(-4, 4), start=st.integers(0, 5))
def test_rows_away(form: str, held: list[tuple[int, bool]], distance: int, start: int) -> None:
    codes = np.array([code for code, _ in held], np.int64)
    start = min(start, len(held))
    with in_form(form):
        found = rows_away(*rows_by_code(codes, _GROUPS), distance, start, len(held))
    own = [[row for row in range(len(held)) if codes[row] == code] for code in range(_GROUPS)]
    for row, away in enumerate(found.tolist(), start):
        place = own[codes[row]].index(row) - distance
        assert away == (own[codes[row]][place] if 0 <= place < len(own[codes[row]]) else -1)
