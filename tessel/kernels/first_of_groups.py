"""The first row of each group, of rows as they are stored: no row is looked at past the last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import StoredBlocks, are_places, outside_of_bounds, run_blocks
from tessel.kernels.jit import compiled_kernels
from tessel.kernels.program import Program

__all__ = ["first_of_groups", "first_of_groups_numpy"]

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
    kernels = compiled_kernels(sum(map(len, spans)), "first_of_groups")
    if kernels is None:
        return first_of_groups_numpy(spans, program, select=select, group=group, groups=groups)
    first = np.full(groups, -1, np.int64)
    left = groups
    for span in spans:
        if left:
            left = kernels.first_of_groups(
                *span.arguments,
                *program.arguments,
                -1 if select is None else select,
                group,
                left,
                first,
            )
        if left < 0:
            raise outside_of_bounds()
    return first


def first_of_groups_numpy(
    spans: Sequence[StoredBlocks], program: Program, *, select: int | None, group: int, groups: int
) -> Integers:
    """Return what :func:`first_of_groups` does; the numpy twin."""
    first = np.full(groups, -1, np.int64)
    for span in spans:
        for row, _, registers in run_blocks(span, program):
            if (first >= 0).all():
                return first
            numbers = registers.integers[group]
            if not are_places(numbers, groups):
                raise outside_of_bounds()
            rows = np.arange(len(numbers))
            if select is not None:
                rows = rows[registers.truths[select]]
            found, at = np.unique(numbers[rows], return_index=True)
            new = first[found] < 0
            first[found[new]] = row + rows[at[new]]
    return first
