"""The first rows in an order by stored integers: what the kernel of top-k is asked.

The dynamic filter of top-k (:class:`~tessel.clauses.top_rows.TopRows`) enters here with a batch
that is not read yet, and with the filters and computed columns before it. All keys of a row become
one integer, or one double. A kernel finds the rows with the k least, page by page, the page with
the best bounds first, and skips pages whose bounds do not reach the threshold.

Keys that are text, that miss a value, or that are too wide together for one integer are left to
the caller, which reads them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.grouped.reductions import is_numeric
from tessel.clauses.ordering import Ordering, Rows
from tessel.clauses.stored_numbers import decimal_integers
from tessel.expression.block_columns import Number
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.expression.schema import TableSchema
from tessel.kernels.best_rows import NO_LIMIT, BestRows, RowKey, best_rows, ordered_doubles
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.lazy_columns import OpenedBatch
from tessel.store.manifest.selected_range import SelectedPages

_MOST_IN_HEAP = 1 << 13
"""More than so many rows are faster partitioned than put into a heap."""

_NO_ROWS = np.zeros(0, np.int64)
_WIDEST = 1 << 62
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1

Keys = tuple[int | float, ...]

NumericLimit = tuple[Keys, int | None]
"""The first keys of a threshold as numbers, and the row of it; see ``Limit``."""


@dataclass(frozen=True)
class _Part:
    """One key as integers of a program that come the earlier, the less they are, from 0 on.

    Attributes
    ----------
    low, high
        The integers of the least and of the greatest value.
    downwards
        Whether the greatest comes first.
    """

    number: Number
    low: int
    high: int
    places: int
    downwards: bool

    @property
    def span(self) -> int:
        return self.high - self.low + 1

    def values(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of integers."""
        if self.high > _GREATEST:
            places = places.view(np.uint64)
        whole: NDArray[Any] = self.high - places if self.downwards else places + self.low
        return whole / float(10**self.places) if self.places else whole

    def place(self, value: int | float) -> tuple[int, bool]:
        """Return the last integer that comes no later than a value, and whether it is its own.

        It may lie outside of what there is, and one further than it must where it is not.
        """
        if math.isinf(value):  # of a unit whose values are not integers
            return (self.span if (value > 0) != self.downwards else -1), False
        whole = round(value * 10**self.places)
        place = self.high - whole if self.downwards else whole - self.low
        own = whole / 10**self.places if self.places else whole
        return (place, True) if own == value else (place + 1, False)


def stored_first_rows(
    rows: Batch,
    ordering: Ordering,
    count: int,
    limit: NumericLimit | None,
    *,
    later: bool,
) -> tuple[Rows, pa.Table, NumericLimit | None] | None:
    """Return where rows lie that can be among the first of all units, and their keys.

    Parameters
    ----------
    rows
        Of one unit, not read yet; they stay as they are.
    limit
        What a row must reach; None where that is not known.
    later
        Whether of rows of equal keys the later ones come first.

    Returns
    -------
    rows : numpy.ndarray
        int64, ascending, at most ``count`` places.
    keys : pyarrow.Table
        Their keys.
    limit : tuple or None
        What a row must reach by these rows; None where they say nothing new. None in place of all
        three where keys need values.
    """
    if not 0 < count <= _MOST_IN_HEAP or not all(
        is_numeric(rows.schema.type_of(name)) for name in ordering.by
    ):
        return None
    pages, downwards = rows.pages(ordering.by[0]), ordering.descending[0]
    if pages is not None and len(pages) > 1:
        if pages.has_missing:
            return None
        bounds, known = pages.bounds(greatest=downwards)
        best = -bounds.astype(np.float64) if downwards else bounds.astype(np.float64)  # rounded
        pages = pages.take(np.argsort(np.where(known, best, -np.inf), kind="stable"))
        if limit is None:
            # The best page says how good a row must be: others are hardly looked at.
            seed = pages.take(np.argmax(pages.rows >= count, keepdims=True))
            found = _found(rows.within(seed), ordering, count, None, seed, later)
            if found is None:
                return None
            limit = found[2]
        if limit is not None:
            left = np.flatnonzero(_may_reach(pages, ordering, rows, limit, later))
            if not len(left) and not rows.bindings.may_raise:
                return _NO_ROWS, rows.schema.select(ordering.by).empty(), None
            # Whether a row raises is seen where the rows are opened.
            pages = pages.take(left if len(left) else np.arange(1))
        rows = rows.within(pages)
    return _found(rows, ordering, count, limit, pages, later)


def _may_reach(
    pages: SelectedPages, ordering: Ordering, rows: Batch, limit: NumericLimit, later: bool
) -> NDArray[np.bool_]:
    """Return a mask: which pages may hold rows that reach a limit."""
    bounds, known = pages.bounds(greatest=ordering.descending[0])
    (best, *_), row = limit
    better: NDArray[np.bool_] = bounds > best if ordering.descending[0] else bounds < best
    equal: NDArray[np.bool_] = bounds == best
    if row is not None and len(ordering.by) == 1:
        first = rows.first_row
        equal &= (1 - first - pages.high if later else first + pages.low) <= row
    return ~known | better | equal


def _found(
    rows: Batch,
    ordering: Ordering,
    count: int,
    limit: NumericLimit | None,
    pages: SelectedPages | None,
    later: bool,
) -> tuple[Rows, pa.Table, NumericLimit | None] | None:
    """Choose the best rows, page by page where these are known; see `stored_first_rows`."""

    def plan(program: BlockProgram, select: int | None) -> _Plan | None:
        key: _FloatKey | _IntegerKey | None = _float_key(program, ordering, rows.schema)
        key = key or _integer_key(program, ordering, rows.schema)
        return None if key is None else (key, select, program.program())

    opened = rows.open(ordering.by, ("top-k", ordering), plan, exact=True)
    if opened is None:
        return None
    key, select, unbound = opened.plan
    before = rows.first_place - opened.spans[0].start
    start = -(rows.first_row + before) if later else rows.first_row + before
    program, ranges = opened.bound(unbound), _ranges(opened, ordering, key, pages, before)
    reached = NO_LIMIT if limit is None else key.limit(*limit, start)
    last: RowKey | None = None
    found: list[BestRows] = []
    for span in opened.spans:
        own = ranges[(span.start <= ranges[:, 0]) & (ranges[:, 0] < span.stop)]
        if not len(own):
            continue
        best = best_rows(
            span,
            program,
            own,
            select=select,
            key=key.register,
            downwards=key.downwards,
            count=count,
            limit=reached,
            later=later,
        )
        last = best.last or last
        reached = last or reached  # what comes after it is not found
        found.append(best)
    inside = np.concatenate([_NO_ROWS, *(best.rows for best in found)])
    keys = np.concatenate([_NO_ROWS, *(best.keys for best in found)])
    if len(inside) > count:  # several spans, each of which found its own
        left = np.sort(np.lexsort((-inside if later else inside, keys))[:count])
        inside, keys = inside[left], keys[left]
    columns = zip(ordering.by, key.values(keys), strict=True)
    table = pa.table({n: array_of(each, rows.schema.type_of(n)) for n, each in columns})
    if last is None:
        return inside + before, table, None
    numbers = tuple(each.item() for each in key.values(np.array([last[0]])))
    return inside + before, table, (numbers, start + last[1])


def array_of(numbers: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return numbers as they are stored as values of a numeric or temporal type."""
    number = "f" if pa.types.is_floating(kind) else numbers.dtype.kind
    array = arrow_array(numbers.astype(np.dtype(f"{number}{kind.bit_width // 8}")))
    return array if array.type == kind else array.view(kind)


def _ranges(
    opened: OpenedBatch[_Plan],
    ordering: Ordering,
    key: _FloatKey | _IntegerKey,
    pages: SelectedPages | None,
    before: int,
) -> NDArray[np.int64]:
    """Return ranges of rows of the segment, in the order of the pages, with bounds of keys."""
    if pages is None:
        ends = [(span.start, span.stop, _LEAST) for span in opened.spans]
        return np.array(ends, np.int64).reshape(-1, 3)
    least = np.full(len(pages), _LEAST)
    bounds, known = pages.bounds(greatest=ordering.descending[0])
    least[known] = key.least(bounds[known])
    return np.stack([pages.low - before, pages.high - before, least], axis=1)


class _FloatKey:
    """One key of doubles."""

    def __init__(self, number: Number, downwards: bool) -> None:
        self.register = ~number.register
        self.downwards = downwards

    def values(self, keys: NDArray[np.int64]) -> list[NDArray[Any]]:
        ordered = ~keys if self.downwards else keys
        return [(ordered ^ (ordered >> 63 & _GREATEST)).view(np.float64)]

    def limit(self, keys: Keys, row: int | None, first_row: int) -> RowKey:
        """Return what comes after a row of the symbol, and after nothing that comes later."""
        found = ordered_doubles(np.array([keys[0]], np.float64), downwards=self.downwards)
        return int(found[0]), _GREATEST if row is None else row - first_row + 1

    def least(self, bounds: NDArray[Any]) -> NDArray[np.int64]:
        return ordered_doubles(bounds.astype(np.float64), downwards=self.downwards)


class _IntegerKey:
    """Keys of integers, in one."""

    downwards = False

    def __init__(self, parts: Sequence[_Part], register: int) -> None:
        self.register = register
        self._parts = parts

    def values(self, keys: NDArray[np.int64]) -> list[NDArray[Any]]:
        found: list[NDArray[Any]] = []
        for part in reversed(self._parts):
            keys, places = np.divmod(keys, part.span)
            found.insert(0, part.values(places))
        return found

    def limit(self, keys: Keys, row: int | None, first_row: int) -> RowKey:
        found = 0
        # Where no row has this value, or all of one may do, it matters no more what follows.
        decided = False
        for at, part in enumerate(self._parts):
            if decided or at == len(keys):
                decided = True
                found = found * part.span + part.span - 1
                continue
            place, same = part.place(keys[at])
            decided = not (same and 0 <= place < part.span)
            found = found * part.span + min(max(place, -1), part.span - 1)
        return found, _GREATEST if decided or row is None else row - first_row + 1

    def least(self, bounds: NDArray[Any]) -> NDArray[np.int64]:
        first, rest = self._parts[0], math.prod(part.span for part in self._parts[1:])
        found = map(first.place, bounds.tolist())
        return np.array([(place if same else place - 2) * rest for place, same in found], np.int64)


_Plan = tuple[_FloatKey | _IntegerKey, int | None, UnboundProgram]
"""The key, the truth register of the selected rows, and the program that computes both."""


def _float_key(program: BlockProgram, ordering: Ordering, schema: TableSchema) -> _FloatKey | None:
    """Return the key where it is one, of doubles that are no decimals of one scale."""
    if len(ordering.by) > 1:
        return None
    (name,) = ordering.by
    kind = schema.type_of(name)
    if decimal_integers(program, name, kind) is not None:
        return None
    number = program.number(name)
    if number is None or number.known is not None or not number.is_float:
        return None
    return _FloatKey(number, ordering.descending[0])


def _integer_key(
    program: BlockProgram, ordering: Ordering, schema: TableSchema
) -> _IntegerKey | None:
    parts: list[_Part] = []
    for name, downwards in zip(ordering.by, ordering.descending, strict=True):
        part = _part(program, name, schema, downwards)
        if part is None:
            return None
        parts.append(part)
    if math.prod(part.span for part in parts) > _WIDEST:
        return None
    combined = parts[0].number.register
    for part in parts[1:]:
        combined = program.combined(combined, part.span, part.number.register)
    return _IntegerKey(parts, combined)


def _part(program: BlockProgram, name: str, schema: TableSchema, downwards: bool) -> _Part | None:
    decimal = decimal_integers(program, name, schema.type_of(name))
    number, places = (program.number(name), 0) if decimal is None else decimal
    if number is None or number.known is not None or number.is_float:
        return None
    low, high = int(number.low), int(number.high)
    if high - low >= _WIDEST:
        return None
    distance = program.mirrored(number) if downwards else program.shifted(number, -low)
    return _Part(distance, low, high, places, downwards)
