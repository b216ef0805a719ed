"""The rows of the least keys, of rows as they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import Registers, StoredBlocks, run_blocks
from tessel.kernels.jit import compiled_kernels, frozen
from tessel.kernels.program import Program

__all__ = ["NO_LIMIT", "BestRows", "best_rows", "best_rows_numpy", "ordered_doubles"]

Integers = NDArray[np.int64]
RowKey = tuple[int, int]
"""A key and the row that has it: rows are ordered by both."""

_GREATEST = (1 << 63) - 1
_TRIMMED = 4

NO_LIMIT: RowKey = (_GREATEST, _GREATEST)
"""What every row comes before."""


@dataclass(frozen=True, eq=False)
class BestRows:
    """Rows that were found.

    Attributes
    ----------
    rows
        Ascending, int64; counted from the first row of the segment.
    keys
        Their keys, int64.
    last
        The last of them by key, where there are as many as were wanted; else None.
    """

    rows: Integers
    keys: Integers
    last: RowKey | None


def ordered_doubles(values: NDArray[np.float64], *, downwards: bool) -> Integers:
    """Return integers in the order of doubles, or in the other order; both zeros are one."""
    bits = (values + 0.0).view(np.int64)
    ordered: Integers = bits ^ ((bits >> 63) & _GREATEST)
    return ~ordered if downwards else ordered


def best_rows(
    blocks: StoredBlocks,
    program: Program,
    stretches: Sequence[tuple[int, int, int]],
    *,
    select: int | None,
    key: int,
    downwards: bool,
    count: int,
    limit: RowKey = NO_LIMIT,
    later: bool = False,
) -> BestRows:
    """Return the rows of the least keys; of equal keys the earlier rows, or the later ones.

    Parameters
    ----------
    blocks, program
        Columns of a segment, and what is computed of them.
    stretches
        The rows: first row, the row after the last, and what no key in between is below. Looked at
        in this order, and only those whose bound may still be among the least.
    select
        The truth register of the rows that count; None for all.
    key
        The integer register of the keys, or the complement (``~register``) of one of floats, none
        of them NaN; see :func:`ordered_doubles`.
    downwards
        Whether the greatest floats come first; integers are taken as they are.
    count
        How many rows are wanted, at least one.
    limit
        Rows that do not come before this one do not count.
    later
        Whether of equal keys the later rows are taken. Rows of the limit and of what is found last
        are negative then: the less, the better.
    """
    kernels = compiled_kernels(sum(stop - start for start, stop, _ in stretches), "best_rows")
    if kernels is None:
        return best_rows_numpy(
            blocks,
            program,
            stretches,
            select=select,
            key=key,
            downwards=downwards,
            count=count,
            limit=limit,
            later=later,
        )
    keys, rows = np.empty((2, count), np.int64)
    found = kernels.best_rows(
        *blocks.arguments[:5],
        *program.arguments,
        -1 if select is None else select,
        key,
        downwards,
        later,
        frozen(np.array(stretches, np.int64).reshape(-1, 3)),
        *limit,
        keys,
        rows,
    )
    # The last of a full heap is its first entry.
    last = (int(keys[0]), int(rows[0])) if found == count else None
    return _ascending(keys[:found], rows[:found], last)


def best_rows_numpy(
    blocks: StoredBlocks,
    program: Program,
    stretches: Sequence[tuple[int, int, int]],
    *,
    select: int | None,
    key: int,
    downwards: bool,
    count: int,
    limit: RowKey = NO_LIMIT,
    later: bool = False,
) -> BestRows:
    """Return what :func:`best_rows` does; the numpy twin."""
    kept_keys, kept_rows = np.zeros((2, 0), np.int64)
    last = limit
    for start, stop, least in stretches:
        if (least, 1 - stop if later else start) >= last:
            continue
        for first, _, registers in run_blocks(blocks.cut(start, stop), program):
            keys = _keys(registers, key, downwards)
            rows = np.arange(first, first + len(keys)) * (-1 if later else 1)
            wanted = (keys < last[0]) | ((keys == last[0]) & (rows < last[1]))
            if select is not None:
                wanted &= registers.truths[select]
            kept_keys = np.concatenate([kept_keys, keys[wanted]])
            kept_rows = np.concatenate([kept_rows, rows[wanted]])
            if len(kept_rows) >= _TRIMMED * count:
                kept_keys, kept_rows, last = _trimmed(kept_keys, kept_rows, count, last)
    kept_keys, kept_rows, last = _trimmed(kept_keys, kept_rows, count, last)
    full = len(kept_rows) == count
    return _ascending(kept_keys, kept_rows, last if full else None)


def _ascending(keys: Integers, rows: Integers, last: RowKey | None) -> BestRows:
    """Return rows, negative where later ones come first, in the order of the segment."""
    rows = np.abs(rows)
    order = np.argsort(rows)
    return BestRows(rows[order], keys[order], last)


def _keys(registers: Registers, key: int, downwards: bool) -> Integers:
    if key >= 0:
        return registers.integers[key]
    return ordered_doubles(registers.floats[~key], downwards=downwards)


def _trimmed(
    keys: Integers, rows: Integers, count: int, limit: RowKey
) -> tuple[Integers, Integers, RowKey]:
    """Return the best of some rows, which all come before a limit, and the limit from there on."""
    order = np.lexsort((rows, keys))[:count]
    keys, rows = keys[order], rows[order]
    return keys, rows, (int(keys[-1]), int(rows[-1])) if len(rows) == count else limit
