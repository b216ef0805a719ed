"""What a manifest remembers of one column of one segment, and how it is computed.

Minimum and maximum ignore nulls and NaN; a column of nothing else has no bounds. Text and binary
bounds hold at most 64 bytes: a cut minimum is a prefix, hence not greater than any value; a cut
maximum is a prefix with its last character raised, hence not less. A cut bound is never exact, and
where nothing can be raised there is no maximum.

Zone maps are statistics too: selections prune pages before one is read. Columns may have pages of
different lengths: statistics are of the row ranges between the edges of all of them, each of which
lies in one page of a column and has its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tessel.arrays import arrow_array, arrow_scalar, different
from tessel.cached import cached
from tessel.lazy import dataclass
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.values import Integers
from tessel.store.segment.zone_maps import Bound, PageBounds, ZoneMaps

BOUND_BYTES = 64
"""The longest text or binary bound, in bytes of UTF-8."""

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = (0xD800, 0xE000)


class ColumnStatistics(NamedTuple):
    """The facts of one column of one segment.

    Attributes
    ----------
    minimum, maximum
        Bounds of the values that are not missing, as scalars of :func:`bounds_type`; None where
        there is no such value, no order, or no bound short enough.
    minimum_exact, maximum_exact
        Whether the bound is itself a value of the column.
    nulls, nans
        How many values are null, and how many are a float NaN.
    """

    minimum: pa.Scalar | None
    maximum: pa.Scalar | None
    minimum_exact: bool
    maximum_exact: bool
    nulls: int
    nans: int


@dataclass(frozen=True, eq=False)
class SliceFacts:
    """Statistics of one column, one value per row slice or page.

    Attributes
    ----------
    minimum, maximum
        Bounds, null where unknown or where everything is missing; of null type for columns
        without an order. pa.Array.
    minimum_exact, maximum_exact
        Whether the bound is a value of the column.
    missing
        How many values are null or NaN; -1 where nothing is known. int64.
    numbers
        Bounds are Arrow arrays alone.
    """

    minimum: pa.Array
    maximum: pa.Array
    minimum_exact: npt.NDArray[np.bool_]
    maximum_exact: npt.NDArray[np.bool_]
    missing: npt.NDArray[np.int64]
    numbers: None = None


def bounds_type(type_: pa.DataType) -> pa.DataType | None:
    """Return the type of a column's bounds: its own, or its dictionary's.

    None where there is no order, and for bytes of a fixed length past ``BOUND_BYTES``: no bound of
    their type would be short enough.
    """
    if pat.is_dictionary(type_):
        return bounds_type(type_.value_type)
    if pat.is_nested(type_) or pat.is_null(type_):
        return None
    if pat.is_fixed_size_binary(type_) and type_.byte_width > BOUND_BYTES:
        return None
    return type_


def summarise(column: pa.ChunkedArray, bounds: PageBounds) -> ColumnStatistics:
    """Return the statistics of a column, whose pages have these bounds together."""
    kind, nulls = bounds_type(column.type), int(column.null_count)
    low, high = bounds.minimum, bounds.maximum
    if kind is None or low is None or high is None:
        return ColumnStatistics(None, None, False, False, nulls, bounds.nans)
    if pat.is_floating(kind) and 0.0 in (low, high):
        # Of zeros, bounds of pages do not say which sign they have.
        plain = column.cast(kind)
        found = pc.min_max(plain.filter(pc.invert(pc.is_nan(plain))))
        return ColumnStatistics(found["min"], found["max"], True, True, nulls, bounds.nans)
    if not (pat.is_string(kind) or pat.is_binary(kind)):
        minimum, maximum = _scalars(kind, low, high)
        return ColumnStatistics(minimum, maximum, True, True, nulls, bounds.nans)
    least, greatest = _texts(kind, low, high)
    is_low, is_high = _length(least) <= BOUND_BYTES, _length(greatest) <= BOUND_BYTES
    cut = greatest if is_high else _raised(_prefix(greatest))
    return ColumnStatistics(
        arrow_scalar(_prefix(least), kind),
        None if cut is None else arrow_scalar(cut, kind),
        is_low,
        is_high,
        nulls,
        0,
    )


def _scalars(kind: pa.DataType, *values: Bound) -> pa.Array:
    """Return bounds, as pages have them, as values of a type of fixed width."""
    if pat.is_boolean(kind):
        return arrow_array(values, kind)
    width = kind.bit_width // 8
    if pat.is_floating(kind):
        held = np.array(values, f"<f{width}").tobytes()
    else:
        held = b"".join(
            v if isinstance(v, bytes) else int(v).to_bytes(width, "little", signed=v < 0)
            for v in values
        )
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(held)])


def _texts(kind: pa.DataType, *values: Any) -> list[Any]:
    return [value.decode() for value in values] if pat.is_string(kind) else [*values]


def _length(value: str | bytes) -> int:
    return len(value.encode()) if isinstance(value, str) else len(value)


def _prefix(value: Any) -> Any:
    """Return the longest start of ``value`` that is short enough, at a character's end."""
    if isinstance(value, bytes):
        return value[:BOUND_BYTES]
    return value.encode()[:BOUND_BYTES].decode(errors="ignore")


def _raised(prefix: Any) -> Any:
    """Return the least text (or bytes) of at most that many characters above all with ``prefix``.

    None where there is none: every byte is 0xFF, or every character the last one.
    """
    if isinstance(prefix, bytes):
        kept = prefix.rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    while prefix:
        code = ord(prefix[-1]) + 1
        code = _SURROGATES[1] if code == _SURROGATES[0] else code
        if code <= _LAST_CHARACTER:
            candidate = prefix[:-1] + chr(code)
            # A raised character can take one byte more; then the one before is raised.
            if _length(candidate) <= BOUND_BYTES:
                return candidate
        prefix = prefix[:-1]
    return None


Flags = npt.NDArray[np.bool_]

_KEY_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class ColumnZones:
    """The pages of one column over the rows of a piece.

    Attributes
    ----------
    type
        The type of the column, as declared and as stored.
    edges
        Where its pages begin and the last ends, in rows of the piece: int64, ascending, one more
        than the pages. The first may be negative and the last past the piece.
    """

    type: pa.DataType
    edges: Integers
    zones: ZoneMaps


class PageFacts:
    """Bounds of one column in each row range, of which each lies in one page.

    Satisfies the protocols ``ColumnFacts`` and ``NumberBounds``.

    Parameters
    ----------
    zones
        The zone maps of the pages, one a range; they have bounds that expressions know.
    """

    def __init__(self, type_: pa.DataType, zones: ZoneMaps, whole: Flags, rows: Integers) -> None:
        self.type = type_
        self.low, self.high, self.bounded = zones.minimum, zones.maximum, zones.bounded
        self.known: Flags = zones.bounded & ~(zones.low_open | zones.high_open)
        self.missing: Integers = np.minimum(zones.nulls + zones.nans, rows)
        # Any bounds of numbers may prove TRUE; of text, those that are values, of whole pages.
        self.minimum_exact = self.maximum_exact = self.known
        if zones.kind == ValueKind.TEXT:
            self.minimum_exact = zones.minimum_exact & whole
            self.maximum_exact = zones.maximum_exact & whole
        self._zones = zones

    @property
    def numbers(self) -> PageFacts:
        """The same bounds as numbers."""
        return self

    @cached
    def minimum(self) -> pa.Array:
        """Not greater than any value present."""
        return self._array(self._zones.minimum, self._zones.low_open)

    @cached
    def maximum(self) -> pa.Array:
        """Not less than any value present."""
        return self._array(self._zones.maximum, self._zones.high_open)

    def without(self, text: str) -> Flags:
        """Return a mask: which row ranges do not hold a text."""
        key = self._zones.key(text.encode())
        return self.bounded if key is None else self.bounded & ~self._zones.may_hold(key, key)

    def _array(self, bounds: npt.NDArray[Any], opened: Flags) -> pa.Array:
        known, type_ = self.bounded & ~opened, _value_type(self.type)
        if self._zones.kind == ValueKind.TEXT:
            texts = [
                _text(self._zones.prefix, key) if there else None
                for key, there in zip(bounds.tolist(), known.tolist(), strict=True)
            ]
            return arrow_array(texts, type_)
        storage = np.dtype(f"{bounds.dtype.kind}{type_.bit_width // 8}")
        held = arrow_array(np.where(known, bounds, 0).astype(storage), mask=~known)
        return held if held.type == type_ else held.view(type_)


class PageStatistics:
    """Statistics of the row ranges of a piece; satisfies the protocol ``StatisticsView``.

    Parameters
    ----------
    types
        The type of every column that may be asked for.

    Attributes
    ----------
    edges
        The edges of the row ranges: int64, ascending, from 0 to ``rows``.
    """

    def __init__(
        self,
        rows: int,
        columns: Mapping[str, ColumnZones],
        types: Mapping[str, pa.DataType],
    ) -> None:
        edges, *others = [column.edges for column in columns.values()] or [np.zeros(0, np.int64)]
        others = [each for each in others if not np.array_equal(each, edges)]
        if others or not len(edges) or edges[0] or edges[-1] != rows:
            inside = different(np.concatenate([np.array([0, rows], np.int64), edges, *others]))
            edges = inside[(inside >= 0) & (inside <= rows)]
        self.edges: Integers = edges
        self.row_counts: Integers = np.diff(edges)
        self._columns = columns
        self._types = types

    def facts(self, name: str) -> PageFacts | SliceFacts:
        """Return the bounds of a column in each row range."""
        column = self._columns.get(name)
        if column is not None and _has_bounds(column):
            zones, lengths = column.zones, np.diff(column.edges)
            if not np.array_equal(column.edges, self.edges):
                at = np.searchsorted(column.edges, self.edges[:-1], "right") - 1
                zones, lengths = zones.take(at), lengths[at]
            return PageFacts(column.type, zones, lengths == self.row_counts, self.row_counts)
        count = len(self.edges) - 1
        no, unknown = np.zeros(count, np.bool_), np.full(count, -1, np.int64)
        bound = pa.nulls(count, _value_type(self._types[name]))
        return SliceFacts(bound, bound, no, no, unknown)


def _has_bounds(column: ColumnZones) -> bool:
    kind = column.zones.kind
    if kind == ValueKind.TEXT:
        return bool(pat.is_string(_value_type(column.type)))
    return kind in (ValueKind.SIGNED, ValueKind.UNSIGNED, ValueKind.FLOAT)


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pat.is_dictionary(type_) else type_


def _text(prefix: bytes, key: int) -> str | None:
    """Return the text of a bound; None where it is none, as after a cut inside a character."""
    try:
        return (prefix + key.to_bytes(_KEY_BYTES, "big").rstrip(b"\0")).decode()
    except UnicodeDecodeError:
        return None
