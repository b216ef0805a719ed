"""The dynamic filter of top-k: a threshold that rows of units to come have to reach.

``top_k``, and ``sort`` with ``head`` or ``tail``, enter here with batches that are not read yet.
Zone maps give the first threshold, where nothing filters rows: the k-th best bound of a page, since
every page has a row with it. Then it is the last of the k best rows that were met, on all keys.
Where keys are numbers, a kernel compares them as they are stored
(:mod:`tessel.clauses.stored_first_rows`). Otherwise the threshold is a predicate like any other:
it prunes pages by zone maps and is evaluated on stored integers; of the rows that pass, the keys
are read and ordered.

Which rows pass depends on the order of units, but no row of the answer is ever lost: a row is
dropped only where k rows that come before it are known to exist.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.clauses.grouped.reductions import is_numeric
from tessel.clauses.ordering import Missing, Ordering, Rows
from tessel.clauses.stored_first_rows import NumericLimit, array_of, stored_first_rows
from tessel.clauses.values import integers, normalised
from tessel.expression.build import col, lit
from tessel.expression.node import Expression
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.selected_range import SelectedPages
from tessel.store.manifest.selected_rows import SelectedRows

_FEW, _FEW_ROWS = 4, 1 << 14
"""Up to so many selected rows for each of the k, or up to so many in all, are ordered at once."""

_MOST_SHARED = 1 << 16
"""The keys of more rows are not held: each unit then knows only itself."""

_MOST_MET = 1 << 16
"""Once a task has met so many rows, they are put among the best of all before it goes on."""

_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class _Limit:
    """What a row must reach: k rows are known that do not come after it.

    Attributes
    ----------
    keys
        One row: the first keys of the ordering, or all, normalised.
    row
        The number in the symbol of a row with all of these keys, negative where later rows come
        first: of equal rows only those up to it pass. None where all of them pass.
    numbers
        The same for kernels; None where the first key is no number.
    """

    keys: tuple[pa.Array, ...]
    row: int | None
    numbers: NumericLimit | None = None


class TopRows:
    """The dynamic filter of the k rows that come first in an order.

    Parameters
    ----------
    later
        Whether of rows of equal keys the later ones come first.
    """

    spares_in_sequence = True

    def __init__(self, ordering: Ordering, count: int, *, later: bool = False) -> None:
        self._ordering = ordering
        self._count = count
        self._later = later
        self._limit: _Limit | None = None
        self._rows = _NO_ROWS
        self._keys: pa.Table | None = None
        self._bounds: dict[int, list[int | float]] = {}
        self._lock = threading.Lock()

    def narrow(self, batches: Sequence[Batch], units: Sequence[int]) -> Iterator[Batch | None]:
        """Drop rows that do not reach the threshold, and tighten it by those that are left."""
        self._look(batches)
        limit: NumericLimit | None = None
        met: list[tuple[Rows, pa.Table]] = []
        held = 0
        try:
            for batch, unit in zip(batches, units, strict=True):
                if limit is None and self._limit is not None:
                    limit = self._limit.numbers
                order, count = self._ordering, self._count
                found = stored_first_rows(batch, order, count, limit, later=self._later)
                if found is not None:
                    places, keys, reached = found
                    limit = reached or limit
                    met.append((batch.first_row + places, keys))
                    held += len(places)
                    if held > _MOST_MET:
                        self._learn_all(met)
                        limit, held = None, 0
                    yield batch.keep(places)
                    continue
                chosen = self._by_values(batch, unit)
                if chosen is not None:
                    self._learn(batch.first_row + chosen[0], chosen[1])
                    limit = None
                yield None if chosen is None else batch.keep(chosen[0])
        finally:  # what was given back is asked for later, also where a batch behind it fails
            self._learn_all(met)

    def still_needed(self, batch: Batch) -> Batch:
        """Keep those of the rows left of a batch that are among the best of all that were met."""
        if self._count > _MOST_SHARED:
            return batch
        with self._lock:
            best = -self._rows[::-1] if self._later else self._rows
        first = batch.first_row
        start, stop = np.searchsorted(best, (first, batch.source.pieces[0].row_stop))
        # All of its rows among the best are left of it, since nothing drops one that is.
        needed = best[start:stop] - first
        return batch if len(needed) == batch.rows_unpruned else batch.keep(needed)

    # --- inside -----------------------------------------------------------------------------------

    def _look(self, batches: Sequence[Batch]) -> None:
        """Learn from zone maps, where nothing filters rows: a page has a row with its best bound.

        So the k-th best bound is a threshold before any page is read.
        """
        name, downwards = self._ordering.by[0], self._ordering.descending[0]
        kind = batches[0].schema.type_of(name)
        if not is_numeric(kind) or not all(batch.bindings.keeps_rows for batch in batches):
            return
        own: dict[int, list[int | float]] = {}
        for batch in batches:
            pages = batch.pages(name)
            if pages is not None:
                own[batch.first_row] = pages.extremes(greatest=downwards).tolist()
        with self._lock:
            self._bounds.update(own)
            known = [each for some in self._bounds.values() for each in some]
            if self._keys is None and 0 < self._count <= len(known):
                bound = sorted(known, reverse=downwards)[self._count - 1]
                self._limit = _Limit((array_of(np.array([bound]), kind),), None, ((bound,), None))

    def _by_values(self, batch: Batch, unit: int) -> tuple[Rows, pa.Table] | None:
        """Return the first rows that reach the threshold, and their keys, from the keys alone."""
        names = [batch.columns[name] for name in self._ordering.by]
        rows = batch.rows_left(names, unit)
        if rows is None:
            return None
        if not self._count:
            return _NO_ROWS, batch.schema.select(self._ordering.by).empty()
        self._drop(rows, names)
        if len(rows) > max(_FEW * self._count, _FEW_ROWS):
            best = self._best_page(rows, names[0])
            if best is not None:
                places, keys = self._first(rows.within(best), names)
                self._learn(batch.first_row + places, keys)
                self._drop(rows, names)
        return self._first(rows, names)

    def _first(self, rows: SelectedRows, names: Sequence[str]) -> tuple[Rows, pa.Table]:
        """Return the first of some rows, ascending, and their keys, which are read."""
        keys = rows.values(names).rename_columns(list(self._ordering.by))
        first = np.sort(first_rows(keys, self._ordering, self._count, later=self._later))
        found = [normalised(column) for column in keys.take(arrow_array(first)).columns]
        return rows.places()[first], pa.table(found, names=keys.column_names)

    def _best_page(self, rows: SelectedRows, name: str) -> SelectedPages | None:
        """Return the page with the best bound, of those with at least k rows; None for all rows."""
        downwards = self._ordering.descending[0]
        pages = rows.pages(name)
        full = np.flatnonzero((pages.rows >= self._count) & pages.have_values)
        if not len(full) or pages.rows[full[0]] == len(rows):
            return None
        pages = pages.take(full)
        bounds, known = pages.bounds(greatest=downwards)
        if not known.any():
            return pages.take(np.arange(1))
        at = np.flatnonzero(known)
        best = np.argmax(bounds[at]) if downwards else np.argmin(bounds[at])
        return pages.take(at[best : best + 1])

    def _learn_all(self, met: list[tuple[Rows, pa.Table]]) -> None:
        """Tighten the threshold by rows of several batches, which are held no longer."""
        if met:
            rows, tables = zip(*met, strict=True)
            met.clear()
            self._learn(np.concatenate(rows), concat_tables(tables))

    def _learn(self, rows: Rows, keys: pa.Table) -> None:
        """Tighten the threshold by rows of the symbol, ascending; some may have been met before."""
        if not len(rows) or self._count > _MOST_SHARED:
            return
        rows = -rows if self._later else rows
        with self._lock:
            if self._keys is not None:
                rows = np.concatenate([self._rows, rows])
                keys = concat_tables([self._keys, keys])
            if (rows[1:] <= rows[:-1]).any():  # earlier rows come first, each once
                rows, at = np.unique(rows, return_index=True)
                keys = keys.take(arrow_array(at))
            first = first_rows(keys, self._ordering, self._count)
            kept = np.sort(first)
            self._rows, self._keys = rows[kept], keys.take(arrow_array(kept)).combine_chunks()
            if len(first) == self._count:
                last = int(first[-1])
                self._limit = _limit_of(keys.slice(last, 1).combine_chunks(), int(rows[last]))

    def _drop(self, rows: SelectedRows, names: Sequence[str]) -> None:
        """Drop rows that do not reach the threshold."""
        limit = self._limit
        if limit is None:
            return
        reaches = self._predicate(limit, names, ties=True)
        if limit.row is None:
            rows.filter(reaches)
            return
        passes = self._predicate(limit, names, ties=False)
        # Of equal rows those up to the row of the threshold pass, or those from it on.
        split = max(0, abs(limit.row) - rows.first_row + (not self._later))
        before, after = (passes, reaches) if self._later else (reaches, passes)
        rows.filter(before, stop=split)
        rows.filter(after, start=split)

    def _predicate(self, limit: _Limit, names: Sequence[str], *, ties: bool) -> Expression:
        """Return whether a row comes before the threshold, or, with ties, no later than it."""
        first = self._ordering.missing == "first"
        following: Expression | None = None
        for name, key, downwards in reversed(
            list(zip(names, limit.keys, self._ordering.descending, strict=False))
        ):
            column, value = col(name), lit(key[0])
            if key.null_count:
                equal = column.is_missing()
                comes_before = column < value if first else column.not_missing()
            else:
                equal = column == value
                comes_before = column > value if downwards else column < value
                if first:
                    comes_before = column.is_missing() | comes_before
            if following is not None:
                comes_before = comes_before | (equal & following)
            elif ties:
                comes_before = comes_before | equal
            following = comes_before
        assert following is not None
        return following


def _limit_of(keys: pa.Table, row: int) -> _Limit:
    """Return what a row asks for, given its keys and its number in the symbol."""
    last = tuple(column.chunk(0) for column in keys.columns)
    numbers: list[int | float] = []
    for key in last:
        if key.null_count or not is_numeric(key.type):
            break
        numbers.append(
            key[0].as_py() if pa.types.is_floating(key.type) else integers(key)[0].item()
        )
    if not numbers:
        return _Limit(last, row)
    return _Limit(last, row, (tuple(numbers), row if len(numbers) == len(last) else None))


def first_rows(table: pa.Table, ordering: Ordering, count: int, *, later: bool = False) -> Rows:
    """Return which rows come first, in order; of equal ones the earlier ones, or the later ones."""
    keys = table.select(ordering.by)
    turned = np.arange(table.num_rows, dtype=np.int64)[::-1]
    first = ordering.first(keys.take(arrow_array(turned)) if later else keys, count)
    first = np.arange(min(count, table.num_rows)) if first is None else first
    return turned[first] if later else first


def backwards(ordering: Ordering) -> Ordering:
    """Return the order that begins where another ends."""
    descending = tuple(not downwards for downwards in ordering.descending)
    missing: Missing = "first" if ordering.missing == "last" else "last"
    return dataclasses.replace(ordering, descending=descending, missing=missing)
