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

from tessel.arrays import arrow_array, different, numpy_array
from tessel.lazy import dataclass
from tessel.store.encodings.base import Integers
from tessel.store.encodings.codes import ValueKind
from tessel.store.segment.zone_maps import ZoneMaps

__all__ = ["ColumnZones", "PageFacts", "PageStatistics"]

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
    zones
        Their zone maps.
    """

    type: pa.DataType
    edges: Integers
    zones: ZoneMaps


@dataclass(frozen=True, slots=True, eq=False)
class PageFacts:
    """Bounds of one column in each row range; satisfies the protocol ``ColumnFacts``."""

    minimum: pa.Array
    maximum: pa.Array
    minimum_exact: Flags
    maximum_exact: Flags
    missing: Integers


class PageStatistics:
    """Statistics of the row ranges of a piece; satisfies the protocol ``StatisticsView``.

    Parameters
    ----------
    rows
        Rows of the piece.
    columns
        Page edges and zone maps, by name. Of a column that is not among them nothing is known.
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
        inside = [column.edges for column in columns.values()]
        edges = different(np.concatenate([np.array([0, rows], np.int64), *inside]))
        self.edges: Integers = edges[(edges >= 0) & (edges <= rows)]
        self._columns = columns
        self._types = types

    @property
    def row_counts(self) -> Integers:
        """Rows of each range."""
        counts: Integers = np.diff(self.edges)
        return counts

    def facts(self, name: str) -> PageFacts:
        """Return the bounds of a column in each row range."""
        type_ = self._types[name]
        column = self._columns.get(name)
        bounds = None if column is None else _bounds(column)
        if column is None or bounds is None:
            return _nothing(type_, len(self.edges) - 1)
        low, high = bounds
        at = np.searchsorted(column.edges, self.edges[:-1], "right") - 1
        zones = column.zones
        missing = zones.nulls + zones.nans
        # Bounds that cannot be shown are unknown, which is not the same as that there are none.
        hidden = zones.bounded & (_is_null(low) | _is_null(high))
        missing = np.where(hidden, -1, missing)[at]
        whole = np.diff(self.edges) == np.diff(column.edges)[at]
        places = arrow_array(at)
        return PageFacts(
            low.take(places),
            high.take(places),
            zones.minimum_exact[at] & whole,
            zones.maximum_exact[at] & whole,
            np.minimum(missing, self.row_counts),
        )


def _nothing(type_: pa.DataType, count: int) -> PageFacts:
    no = np.zeros(count, np.bool_)
    bound = pa.nulls(count, _value_type(type_))
    return PageFacts(bound, bound, no, no, np.full(count, -1, np.int64))


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pat.is_dictionary(type_) else type_


def _is_null(values: pa.Array) -> Flags:
    flags: Flags = numpy_array(values.is_null())
    return flags


def _bounds(column: ColumnZones) -> tuple[pa.Array, pa.Array] | None:
    """Return lower and upper bounds in the type of the values; None where a column offers none."""
    zones, type_ = column.zones, _value_type(column.type)
    if zones.kind in (ValueKind.SIGNED, ValueKind.UNSIGNED, ValueKind.FLOAT):
        return (
            _numbers(zones.minimum, zones.bounded & ~zones.low_open, type_),
            _numbers(zones.maximum, zones.bounded & ~zones.high_open, type_),
        )
    if zones.kind == ValueKind.TEXT and pat.is_string(type_):
        low = [_text(zones, at, value) for at, value in enumerate(zones.minimum.tolist())]
        high = [_text(zones, at, value, up=True) for at, value in enumerate(zones.maximum.tolist())]
        return arrow_array(low, type_), arrow_array(high, type_)
    return None


def _numbers(values: npt.NDArray[Any], known: Flags, type_: pa.DataType) -> pa.Array:
    storage = np.dtype(f"{values.dtype.kind}{type_.bit_width // 8}")
    held = arrow_array(np.where(known, values, 0).astype(storage), mask=~known)
    return held if held.type == type_ else held.view(type_)


def _text(zones: ZoneMaps, at: int, key: int, *, up: bool = False) -> str | None:
    """Return the text of a bound; None where it is none, as after a cut inside a character."""
    opened = zones.high_open if up else zones.low_open
    if not zones.bounded[at] or opened[at]:
        return None
    held = zones.prefix + key.to_bytes(_KEY_BYTES, "big").rstrip(b"\0")
    try:
        return held.decode()
    except UnicodeDecodeError:
        return None
