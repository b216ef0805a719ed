"""Rows that can be among the first of an order, found from its columns alone, best pages first.

``top_k`` enters here with a unit that is not read yet. Pages are taken in the order of their bounds
on the first key. As soon as as many rows are known as are wanted, a page that cannot beat the last
of them is not touched; units of one run tell each other through a :class:`Bar`. What may not be in
the answer is dropped, so that the other columns are read for a handful of rows.

Which rows are left depends on what other units knew at that time, but never loses one of the
answer: a row is dropped only where as many rows that come before it are known to exist.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.ordering import Ordering, Rows
from tessel.clauses.values import integers, is_temporal, missing_rows, normalised, raw_values
from tessel.expression.schema import TableSchema
from tessel.store import CandidateRows, RowPart

__all__ = ["Bar", "keep_first"]

Scores = NDArray[Any]
"""Numbers that ascend as rows follow one another: int64, uint64 or float64, no NaN."""

_MOST_ROWS = 1 << 17
"""More rows are wanted than are worth comparing with those of other units."""

_NO_ROWS = np.zeros(0, np.int64)


class Bar:
    """What a row must beat to be among the first; any number of threads may look and raise it.

    Parameters
    ----------
    count
        How many rows are wanted.
    ties
        Whether of equal scores the earlier row comes first. Otherwise more keys follow, and rows
        that are equal in the first are all in the race.

    Attributes
    ----------
    limit
        The score and the row of the last of the best rows so far; None before there are as many.
        It only ever gets harder to beat.
    """

    def __init__(self, count: int, *, ties: bool) -> None:
        self.limit: tuple[Any, int] | None = None
        self._count = count
        self._ties = ties
        self._lock = threading.Lock()
        self._best: tuple[Scores, Rows] | None = None
        self._new: list[tuple[Scores, Rows]] = []
        self._waiting = 0

    def admits(self, bound: Any, row: int) -> bool:
        """Return whether a row not before ``row`` with a score not below ``bound`` may come in."""
        limit = self.limit
        if limit is None:
            return True
        return bool(bound < limit[0] or (bound == limit[0] and (not self._ties or row < limit[1])))

    def among(self, scores: Scores, rows: Rows) -> NDArray[np.bool_] | None:
        """Return which rows may come in; None for all of them."""
        limit = self.limit
        if limit is None:
            return None
        if not self._ties:
            return np.asarray(scores <= limit[0])
        return np.asarray((scores < limit[0]) | ((scores == limit[0]) & (rows <= limit[1])))

    def offer(self, scores: Scores, rows: Rows) -> None:
        """Take note of rows, each of which is offered once.

        Parameters
        ----------
        scores, rows
            What they are ordered by, and their places in the symbol.
        """
        if not len(rows):
            return
        with self._lock:
            self._new.append(self._first(scores, rows))
            self._waiting += len(self._new[-1][1])
            held = 0 if self._best is None else len(self._best[1])
            # Where many are wanted, they are not put in order again for each few that come in.
            if held + self._waiting >= self._count and (held == 0 or self._waiting * 4 >= held):
                self._raise()

    def _raise(self) -> None:
        known = self._new if self._best is None else [self._best, *self._new]
        scores, rows = (np.concatenate(each) for each in zip(*known, strict=True))
        scores, rows = self._best = self._first(scores, rows)
        self._new, self._waiting = [], 0
        last = scores.max()
        self.limit = last, int(rows[scores == last].max())

    def _first(self, scores: Scores, rows: Rows) -> tuple[Scores, Rows]:
        """Return as many of the first rows as are wanted, in no order."""
        if len(rows) <= self._count:
            return scores, rows
        last = np.partition(scores, self._count - 1)[self._count - 1]
        before = scores < last
        equal = np.flatnonzero(scores == last)
        missing = self._count - int(np.count_nonzero(before))
        if len(equal) > missing:
            equal = equal[np.argsort(rows[equal], kind="stable")[:missing]]
        before[equal] = True
        return scores[before], rows[before]


def keep_first(rows: CandidateRows, ordering: Ordering, count: int, bar: Bar | None = None) -> None:
    """Leave those rows that can be among the first of all units, in their own order.

    Parameters
    ----------
    rows
        Of one unit, not read yet. At least as many are left as ``count`` of all rows that ``bar``
        was told of and these; at most ``count``.
    ordering
        What rows are ordered by.
    count
        How many are wanted of all units.
    bar
        What the units of this run know of one another, of this ordering and count; by default a
        unit knows itself.
    """
    if not count or not len(rows):
        rows.keep(_NO_ROWS)
        return
    dtype = _score_dtype(rows.schema, ordering.by[0])
    alone = len(ordering.by) == 1
    if dtype is not None and count <= _MOST_ROWS:
        places = _page_by_page(rows, ordering, bar or Bar(count, ties=alone), dtype)
        if places is not None:
            rows.keep(places)
    if len(rows) > count:
        chosen = ordering.first(rows.values(ordering.by), count)
        places = rows.places()
        rows.keep(places[:count] if chosen is None else places[np.sort(chosen)])


def _page_by_page(
    rows: CandidateRows, ordering: Ordering, bar: Bar, dtype: np.dtype[Any]
) -> Rows | None:
    """Return the places of rows that the first key does not rule out; None where it cannot say.

    It cannot where rows that miss a value are wanted.
    """
    name, downwards = ordering.by[0], ordering.descending[0]
    parts = rows.parts(name)
    missing = any(part.has_missing for part in parts)
    if missing and ordering.missing == "first":
        return None
    found: list[tuple[Scores, Rows]] = []
    for part, bound in _best_first([p for p in parts if p.has_values], dtype, downwards):
        if bound is not None and not bar.admits(bound, rows.first_row + part.first):
            continue
        scores, places = _scores(part, dtype, downwards)
        places += rows.first_row
        chosen = bar.among(scores, places)
        if chosen is not None:
            scores, places = scores[chosen], places[chosen]
        bar.offer(scores, places)
        found.append((scores, places))
    if missing and bar.limit is None:
        return None  # there are fewer values than rows are wanted
    left = [_NO_ROWS]
    for scores, places in found:
        chosen = bar.among(scores, places)
        left.append((places if chosen is None else places[chosen]) - rows.first_row)
    return np.sort(np.concatenate(left))


def _best_first(
    parts: list[RowPart], dtype: np.dtype[Any], downwards: bool
) -> list[tuple[RowPart, Any | None]]:
    """Return pages with what no score in them lies below: unknown ones, then those in order."""
    bounds = [part.bound(dtype, greatest=downwards) for part in parts]
    known = [(part, bound) for part, bound in zip(parts, bounds, strict=True) if bound is not None]
    unknown = [(part, None) for part, bound in zip(parts, bounds, strict=True) if bound is None]
    lows = np.array([bound for _, bound in known], dtype)
    if downwards:
        lows = _turned(lows)
    order = np.argsort(lows, kind="stable").tolist()
    return [*unknown, *((known[at][0], lows[at]) for at in order)]


def _scores(part: RowPart, dtype: np.dtype[Any], downwards: bool) -> tuple[Scores, Rows]:
    """Return the scores of rows that have a value, and their places."""
    array = normalised(part.values())
    places = part.places()
    numbers: Scores
    if pa.types.is_floating(array.type):
        numbers = raw_values(array, array.type.to_pandas_dtype())
    else:
        numbers = integers(array)
    gone = missing_rows(array)
    if gone is not None:
        numbers, places = numbers[~gone], places[~gone]
    numbers = numbers.astype(dtype, copy=False)
    return (_turned(numbers) if downwards else numbers), places


def _turned(scores: Scores) -> Scores:
    # Turning all bits over turns the order over, whatever the width and the sign.
    turned: Scores = -scores if scores.dtype.kind == "f" else ~scores
    return turned


def _score_dtype(schema: TableSchema, name: str) -> np.dtype[Any] | None:
    """Return what values of a column are compared as, in any unit; None for what is no number."""
    kind = schema.type_of(name)
    if pa.types.is_floating(kind):
        return np.dtype(np.float64)
    if pa.types.is_unsigned_integer(kind):
        return np.dtype(np.uint64)
    if pa.types.is_integer(kind) or is_temporal(kind):
        return np.dtype(np.int64)
    return None
