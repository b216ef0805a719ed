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
"""With one a worker, the slowest decides; with more, states are made more often than need be."""

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
    if len(rows) <= _PACKS_PER_WORKER * workers:
        return [range(unit, unit + 1) for unit in range(len(rows))]
    # A unit belongs to the pack in whose share of all rows its middle lies.
    share = max(1.0, rows.sum() / (_PACKS_PER_WORKER * workers))
    pack_of = ((np.cumsum(rows) - rows / 2) // share).astype(np.int64).tolist()
    most = live_bytes // _PACKS_IN_BUDGET
    packs: list[range] = []
    held = 0
    for unit, size in enumerate(nbytes.tolist()):
        if packs and pack_of[unit] == pack_of[unit - 1] and held + size <= most:
            packs[-1] = range(packs[-1].start, unit + 1)
            held += size
        else:
            packs.append(range(unit, unit + 1))
            held = size
    return packs
