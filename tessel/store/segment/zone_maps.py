"""Zone maps: the bounds of a page in two 8-byte slots, compared as arrays of one dtype by kind.

The file writer makes them, readers prune with them. The rules are those of ``docs/format.md``: a
slot never claims more than it knows, and a bound that was cut or clamped says so.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import numpy_array
from tessel.lazy import dataclass
from tessel.store.encodings.codes import BYTE_KINDS, PageFlag, ValueKind
from tessel.store.encodings.values import PhysicalValues
from tessel.store.segment.records import LONGEST_PREFIX

if TYPE_CHECKING:
    from tessel.store.segment.paging import PageInput

Bound = int | float | bytes
"""Of text, binary and fixed bytes: bytes; of floats: float; otherwise an integer."""

_UNORDERED = frozenset({ValueKind.NONE, ValueKind.OFFSETS})
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_KEY_BYTES = 8


def zone_dtype(kind: ValueKind) -> np.dtype[Any]:
    """Return the dtype that the slots of a kind are compared in."""
    if kind in (ValueKind.SIGNED, ValueKind.DECIMAL):
        return np.dtype("<i8")
    return np.dtype("<f8" if kind == ValueKind.FLOAT else "<u8")


@dataclass(frozen=True, slots=True)
class PageBounds:
    """What is known of the values of a page.

    Attributes
    ----------
    minimum, maximum
        Not less and not greater than any value that is neither null nor NaN; None without one.
        Decimals are whole, text is uncut.
    nans
        NaNs that are not null.
    ascending
        Whether values never decrease and none is null or NaN.
    """

    minimum: Bound | None
    maximum: Bound | None
    nans: int
    ascending: bool


class DictionaryBounds:
    """The order of the values of a dictionary, so that a page is bounded by its codes."""

    def __init__(self, dictionary: PhysicalValues) -> None:
        keys = _comparable(dictionary, None)
        order = numpy_array(pc.array_sort_indices(keys)) if isinstance(keys, pa.Array) else None
        if order is None:
            order = np.argsort(keys, kind="stable")
        self._values = keys
        self._order = order
        # Narrow, so that a page of them stays in the cache.
        self._ranks = np.empty(len(order), np.uint16 if len(order) <= 1 << 16 else np.uint32)
        self._ranks[order] = np.arange(len(order))
        self._nans = np.zeros(len(order), np.bool_)
        if dictionary.kind == ValueKind.FLOAT:
            self._nans = np.isnan(dictionary.data)
        self._has_nans = bool(self._nans.any())

    def of(self, page: PageInput) -> PageBounds:
        """Return the bounds of a page that has codes."""
        codes = page.values.codes
        if codes is None or page.null_count == page.rows:
            return PageBounds(None, None, 0, False)
        count = 0
        if self._has_nans:
            nans = self._nans[codes]
            if page.validity is not None:
                nans &= page.validity
            count = int(np.count_nonzero(nans))
        ranks = self._ranks[codes]
        ascending = not count and not page.null_count and bool(np.all(ranks[1:] >= ranks[:-1]))
        # Null slots hold codes of values that are there, so they need not be left out.
        if count:
            ranks = ranks[~self._nans[codes]]
        if not len(ranks):
            return PageBounds(None, None, count, False)
        low, high = self._order[[ranks.min(), ranks.max()]].tolist()
        return PageBounds(_plain(self._values[low]), _plain(self._values[high]), count, ascending)


def page_bounds(page: PageInput, kind: ValueKind) -> PageBounds:
    """Return the bounds of a page that has plain values of a column of ``kind``."""
    if kind in _UNORDERED or page.null_count == page.rows:
        return PageBounds(None, None, 0, False)
    values = page.values
    if kind in BYTE_KINDS:
        found = pc.min_max(_comparable(values, page.bitmap)).as_py()
        same = found["min"] == found["max"] and not page.null_count
        return PageBounds(found["min"], found["max"], 0, same)
    if kind == ValueKind.DECIMAL:
        return _decimal_bounds(page)
    # Null slots are filled with values that are there, so they need not be left out.
    data, nans = values.data, 0
    if kind == ValueKind.FLOAT:
        missing = np.isnan(data)
        if missing.any():
            present = missing if page.validity is None else missing & page.validity
            nans = int(np.count_nonzero(present))
            data = data[~missing]
            if not len(data):
                return PageBounds(None, None, nans, False)
    ascending = not page.null_count and not nans and bool(np.all(data[1:] >= data[:-1]))
    low, high = (data[0], data[-1]) if ascending else (data.min(), data.max())
    return PageBounds(_plain(low), _plain(high), nans, ascending)


def _decimal_bounds(page: PageInput) -> PageBounds:
    words = page.values.data
    low, high = words[:, 0], words[:, 1]
    if np.array_equal(high, low >> 63):
        ascending = not page.null_count and bool(np.all(low[1:] >= low[:-1]))
        return PageBounds(int(low.min()), int(low.max()), 0, ascending)
    return PageBounds(
        _extreme(words, high.min(), least=True), _extreme(words, high.max()), 0, False
    )


def _extreme(words: npt.NDArray[np.int64], high: int, *, least: bool = False) -> int:
    lows = words[words[:, 1] == high, 0].view(np.uint64)
    return (int(high) << 64) + int(lows.min() if least else lows.max())


def _comparable(values: PhysicalValues, bitmap: npt.NDArray[np.uint8] | None) -> Any:
    """Return values in a form that sorts: an Arrow array of bytes, or a numpy array."""
    if values.kind not in BYTE_KINDS:
        if values.kind == ValueKind.DECIMAL:
            wide = [(int(h) << 64) + int(w) for w, h in zip(*_words(values.data), strict=True)]
            return np.array(wide, dtype=object)
        return values.data
    validity = None if bitmap is None else pa.py_buffer(bitmap)
    nulls = 0 if bitmap is None else -1
    if values.offsets is not None:
        buffers = [validity, pa.py_buffer(values.offsets), pa.py_buffer(values.data)]
        return pa.Array.from_buffers(pa.binary(), values.length, buffers, nulls)
    data = pa.py_buffer(np.ascontiguousarray(values.data))
    return pa.Array.from_buffers(pa.binary(values.width), values.length, [validity, data], nulls)


def _words(data: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return np.ascontiguousarray(data[:, 0]).view(np.uint64), data[:, 1]


def _plain(value: Any) -> Any:
    if isinstance(value, pa.Scalar):
        return value.as_py()
    return value.item() if isinstance(value, np.generic) else value


def common_prefix(bounds: list[PageBounds]) -> bytes:
    """Return the bytes that all values of the pages begin with, as many as a segment keeps."""
    ends = [each for b in bounds for each in (b.minimum, b.maximum) if isinstance(each, bytes)]
    low, high = min(ends, default=b"")[:LONGEST_PREFIX], max(ends, default=b"")
    # What is less has no more bytes than they have in common.
    differs = (at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other)
    return low[: next(differs, len(low))]


def slots(bounds: PageBounds, kind: ValueKind, prefix: bytes) -> tuple[int, int, PageFlag]:
    """Return the minimum and maximum slots as unsigned integers, and the flags that go with them.

    Parameters
    ----------
    prefix
        The common prefix of the column, for text, binary and fixed bytes.
    """
    low, high = bounds.minimum, bounds.maximum
    flags = PageFlag.SORTED if bounds.ascending else PageFlag(0)
    if low is None or high is None:
        return 0, 0, flags
    flags |= PageFlag.BOUNDS
    if isinstance(low, bytes) and isinstance(high, bytes):
        return _text_slots(low[len(prefix) :], high[len(prefix) :], flags)
    if kind == ValueKind.FLOAT:
        pair = np.array([low, high], np.float64) + 0.0
        first, second = pair.view(np.uint64).tolist()
        return first, second, flags
    low, high = int(low), int(high)
    if kind == ValueKind.DECIMAL:
        low, high, flags = _clamped(low, high, flags)
    return low % (1 << 64), high % (1 << 64), flags


def _clamped(low: int, high: int, flags: PageFlag) -> tuple[int, int, PageFlag]:
    if not _LEAST <= low <= _GREATEST:
        flags |= PageFlag.MIN_CUT | (PageFlag.MIN_OPEN if low < _LEAST else PageFlag(0))
    if not _LEAST <= high <= _GREATEST:
        flags |= PageFlag.MAX_CUT | (PageFlag.MAX_OPEN if high > _GREATEST else PageFlag(0))
    return (
        min(max(low, _LEAST), _GREATEST),
        min(max(high, _LEAST), _GREATEST),
        flags,
    )


def _text_slots(low: bytes, high: bytes, flags: PageFlag) -> tuple[int, int, PageFlag]:
    first = int.from_bytes(low[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0"), "big")
    second = int.from_bytes(high[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0"), "big")
    # A zero byte at the end looks like the padding: such a bound is not the value either.
    if len(low) > _KEY_BYTES or low.endswith(b"\0"):
        flags |= PageFlag.MIN_CUT
    if len(high) > _KEY_BYTES or high.endswith(b"\0"):
        flags |= PageFlag.MAX_CUT
        if second == (1 << 64) - 1:
            flags |= PageFlag.MAX_OPEN
        else:
            second += 1
    return first, second, flags


@dataclass(frozen=True, slots=True, eq=False)
class ZoneMaps:
    """The bounds and counts of some pages of one column, one element a page.

    Attributes
    ----------
    kind
        Of the column; decides what the bounds mean.
    minimum, maximum
        Of :func:`zone_dtype`. Only to be looked at where ``bounded``, and not ``low_open`` or
        ``high_open``. Of text, binary and fixed bytes, what :meth:`key` makes of values.
    bounded
        Whether there is a value that is neither null nor NaN.
    minimum_exact, maximum_exact
        Whether the bound is a value of the page; another one never proves anything TRUE.
    low_open, high_open
        Whether values may lie beyond every bound.
    ascending
        Whether values never decrease and none is missing.
    rows, nulls, nans
        Counts, int64.
    prefix
        What all values of text, binary and fixed bytes begin with.
    """

    kind: ValueKind
    minimum: npt.NDArray[Any]
    maximum: npt.NDArray[Any]
    bounded: npt.NDArray[np.bool_]
    minimum_exact: npt.NDArray[np.bool_]
    maximum_exact: npt.NDArray[np.bool_]
    low_open: npt.NDArray[np.bool_]
    high_open: npt.NDArray[np.bool_]
    ascending: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.int64]
    nans: npt.NDArray[np.int64]
    prefix: bytes

    @classmethod
    def of(cls, kind: ValueKind, records: npt.NDArray[np.void], prefix: bytes) -> ZoneMaps:
        """Return the zone maps that page records hold."""
        dtype, flags = zone_dtype(kind), records["flags"]
        bounded = (flags & PageFlag.BOUNDS) != 0
        return cls(
            kind=kind,
            minimum=np.ascontiguousarray(records["minimum"]).view(dtype),
            maximum=np.ascontiguousarray(records["maximum"]).view(dtype),
            bounded=bounded,
            minimum_exact=bounded & ((flags & PageFlag.MIN_CUT) == 0),
            maximum_exact=bounded & ((flags & PageFlag.MAX_CUT) == 0),
            low_open=(flags & PageFlag.MIN_OPEN) != 0,
            high_open=(flags & PageFlag.MAX_OPEN) != 0,
            ascending=(flags & PageFlag.SORTED) != 0,
            rows=records["row_count"].astype(np.int64),
            nulls=records["null_count"].astype(np.int64),
            nans=records["nan_count"].astype(np.int64),
            prefix=prefix,
        )

    def take(self, pages: npt.NDArray[np.int64]) -> ZoneMaps:
        """Return the zone maps of some pages."""
        names = [field.name for field in fields(self) if field.name not in ("kind", "prefix")]
        return replace(self, **{name: getattr(self, name)[pages] for name in names})

    def key(self, value: bytes) -> int | None:
        """Return what bytes are compared as: a page without it in its bounds does not hold them.

        None for bytes that do not begin with the prefix: no page holds them.
        """
        if not value.startswith(self.prefix):
            return None
        rest = value[len(self.prefix) :][:_KEY_BYTES]
        return int.from_bytes(rest.ljust(_KEY_BYTES, b"\0"), "big")

    def may_hold(self, low: Any, high: Any) -> npt.NDArray[np.bool_]:
        """Return the pages that may hold a value from ``low`` to ``high``, both included.

        Bounds are in the terms of the slots (see :func:`zone_dtype`); None is no bound.
        """
        found = self.bounded.copy()
        if high is not None:
            found &= (self.minimum <= high) | self.low_open
        if low is not None:
            found &= (self.maximum >= low) | self.high_open
        return found
