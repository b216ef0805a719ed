"""Lists of integers of groups, wherever units left them, brought together by group.

The states of units stay where they are: their lists are copied, group by group, to memory that some
groups after others share, small enough to stay in a cache. Merged states of everything would be as
large as all values again, and memory that was never touched costs more than to sort what is in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.value_runs import ValueRuns
from tessel.errors import ExecutionError
from tessel.lazy import dataclass

Integers = NDArray[np.int64]

_LEAST_AT_A_TIME = 1 << 16
_PARTS = 32
"""Groups of so many numbers, or of such a part of all, share memory: calls are few either way."""


@dataclass(frozen=True, eq=False)
class NumberLists:
    """Lists of integers.

    Attributes
    ----------
    numbers
        int64, one list after another.
    times
        How often each number occurs, int64; None for once.
    lengths, owners
        int64, shape ``(lists,)``: how many numbers each list has, and its group.
    """

    numbers: Integers
    times: Integers | None
    lengths: Integers
    owners: Integers


class ValueLists:
    """All lists of some groups.

    The runs that it gives are to be made :meth:`~ValueRuns.compact` where they have times: what
    comes of several lists is in no order, and the same number may be in each.

    Parameters
    ----------
    parts
        The lists, of one unit after another.
    groups
        How many groups there are.
    """

    def __init__(self, parts: Sequence[NumberLists], groups: int) -> None:
        from tessel.kernels.rows_by_code import order_of_codes

        self._parts = parts
        self._has_times = any(part.times is not None for part in parts)
        once = [len(part.numbers) for part in parts if part.times is None]
        ones = np.ones(max(once, default=0) if self._has_times else 0, np.int64)
        self._times = [
            ones[: len(part.numbers)] if part.times is None else part.times for part in parts
        ]
        self._places: list[tuple[Integers, Integers, Integers]] = []
        counts = np.zeros(groups, np.int64)
        for part in parts:
            held = part.numbers if part.times is None else part.times
            if not int(part.lengths.sum()) == len(part.numbers) == len(held):
                raise ExecutionError("lists of values are not as long as they say")
            order = order_of_codes(part.owners, groups)
            starts = np.cumsum(part.lengths) - part.lengths
            self._places.append((part.owners[order], starts[order], part.lengths[order]))
            counts += np.bincount(part.owners, part.lengths, groups).astype(np.int64)
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    def some_at_a_time(self) -> Iterator[ValueRuns]:
        """Give the runs of all groups, of some after others; each is valid until the next."""
        starts, groups = self._starts, len(self._starts) - 1
        most = max(_LEAST_AT_A_TIME, int(starts[-1]) // _PARTS)
        cuts = [0]
        while not cuts[1:] or cuts[-1] < groups:
            end = int(np.searchsorted(starts, starts[cuts[-1]] + most, side="right")) - 1
            cuts.append(min(max(end, cuts[-1] + 1), groups))
        scratch = np.empty((1 + self._has_times, int(np.diff(starts[cuts]).max())), np.int64)
        for first, last in itertools.pairwise(cuts):
            yield self._of_groups(first, last, scratch)

    def _of_groups(self, first: int, last: int, scratch: Integers) -> ValueRuns:
        """Bring groups ``[first, last)`` together, in memory that is given."""
        starts = self._starts[first : last + 1] - self._starts[first]
        scratch = scratch[:, : int(starts[-1])]
        self._place([part.numbers for part in self._parts], first, last, starts, scratch[0])
        if not self._has_times:
            return ValueRuns(scratch[0], None, starts)
        self._place(self._times, first, last, starts, scratch[1])
        return ValueRuns(scratch[0], scratch[1], starts)

    def _place(
        self, lists: Sequence[Integers], first: int, last: int, starts: Integers, found: Integers
    ) -> None:
        from tessel.kernels.rows_by_code import place_lists

        places = starts[:-1].copy()
        for numbers, (owners, begins, lengths) in zip(lists, self._places, strict=True):
            own = slice(*np.searchsorted(owners, [first, last]).tolist())
            place_lists(numbers, begins[own], lengths[own], owners[own] - first, places, found)
