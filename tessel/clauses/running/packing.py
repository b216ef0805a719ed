"""Several row slices in one task, where rows are reduced as they are stored.

The pipeline enters here with the units of a first stage. What such a task makes is a small table,
whose states cost as much for one segment as for ten: so neighbours are joined until there are few
tasks a worker. Where a pack turns out to need values, its units run one by one as planned.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.base import Clause
from tessel.clauses.powers import Reduces, Scans, has_power

__all__ = ["joins_slices", "packs_of"]

_PACKS_PER_WORKER = 2
"""So few units are left as they are."""

_MOST_UNITS = 1 << 10
"""Sums of so many segments are joined without overflow, with room to spare."""

_SHARE = 1.5
"""A pack takes its share of the rows that are left, for so many packs a worker."""

_PACKS_IN_BUDGET = 4
"""Stored bytes are counted, which a pack only looks at."""


def joins_slices(clauses: Sequence[Clause]) -> bool:
    """Return whether the first clauses of a stage reduce many slices to little, as stored."""
    left = list(itertools.dropwhile(lambda clause: has_power(clause, Scans, "scan"), clauses))
    return bool(left) and has_power(left[0], Reduces, "reduce") and cast(Reduces, left[0]).joins()


def packs_of(
    rows: NDArray[np.int64], nbytes: NDArray[np.int64], workers: int, live_bytes: int
) -> list[range]:
    """Return which neighbouring units make one task.

    Parameters
    ----------
    rows, nbytes
        Of each unit, int64, shape ``(units,)``; bytes as they are stored.
    workers
        How many tasks run at a time.
    live_bytes
        The byte budget.
    """
    # A worker alone waits for no other, and each pack less is a merging of states less.
    alone = workers == 1
    if not alone and len(rows) <= _PACKS_PER_WORKER * workers:
        return [range(unit, unit + 1) for unit in range(len(rows))]
    most = live_bytes // _PACKS_IN_BUDGET
    # Long packs first, short ones last, so that all workers end at about the same time (guided
    # self-scheduling; Polychronopoulos and Kuck, 1987).
    left = np.append(np.cumsum(rows[::-1])[::-1], 0)
    packs: list[range] = []
    begin, held = 0, 0
    for unit, size in enumerate(nbytes.tolist()):
        held += size
        taken = left[begin] - left[unit + 1]
        full = not alone and taken >= left[begin] / (_SHARE * workers)
        following = int(nbytes[unit + 1]) if unit + 1 < len(nbytes) else 0
        if full or held + following > most or unit - begin + 1 == _MOST_UNITS:
            packs.append(range(begin, unit + 1))
            begin, held = unit + 1, 0
    if begin < len(rows):
        packs.append(range(begin, len(rows)))
    return packs
