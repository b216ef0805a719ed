"""The first row of each group, of rows as they are stored: no row is looked at past the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import (
    BLOCKS,
    PROGRAM,
    REGISTERS,
    SELECTED,
    are_places,
    place_of,
    run_selected,
)
from tessel.kernels.blocks import StoredBlocks, outside_of_bounds
from tessel.kernels.declare import kernel
from tessel.kernels.intrinsics import words_of
from tessel.kernels.program import BLOCK_ROWS, Program

Integers = NDArray[np.int64]


def first_of_groups(
    spans: Sequence[StoredBlocks], program: Program, *, select: int | None, group: int, groups: int
) -> Integers:
    """Return the first row of each group.

    Parameters
    ----------
    spans, program
        The rows, stretches of one segment in order, and what is computed of them.
    select
        The truth register of the rows that count; None for all.
    group
        The integer register of the group numbers, in ``[0, groups)``.
    groups
        How many groups there may be.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(groups,)``: counted from the first row of the segment; -1 where a group has
        no rows.
    """
    first = np.full(groups, -1, np.int64)
    left, registers, selected = groups, program.registers(), program.selected(select)
    for span in spans:
        if left:
            left = find_first(
                *span.arguments,
                *program.arguments,
                *registers,
                *selected,
                group,
                left,
                first,
            )
        if left < 0:
            raise outside_of_bounds()
    return first


@kernel(
    f"{BLOCKS}, {PROGRAM}, {REGISTERS}, {SELECTED}, group: i64, left: i64, "
    "first: mut i64[groups] -> i64"
)
def find_first(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    select: Any, chosen: Any,
    group: Any,
    left: Any,
    first: Any,
) -> Any:  # fmt: skip
    """Write the first rows of groups that have none; return how many still have none.

    -1 where a number is no group.
    """
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    registers = integers, floats, truths
    numbers = place_of(group)
    page_rows = 1 << shift
    row = start
    while row < stop and left > 0:
        page, inside = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - inside, stop - row)
        kept, _ = run_selected(
            stored, program, (page, inside, rows), registers, select, chosen, rows
        )
        if not are_places(integers, numbers, np.uint64(kept), len(first)):
            return -1
        for place in range(np.uint64(kept)):
            number = np.uint64(integers[numbers + place])
            if first[number] < 0:
                first[number] = row + (chosen[place] if kept < rows else np.int64(place))
                left -= 1
        row += rows
    return left
