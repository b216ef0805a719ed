"""Top-k by a threshold on all keys, on stored integers.

``top_k`` enters here with a unit that is not read yet, and with the filters and computed columns
before it. All keys of a row become one integer, or one double. A kernel finds the rows with the k
least, page by page, the page with the best bounds first, and skips pages whose bounds do not reach
the threshold. Units of one run share the threshold (:class:`KeyThreshold`).

Keys that are text, that miss a value, or that are too wide together for one integer are left to
:mod:`tessel.clauses.first_rows`, which reads them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.grouped.reductions import is_numeric
from tessel.clauses.ordering import Ordering
from tessel.clauses.stored_numbers import decimal_integers
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram, Number
from tessel.expression.schema import TableSchema
from tessel.kernels.best_rows import NO_LIMIT, BestRows, best_rows, ordered_doubles
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.opened_batch import OpenedBatch
from tessel.store.manifest.selected_range import SelectedPage

__all__ = ["KeyThreshold", "stored_first_rows"]

_MOST_IN_HEAP = 1 << 13
"""More than so many rows are faster partitioned than put into a heap."""

_MOST_TOGETHER = 1 << 8
"""Up to so many rows of several row ranges are ordered together to tighten the threshold."""

_NO_ROWS = np.zeros(0, np.int64)
_WIDEST = 1 << 62
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1

Keys = tuple[int | float, ...]
"""The keys of a row as numbers that come the earlier, the less they are."""


class KeyThreshold:
    """The top-k threshold on all keys; many threads read and tighten it.

    Attributes
    ----------
    limit
        The keys of a row and its number in the symbol, such that k rows come no later; None before
        k rows were seen. It only ever gets harder to reach. Row numbers are negative where later
        rows come first.
    """

    def __init__(self) -> None:
        self.limit: tuple[Keys, int] | None = None
        self._lock = threading.Lock()
        self._chosen: dict[int, _Chosen] = {}
        self._best: list[tuple[Keys, int]] = []

    def tighten(self, keys: Keys, row: int) -> None:
        """Tighten the limit to a row up to which there are k rows."""
        with self._lock:
            if self.limit is None or (keys, row) < self.limit:
                self.limit = keys, row

    def add(self, first_row: int, chosen: _Chosen, count: int) -> None:
        """Add the rows that were chosen of the row range that begins at row ``first_row``.

        For a small k the best rows of several row ranges together tighten the limit.
        """
        self._chosen[first_row] = chosen
        if count > _MOST_TOGETHER:
            return
        rows = chosen.ranked()
        with self._lock:
            # Rows of a row range may be added twice, those of its best page first.
            self._best = sorted({*self._best, *rows})[:count]
            if len(self._best) == count and (self.limit is None or self._best[-1] < self.limit):
                self.limit = self._best[-1]

    def still_needed(self, first_row: int) -> NDArray[np.int64] | None:
        """Return the rows of a row range that still reach the limit; None where all may.

        The row range is forgotten after that.
        """
        chosen = self._chosen.pop(first_row, None)
        if chosen is None or self.limit is None:
            return None
        return chosen.before(*self.limit)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The chosen rows of one row range, with their keys.

    Attributes
    ----------
    places
        Their row numbers, ascending, int64.
    keys
        Their keys as ``key`` makes integers of them, int64.
    rows
        Row numbers to order rows of equal keys, int64; counted from ``start`` in the symbol, and
        negative where later ones come first.
    """

    places: NDArray[np.int64]
    keys: NDArray[np.int64]
    rows: NDArray[np.int64]
    key: _FloatKey | _IntegerKey
    start: int

    def ranked(self) -> list[tuple[Keys, int]]:
        """Return the keys of the rows, and their row numbers in the symbol."""
        found = zip(self.keys.tolist(), self.rows.tolist(), strict=True)
        return [(self.key.values(key), self.start + row) for key, row in found]

    def before(self, keys: Keys, row: int) -> NDArray[np.int64]:
        """Return the rows that come no later than a row with such keys."""
        key, limit = self.key.limit(keys, row, self.start)
        found: NDArray[np.int64] = self.places[
            (self.keys < key) | ((self.keys == key) & (self.rows < limit))
        ]
        return found


@dataclass(frozen=True)
class _Part:
    """One key as integers of a program that come the earlier, the less they are, from 0 on.

    Attributes
    ----------
    number
        What the program computes.
    low, high
        The integers of the least and of the greatest value.
    places
        Decimal places of the integers.
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

    def value(self, place: int) -> int | float:
        """Return the value of an integer, negative where the greatest comes first."""
        whole = self.high - place if self.downwards else self.low + place
        value = whole / 10**self.places if self.places else whole
        return -value if self.downwards else value

    def place(self, value: int | float) -> tuple[int, bool]:
        """Return the last integer that comes no later than such a value, and whether it is it.

        It may lie outside of what there is, and one further than it must where it is not it.
        """
        scale = 10**self.places
        whole = round((-value if self.downwards else value) * scale)
        place = self.high - whole if self.downwards else whole - self.low
        if self.value(place) == value:
            return place, True
        return place + 1, False


def stored_first_rows(
    rows: Batch, ordering: Ordering, count: int, threshold: KeyThreshold, *, later: bool = False
) -> NDArray[np.int64] | None:
    """Return where rows lie that can be among the first of all units, ascending.

    Parameters
    ----------
    rows
        Of one unit, not read yet; they stay as they are.
    ordering
        What rows are ordered by.
    count
        How many are wanted of all units.
    threshold
        What the units of this run know of one another; a new one where a unit knows only itself.
    later
        Whether of rows of equal keys the later ones come first.

    Returns
    -------
    numpy.ndarray or None
        int64, at most ``count`` places. None where keys need values.
    """
    if not 0 < count <= _MOST_IN_HEAP or not all(
        is_numeric(rows.schema.type_of(name)) for name in ordering.by
    ):
        return None
    parts = rows.parts(ordering.by[0])
    if parts is None or len(parts) < 2:
        return _found(rows, ordering, count, threshold, parts, later)
    if any(part.has_missing for part in parts):
        return None
    parts.sort(key=lambda part: _promise(part, ordering))
    if threshold.limit is None:
        # The best page says how good a row must be: others are hardly looked at.
        seed = next((part for part in parts if len(part) >= count), parts[0])
        if _found(rows.within([seed]), ordering, count, threshold, [seed], later) is None:
            return None
    if threshold.limit is not None:
        left = [part for part in parts if _may_reach(part, ordering, rows, *threshold.limit, later)]
        if not left and not rows.bindings.may_raise:
            return np.zeros(0, np.int64)
        parts = left or parts[:1]  # whether a row raises is seen where the rows are opened
    return _found(rows.within(parts), ordering, count, threshold, parts, later)


def _promise(part: SelectedPage, ordering: Ordering) -> float:
    """Return what the first key of no row comes before, as a number that is the less, the better.

    It may be rounded.
    """
    bound = part.bound(greatest=ordering.descending[0])
    if bound is None:
        return -math.inf
    return -float(bound) if ordering.descending[0] else float(bound)


def _may_reach(
    part: SelectedPage, ordering: Ordering, rows: Batch, keys: Keys, row: int, later: bool
) -> bool:
    """Return whether a part may hold a row with such keys, or rows that come before it."""
    bound = part.bound(greatest=ordering.descending[0])
    if bound is None:
        return True
    best = -bound.item() if ordering.descending[0] else bound.item()
    if len(ordering.by) > 1:
        return bool(best <= keys[0])
    first = rows.first_row
    lead = 1 - first - part.selected.high if later else first + part.selected.low
    return bool((best, lead) <= (keys[0], row))


def _found(
    rows: Batch,
    ordering: Ordering,
    count: int,
    threshold: KeyThreshold,
    parts: Sequence[SelectedPage] | None,
    later: bool,
) -> NDArray[np.int64] | None:
    """Choose the best rows, page by page where pages are given, and tighten the threshold."""

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
    program, ranges = opened.bound(unbound), _ranges(opened, ordering, key, parts, before)
    found: list[BestRows] = []
    for span in opened.spans:
        own = [each for each in ranges if span.start <= each[0] < span.stop]
        if not own:
            continue
        best = best_rows(
            span,
            program,
            own,
            select=select,
            key=key.register,
            downwards=key.downwards,
            count=count,
            limit=NO_LIMIT if threshold.limit is None else key.limit(*threshold.limit, start),
            later=later,
        )
        if best.last is not None:
            last, row = best.last
            threshold.tighten(key.values(last), start + row)
        found.append(best)
    inside = np.concatenate([_NO_ROWS, *(best.rows for best in found)])
    if len(inside):
        signed = -inside if later else inside
        keys = np.concatenate([best.keys for best in found])
        if len(inside) > count:  # several spans, each of which found its own
            left = np.sort(np.lexsort((signed, keys))[:count])
            inside, signed, keys = inside[left], signed[left], keys[left]
        threshold.add(rows.first_row, _Chosen(inside + before, keys, signed, key, start), count)
    return inside + before


def _ranges(
    opened: OpenedBatch[_Plan],
    ordering: Ordering,
    key: _FloatKey | _IntegerKey,
    parts: Sequence[SelectedPage] | None,
    before: int,
) -> list[tuple[int, int, int]]:
    """Return ranges of rows of the segment, in the order of the parts, with bounds of keys."""
    if parts is None:
        return [(span.start, span.stop, _LEAST) for span in opened.spans]
    found: list[tuple[int, int, int]] = []
    for part in parts:
        bound = part.bound(greatest=ordering.descending[0])
        low, high = part.selected.low - before, part.selected.high - before
        found.append((low, high, _LEAST if bound is None else key.least(bound)))
    return found


class _FloatKey:
    """One key of doubles."""

    def __init__(self, number: Number, downwards: bool) -> None:
        self.register = ~number.register
        self.downwards = downwards

    def values(self, key: int) -> Keys:
        ordered = ~key if self.downwards else key
        bits = ordered ^ (ordered >> 63 & _GREATEST)
        value = float(np.array([bits]).view(np.float64)[0])
        return (-value if self.downwards else value,)

    def limit(self, keys: Keys, row: int, first_row: int) -> tuple[int, int]:
        """Return what comes after a row of the symbol, and after nothing that comes later."""
        value = float(-keys[0] if self.downwards else keys[0])
        found = ordered_doubles(np.array([value]), downwards=self.downwards)
        return int(found[0]), row - first_row + 1

    def least(self, bound: Any) -> int:
        value = float(bound)
        return self.limit((-value if self.downwards else value,), 0, 0)[0]


class _IntegerKey:
    """Keys of integers, in one."""

    downwards = False

    def __init__(self, parts: Sequence[_Part], register: int) -> None:
        self.register = register
        self._parts = parts

    def values(self, key: int) -> Keys:
        found: list[int | float] = []
        for part in reversed(self._parts):
            key, place = divmod(key, part.span)
            found.insert(0, part.value(place))
        return tuple(found)

    def limit(self, keys: Keys, row: int, first_row: int) -> tuple[int, int]:
        found = 0
        decided = False
        for part, value in zip(self._parts, keys, strict=True):
            if decided:
                found = found * part.span + part.span - 1
                continue
            place, same = part.place(value)
            # Where no row has this value, whatever follows, rows come before or they do not.
            decided = not (same and 0 <= place < part.span)
            found = found * part.span + min(max(place, -1), part.span - 1)
        return found, _GREATEST if decided else row - first_row + 1

    def least(self, bound: Any) -> int:
        first = self._parts[0]
        value = bound.item()
        place, same = first.place(-value if first.downwards else value)
        rest = math.prod(part.span for part in self._parts[1:])
        return (place if same else place - 2) * rest


_Plan = tuple[_FloatKey | _IntegerKey, int | None, UnboundProgram]
"""The key, the truth register of the selected rows, and the program that computes both."""


def _float_key(program: BlockProgram, ordering: Ordering, schema: TableSchema) -> _FloatKey | None:
    """Return the key where it is one, of doubles that are no decimals of one scale."""
    if len(ordering.by) > 1:
        return None
    (name,) = ordering.by
    kind = schema.type_of(name)
    if not is_numeric(kind) or decimal_integers(program, name, kind) is not None:
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
    kind = schema.type_of(name)
    if not is_numeric(kind):
        return None
    decimal = decimal_integers(program, name, kind)
    number, places = (program.number(name), 0) if decimal is None else decimal
    if number is None or number.known is not None or number.is_float:
        return None
    low, high = int(number.low), int(number.high)
    if high - low >= _WIDEST:
        return None
    distance = program.mirrored(number) if downwards else program.shifted(number, -low)
    return _Part(distance, low, high, places, downwards)
