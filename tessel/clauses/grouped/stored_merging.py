"""Merging groups of units that were reduced as they are stored, before states are made of them.

The merge of a group-by enters here with its units. As long as all of them are such, and what was
found of them may be held, they are joined as numbers, once. The first unit that is something else,
and groups that are too many, end that: what was held becomes tables, and tables are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa

from tessel.clauses.grouped.stored_groups import StoredGroups, joined_groups
from tessel.clauses.running.reduced import ReducedUnit
from tessel.clauses.spill.account import Account
from tessel.ecs import ProcessingUnit

__all__ = ["StoredMerge"]

_JOIN_TAKES = 4
"""How many times their own bytes groups take while they are joined and finished, about."""


class StoredMerge:
    """Groups of units, held while there is nothing else; use as a context manager.

    Parameters
    ----------
    account
        Of the query.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._held: list[StoredGroups] = []
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hold([])

    def left_of(self, units: Iterable[ProcessingUnit]) -> Iterator[pa.Table]:
        """Give the tables of units that cannot be held as numbers, and of all that follow.

        They come in the order of the units, each once.
        """
        holding = True
        for unit in units:
            found = unit.reduced if isinstance(unit, ReducedUnit) else None
            if holding and isinstance(found, StoredGroups) and self._has_room(found.nbytes):
                # A running total: asking all that is held again is quadratic in units.
                self._account.hold(found.nbytes)
                self._held.append(found)
                self._size += found.nbytes
                continue
            if holding:
                holding = False
                yield from self._tables()
            yield unit.table
        if holding and self._held and not self._join():
            yield from self._tables()

    @property
    def joined(self) -> StoredGroups | None:
        """All groups, once :meth:`left_of` has ended; None where it gave them as tables."""
        return self._held[0] if self._held else None

    def finished(self, *, sort: bool) -> Iterator[pa.Table]:
        """Give the results of all groups, where there are any left here."""
        for each in self._held:
            yield each.finished(sort=sort)

    def _join(self) -> bool:
        found = joined_groups(self._held)
        if found is not None:
            self._hold([found])
        return found is not None

    def _tables(self) -> Iterator[pa.Table]:
        held = self._held
        self._hold([])
        for each in held:
            yield each.table

    def _has_room(self, more: int) -> bool:
        return self._fits(more) or self._fits_joined(more)

    def _fits(self, more: int) -> bool:
        held = self._size + more
        return held * _JOIN_TAKES <= self._account.held_limit and self._account.fits(more)

    def _fits_joined(self, more: int) -> bool:
        """Return whether there is room once what is held is joined; else it stays as it came."""
        if len(self._held) < 2:
            return False
        before, found = self._held, joined_groups(self._held)
        if found is None:
            return False
        self._hold([found])
        if self._fits(more):
            return True
        self._hold(before)  # tables of the units are smaller than that of all
        return False

    def _hold(self, held: list[StoredGroups]) -> None:
        size = sum(each.nbytes for each in held)
        self._account.hold(size - self._size)
        self._held, self._size = held, size
