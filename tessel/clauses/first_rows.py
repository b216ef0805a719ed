"""Top-k by a threshold on the first key, for units that are not read yet.

``top_k`` enters here where stored integers do not suffice. The page with the best bounds gives the
first threshold: the last of the k best rows in it (:class:`Threshold`). Rows that do not reach the
threshold are dropped by a filter, which prunes pages by zone maps and then evaluates on stored
integers; the rows that pass are ordered by all keys. The threshold is a dynamic filter: units of
one run share it, so that later ones hardly touch a page.

Which rows pass depends on the order of units, but no row of the answer is ever lost: a row is
dropped only where k rows that come before it are known to exist.
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

__all__ = ["Threshold", "keep_first"]

_FEW, _FEW_ROWS = 4, 1 << 14
"""Up to so many selected rows for each of the k, or up to so many in all, are ordered at once."""

_NO_ROWS = np.zeros(0, np.int64)


class Threshold:
    """The top-k threshold that a row must reach; many threads read and tighten it.

    Parameters
    ----------
    ordering
        The order of rows. Only its first key is compared; where there is no other, earlier rows of
        equal keys come first.

    Attributes
    ----------
    limit
        The first key of a row and its number in the symbol, such that k rows come no later; None
        before k rows were seen. It only ever gets harder to reach.
    """

    def __init__(self, ordering: Ordering) -> None:
        self.limit: tuple[pa.Scalar, int] | None = None
        self._first_key = ordering.first_key
        self._lock = threading.Lock()

    def tighten(self, value: pa.Scalar, row: int) -> None:
        """Tighten the limit to a row up to which there are k rows."""
        with self._lock:
            known = self.limit
            if known is None or self._comes_before((value, row), known):
                self.limit = value, row

    def _comes_before(self, one: tuple[pa.Scalar, int], other: tuple[pa.Scalar, int]) -> bool:
        pair = (one, other) if one[1] < other[1] else (other, one)
        values = arrow_array([each[0] for each in pair], one[0].type)
        swapped = self._first_key.order(pa.table({self._first_key.by[0]: values})) is not None
        return (pair[0] is one) is not swapped


def keep_first(rows: SelectedRows, ordering: Ordering, count: int, threshold: Threshold) -> None:
    """Narrow a selection to the rows that can be among the first k of all units.

    Parameters
    ----------
    rows
        The selection of one unit; afterwards no more than ``count`` rows.
    ordering
        The order of rows.
    count
        The k of top-k.
    threshold
        Shared by the units of a run; a new one where a unit knows only itself.
    """
    if not count:
        rows.keep(_NO_ROWS)
        return
    key = ordering.first_key
    if ordering.missing == "last" or not any(p.has_missing for p in rows.parts(key.by[0])):
        if threshold.limit is not None:
            _drop(rows, ordering, *threshold.limit)
        if len(rows) > max(_FEW * count, _FEW_ROWS) and _seed(rows, key, count, threshold):
            assert threshold.limit is not None
            _drop(rows, ordering, *threshold.limit)
    if len(rows) <= count:
        return
    table, places = rows.values(ordering.by), rows.places()
    chosen = ordering.first(table, count)
    chosen = np.arange(count) if chosen is None else chosen
    _tighten(table.column(key.by[0]), places, chosen, rows, key, threshold)
    rows.keep(np.sort(places[chosen]))


def _seed(rows: SelectedRows, key: Ordering, count: int, threshold: Threshold) -> bool:
    """Tighten the threshold by the page with the best bounds, of those with at least k rows."""
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
    return _tighten(values, best.places(), chosen, rows, key, threshold)


def _tighten(
    values: pa.ChunkedArray,
    places: Rows,
    chosen: Rows,
    rows: SelectedRows,
    key: Ordering,
    threshold: Threshold,
) -> bool:
    """Tighten the threshold to the last of chosen rows; return False where its key is missing."""
    own = values.take(arrow_array(chosen))
    order = key.order(pa.table({key.by[0]: own}))
    last = len(chosen) - 1 if order is None else int(order[-1])
    value = plain(own.slice(last, 1))
    if missing_rows(value) is not None:
        return False
    threshold.tighten(value[0], rows.first_row + int(places[chosen[last]]))
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
    """Return two predicates: a row comes no later than a value, and it comes before it."""
    column, bound = col(ordering.by[0]), lit(value)
    if ordering.descending[0]:
        return column >= bound, column > bound
    return column <= bound, column < bound
