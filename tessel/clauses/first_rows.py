"""Rows that can be among the first of an order, found from the columns that order them.

``top_k`` enters here with a unit that is not read yet. The page that by its bounds holds the best
values says how good a row must be: the worst of as many rows as are wanted is a :class:`Bar`. Rows
that do not reach it are dropped as a filter drops them, by page tables first and then on what is
stored; what is left is ordered by all keys. Units of one run tell each other what they found, so
that later ones hardly touch a page.

Which rows are left depends on what other units knew at that time, but never loses one of the
answer: a row is dropped only where as many rows that come before it are known to exist.
"""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.ordering import Ordering, Rows
from tessel.clauses.values import missing_rows, plain
from tessel.errors import TesselError
from tessel.expression.build import col, lit
from tessel.expression.node import Expression
from tessel.store.manifest.selected_range import SelectedPage
from tessel.store.manifest.selected_rows import SelectedRows

__all__ = ["Bar", "keep_first"]

_FEW, _FEW_ROWS = 4, 1 << 14
"""Where no more rows are left, or for each that is wanted, they are ordered without a further look.
"""

_NO_ROWS = np.zeros(0, np.int64)


class Bar:
    """What a row must reach to be among the first; threads may look and raise it.

    Parameters
    ----------
    ordering
        What rows are ordered by. Only the first key is looked at; where there is no other, earlier
        rows of equal keys come first.

    Attributes
    ----------
    limit
        A value of the first key and the place in the symbol of a row that has it, so that as many
        rows as are wanted come no later; None before any are known. It only ever gets harder to
        reach.
    """

    def __init__(self, ordering: Ordering) -> None:
        self.limit: tuple[pa.Scalar, int] | None = None
        self._first_key = ordering.first_key
        self._lock = threading.Lock()

    def offer(self, value: pa.Scalar, row: int) -> None:
        """Raise the limit to a row up to which as many rows are known as are wanted."""
        with self._lock:
            known = self.limit
            if known is None or self._comes_before((value, row), known):
                self.limit = value, row

    def _comes_before(self, one: tuple[pa.Scalar, int], other: tuple[pa.Scalar, int]) -> bool:
        pair = (one, other) if one[1] < other[1] else (other, one)
        values = arrow_array([each[0] for each in pair], one[0].type)
        swapped = self._first_key.order(pa.table({self._first_key.by[0]: values})) is not None
        return (pair[0] is one) is not swapped


def keep_first(rows: SelectedRows, ordering: Ordering, count: int, bar: Bar) -> None:
    """Leave those rows that can be among the first of all units, in their own order.

    Parameters
    ----------
    rows
        Of one unit, not read yet; afterwards no more than ``count``.
    ordering
        What rows are ordered by.
    count
        How many are wanted of all units.
    bar
        What the units of this run know of one another; a new one where a unit knows only itself.
    """
    if not count:
        rows.keep(_NO_ROWS)
        return
    key = ordering.first_key
    if ordering.missing == "last" or not any(p.has_missing for p in rows.parts(key.by[0])):
        if bar.limit is not None:
            _drop(rows, ordering, *bar.limit)
        if len(rows) > max(_FEW * count, _FEW_ROWS) and _seed(rows, key, count, bar):
            assert bar.limit is not None
            _drop(rows, ordering, *bar.limit)
    if len(rows) <= count:
        return
    table, places = rows.values(ordering.by), rows.places()
    chosen = ordering.first(table, count)
    chosen = np.arange(count) if chosen is None else chosen
    _raise(table.column(key.by[0]), places, chosen, rows, key, bar)
    rows.keep(np.sort(places[chosen]))


def _seed(rows: SelectedRows, key: Ordering, count: int, bar: Bar) -> bool:
    """Find a limit in the page that promises most, of those that have as many rows as wanted."""
    name, downwards = key.by[0], key.descending[0]
    best: SelectedPage | None = None
    for part in rows.parts(name):
        if len(part) < count or not part.has_values:
            continue
        if best is None:
            best = part
            continue
        bound, known = part.bound(greatest=downwards), best.bound(greatest=downwards)
        if known is None or bound is None:
            continue
        if bound > known if downwards else bound < known:
            best = part
    if best is None or len(best) == len(rows):
        return False
    values = pa.chunked_array([best.values()])
    chosen = key.first(pa.table({name: values}), count)
    chosen = np.arange(count) if chosen is None else chosen
    return _raise(values, best.places(), chosen, rows, key, bar)


def _raise(
    values: pa.ChunkedArray,
    places: Rows,
    chosen: Rows,
    rows: SelectedRows,
    key: Ordering,
    bar: Bar,
) -> bool:
    """Offer the last of chosen rows; False where it misses a value."""
    own = values.take(arrow_array(chosen))
    order = key.order(pa.table({key.by[0]: own}))
    last = len(chosen) - 1 if order is None else int(order[-1])
    value = plain(own.slice(last, 1))
    if missing_rows(value) is not None:
        return False
    bar.offer(value[0], rows.first_row + int(places[chosen[last]]))
    return True


def _drop(rows: SelectedRows, ordering: Ordering, value: pa.Scalar, row: int) -> None:
    """Drop rows that do not reach a limit."""
    try:
        reaches, passes = _predicates(ordering, value)
    except TesselError:
        return  # no literal of this type: rows are compared when they are read
    # Of equal keys the earlier row comes first, where no other key decides.
    alone = len(ordering.by) == 1
    start = max(0, row + 1 - rows.first_row) if alone else None
    rows.filter(reaches, stop=start)
    if start is not None:
        rows.filter(passes, start=start)


def _predicates(ordering: Ordering, value: pa.Scalar) -> tuple[Expression, Expression]:
    """Return that a row comes no later than a value, and that it comes before it."""
    column, bound = col(ordering.by[0]), lit(value)
    if ordering.descending[0]:
        return column >= bound, column > bound
    return column <= bound, column < bound
