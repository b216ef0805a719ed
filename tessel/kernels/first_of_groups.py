"""The first row of each group, of rows as they are stored: no row is looked at past the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import BLOCKS, PROGRAM, REGISTERS, are_places, place_of, run_steps
from tessel.kernels.blocks import StoredBlocks, outside_of_bounds
from tessel.kernels.declare import kernel
from tessel.kernels.intrinsics import words_of
from tessel.kernels.program import BLOCK_ROWS, Program

__all__ = ["first_of_groups"]

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
    left, registers = groups, program.registers()
    for span in spans:
        if left:
            left = find_first(
                *span.arguments,
                *program.arguments,
                *registers,
                -1 if select is None else select,
                group,
                left,
                first,
            )
        if left < 0:
            raise outside_of_bounds()
    return first


@kernel(
    f"{BLOCKS}, {PROGRAM}, {REGISTERS}, select: i64, group: i64, left: i64, first: mut i64[groups] "
    "-> i64"
)
def find_first(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    select: Any,
    group: Any,
    left: Any,
    first: Any,
) -> Any:  # fmt: skip
    """Write the first rows of groups that have none; return how many still have none.

    -1 where a number is no group.
    """
    words = words_of(data)
    numbers, selected = place_of(group), place_of(max(select, 0))
    page_rows = 1 << shift
    row = start
    while row < stop and left > 0:
        page, inside = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - inside, stop - row)
        run_steps(
            data, words, facts, gaps, shift, steps, ranges, constants, tables,
            page, inside, rows, integers, floats, truths,
        )  # fmt: skip
        if not are_places(integers, numbers, np.uint64(rows), len(first)):
            return -1
        for place in range(np.uint64(rows)):
            number = np.uint64(integers[numbers + place])
            if first[number] < 0 and (select < 0 or truths[selected + place]):
                first[number] = row + np.int64(place)
                left -= 1
        row += rows
    return left
