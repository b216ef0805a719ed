"""How often each value of a narrow range occurs in each group, of rows as they are stored.

A table with a cell for each group and each value is counted in one pass, whatever the order of the
rows. It says what sorting all rows would, as long as it has not many more cells than rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import StoredBlocks, are_places, outside_of_bounds, run_blocks
from tessel.kernels.jit import compiled_kernels, frozen
from tessel.kernels.program import Program

__all__ = [
    "add_counts",
    "add_counts_numpy",
    "count_values",
    "count_values_numpy",
    "runs_of_counts",
    "runs_of_counts_numpy",
]

Integers = NDArray[np.int64]
Counts = NDArray[np.uint32]


def count_values(
    spans: Sequence[StoredBlocks],
    program: Program,
    *,
    select: int | None,
    group: int | None,
    groups: int,
    value: int,
    low: int,
    span: int,
) -> Counts:
    """Count values by group.

    Parameters
    ----------
    spans, program
        The rows, stretches of one segment in order, and what is computed of them; fewer than
        ``2**32``.
    select
        The truth register of the rows that count; None for all.
    group, groups
        The integer register of the group numbers, in ``[0, groups)``; None for one group.
    value
        The integer register of the values.
    low, span
        Values are in ``[low, low + span)``.

    Returns
    -------
    numpy.ndarray
        uint32, shape ``(groups, span)``.
    """
    kernels = compiled_kernels(sum(map(len, spans)), "count_values")
    if kernels is None:
        return count_values_numpy(
            spans,
            program,
            select=select,
            group=group,
            groups=groups,
            value=value,
            low=low,
            span=span,
        )
    counts = np.zeros(groups * span, np.uint32)
    for each in spans:
        inside = kernels.count_values(
            *each.arguments,
            *program.arguments,
            -1 if select is None else select,
            -1 if group is None else group,
            value,
            low,
            span,
            counts,
        )
        if not inside:
            raise outside_of_bounds()
    return counts.reshape(groups, span)


def count_values_numpy(
    spans: Sequence[StoredBlocks],
    program: Program,
    *,
    select: int | None,
    group: int | None,
    groups: int,
    value: int,
    low: int,
    span: int,
) -> Counts:
    """Return what :func:`count_values` does; the numpy twin."""
    parts = [np.zeros(0, np.int64)]
    for each in spans:
        for _, _, registers in run_blocks(each, program):
            cells = registers.integers[value] - low
            if group is not None:
                cells += registers.integers[group] * span
            if not are_places(cells, groups * span):
                raise outside_of_bounds()
            parts.append(cells if select is None else cells[registers.truths[select]])
    # All at once: the table has about as many cells as there are rows.
    counts = np.bincount(np.concatenate(parts), minlength=groups * span)
    return counts.astype(np.uint32).reshape(groups, span)


def add_counts(
    values: Integers,
    times: Integers | None,
    lengths: Integers,
    owners: Integers,
    *,
    groups: int,
    low: int,
    span: int,
) -> Counts:
    """Count values that were counted before, by group.

    Parameters
    ----------
    values, times
        int64: values, and how often each occurs; None for once. Fewer than ``2**32`` together.
    lengths, owners
        int64, how many values lie in each run of them, and the group of the run.
    groups, low, span
        As of :func:`count_values`, which says what is returned.
    """
    kernels = compiled_kernels(len(values), "count_values")
    if kernels is None:
        return add_counts_numpy(values, times, lengths, owners, groups=groups, low=low, span=span)
    counts = np.zeros(groups * span, np.uint32)
    own = np.zeros(0, np.int64) if times is None else times
    kernels.add_counts(
        frozen(values), frozen(own), frozen(lengths), frozen(owners), low, span, counts
    )
    return counts.reshape(groups, span)


def add_counts_numpy(
    values: Integers,
    times: Integers | None,
    lengths: Integers,
    owners: Integers,
    *,
    groups: int,
    low: int,
    span: int,
) -> Counts:
    """Return what :func:`add_counts` does; the numpy twin."""
    cells = np.repeat(owners * span - low, lengths)
    cells += values
    # Sums of counts are sums of whole doubles far below 2**53.
    counts = np.bincount(cells, times, groups * span)
    return counts.astype(np.uint32).reshape(groups, span)


def runs_of_counts(
    counts: Counts, groups: Integers, low: int
) -> tuple[Integers, Integers, Integers]:
    """Return the values of some groups that occur, in order.

    Parameters
    ----------
    counts
        As :func:`count_values` gives them.
    groups
        int64: which groups, in which order.
    low
        The value of the first cell of a group.

    Returns
    -------
    values, times, starts : numpy.ndarray
        int64: the values, how often each occurs, and where those of each group start, and the end.
    """
    kernels = compiled_kernels(counts.size, "count_values")
    if kernels is None:
        return runs_of_counts_numpy(counts, groups, low)
    values, times = np.empty((2, int(np.count_nonzero(counts)) + 1), np.int64)
    starts = np.zeros(len(groups) + 1, np.int64)
    found = kernels.runs_of_counts(
        counts.reshape(-1), counts.shape[1], frozen(groups), low, values, times, starts
    )
    return values[:found], times[:found], starts


def runs_of_counts_numpy(
    counts: Counts, groups: Integers, low: int
) -> tuple[Integers, Integers, Integers]:
    """Return what :func:`runs_of_counts` does; the numpy twin."""
    own = counts[groups]
    owners, places = np.nonzero(own)
    starts = np.searchsorted(owners, np.arange(len(groups) + 1))
    return places + low, own[owners, places].astype(np.int64), starts
