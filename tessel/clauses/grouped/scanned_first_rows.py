"""The first row of each group of rows as they are stored: ``distinct`` without a value decoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.grouped.scanned_groups import numbered_groups
from tessel.kernels import group_sums
from tessel.store import BlockScan, CandidateRows

__all__ = ["scanned_first_rows"]


def scanned_first_rows(rows: CandidateRows, keys: Sequence[str]) -> NDArray[np.int64] | None:
    """Return where the first row of each group lies, ascending.

    Parameters
    ----------
    rows
        Not read yet; they stay as they are.
    keys
        The columns by which rows are equal, at least one.

    Returns
    -------
    numpy.ndarray or None
        int64: places of ``rows``. None where the groups need values, or are about as many as rows.
    """
    opened = BlockScan(rows).open(keys)
    grouped = None if opened is None else numbered_groups(opened, keys, rows.schema)
    if opened is None or grouped is None:
        return None
    _, group, groups = grouped
    found = group_sums(
        opened.spans, opened.program.program(), select=None, group=group, groups=groups, fields=[]
    )
    if found is None:
        return None
    # Kernels count from the first row of the segment.
    return np.sort(found.first_row[found.counts > 0]) - (opened.spans[0].start - rows.first_place)
