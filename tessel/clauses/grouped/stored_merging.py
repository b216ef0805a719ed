"""Merging groups of units that were reduced on stored integers, before states are made of them.

The merge of a group-by enters here with its units. As long as all of them are such, and fit into
the byte budget, their groups are joined by number: all of them once, or, where groups come out in
the order of their numbers, range by range, so that joining takes little memory. The first unit that
was not reduced so, or groups that are too many, end that: the buffered groups become partial
tables, which are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from tessel.clauses.grouped.stored_groups import (
    StoredGroups,
    StoredParts,
    cut_by_number,
    joined_by_number,
    joined_groups,
    with_shared_keys,
)
from tessel.clauses.grouped.stored_keys import are_in_order
from tessel.clauses.running.reduced import ReducedUnit
from tessel.clauses.spill.account import Account
from tessel.closing import Closing
from tessel.ecs import ProcessingUnit

__all__ = ["StoredMerge"]

_JOIN_TAKES = 4
"""Groups take about so many times their own bytes while they are joined and finished."""

_RANGES_IN_LIMIT = 8
"""Joining a range takes at most such a part of the byte limit."""

_WORTH_MERGING = 2
"""Joining is worth doing again where it leaves at most this part of the byte limit: the half."""


class StoredMerge(Closing):
    """Buffers the groups of units and joins them; use as a context manager.

    Parameters
    ----------
    account
        Of the query.
    sort
        Whether groups come out by key, or else in order of first appearance.
    """

    def __init__(self, account: Account, *, sort: bool) -> None:
        self._account = account
        self._sort = sort
        self._buffered: list[StoredGroups] = []
        self._size = 0
        self._by_range = sort
        self._takes = _JOIN_TAKES

    def close(self) -> None:
        """Let go of the groups."""
        self._set_buffered([])

    def left_of(self, units: Iterable[ProcessingUnit]) -> Iterator[pa.Table]:
        """Give the tables of units that cannot be held as numbers, and of all that follow.

        They come in the order of the units, each once.
        """
        buffers = True
        for unit in units:
            found = unit.reduced if isinstance(unit, ReducedUnit) else None
            parts = found.parts if isinstance(found, StoredParts) else ()
            if buffers and parts and self._took(parts):
                continue
            if buffers:
                buffers = False
                yield from self._tables()
            yield from (part.table for part in parts or (unit,))
        if buffers and self._buffered and not self._is_ready():
            yield from self._tables()

    @property
    def has_groups(self) -> bool:
        """Whether there are groups, once :meth:`left_of` has ended; else it gave all as tables."""
        return bool(self._buffered)

    def finished(self) -> Iterator[pa.Table]:
        """Give the results of all groups, where there are any left here."""
        for each in self._joined() if len(self._buffered) > 1 else self._buffered:
            yield each.finished(sort=self._sort)

    def _took(self, parts: Sequence[StoredGroups]) -> bool:
        """Hold the groups of a unit if they fit the byte budget; return whether they do."""
        more = sum(part.nbytes for part in parts)
        if not all(part.shape.plan.is_compact for part in parts):
            self._by_range, self._takes = False, 1  # values are joined where they lie
        self._by_range &= all(part.keys and are_in_order(part.keys) for part in parts)
        if not (self._fits(more) or self._fits_joined(more)):
            return False
        # A running total: asking all that is held again is quadratic in units.
        self._account.hold(more)
        self._buffered += parts
        self._size += more
        return True

    def _is_ready(self) -> bool:
        """Bring what is held together, all but the joining of ranges; say whether numbers can."""
        if self._by_range:
            return self._share_keys()
        found = joined_groups(self._buffered)
        if found is not None:
            self._set_buffered([found])
        return found is not None

    def _share_keys(self) -> bool:
        shared = with_shared_keys(self._buffered)
        if shared is not None:
            self._buffered = shared
        return shared is not None

    def _joined(self) -> Iterator[StoredGroups]:
        """Give all groups, joined range by range; they have shared keys and are held no more."""
        held = self._buffered
        self._buffered = []
        most = self._account.held_limit // (_RANGES_IN_LIMIT * _JOIN_TAKES)
        for own in cut_by_number(held, most):
            joined = joined_by_number(own)
            size = sum(each.nbytes for each in own)
            self._account.hold(-size)
            self._size -= size
            yield joined

    def _tables(self) -> Iterator[pa.Table]:
        held = self._buffered
        self._set_buffered([])
        for each in held:
            yield each.table

    def _fits(self, more: int) -> bool:
        takes = (self._size + more) * (1 if self._by_range else self._takes)
        return takes <= self._account.held_limit and self._account.fits(more)

    def _fits_joined(self, more: int) -> bool:
        """Return whether there is room once what is held is joined; else it stays as it came."""
        if len(self._buffered) < 2:
            return False
        if self._by_range:
            if not self._share_keys():
                return False
            self._set_buffered(list(self._joined()))
            is_less = self._size * _WORTH_MERGING <= self._account.held_limit
            return is_less and self._fits(more)
        before, found = self._buffered, joined_groups(self._buffered)
        if found is None:
            return False
        self._set_buffered([found])
        if self._fits(more):
            return True
        self._set_buffered(before)  # tables of the units are smaller than that of all
        return False

    def _set_buffered(self, held: list[StoredGroups]) -> None:
        size = sum(each.nbytes for each in held)
        self._account.hold(size - self._size)
        self._buffered, self._size = held, size
