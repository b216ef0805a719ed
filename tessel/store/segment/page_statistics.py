"""Zone maps of the columns of a piece as statistics, to which the interval rules are applied.

Selections enter here to prune pages by any predicate before a page is read. Columns may have pages
of different lengths: statistics are of the row ranges between the edges of all of them, each of
which lies in one page of a column and has its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from tessel.arrays import arrow_array, different
from tessel.cached import cached
from tessel.lazy import dataclass
from tessel.store.encodings.codes import ValueKind
from tessel.store.encodings.values import Integers
from tessel.store.segment.statistics import SliceFacts
from tessel.store.segment.zone_maps import ZoneMaps

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
