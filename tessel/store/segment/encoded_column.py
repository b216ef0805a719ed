"""Columns at rest as first-class objects: asked for their codes, or for their values.

Clauses enter here through what a reader hands them. :meth:`SegmentColumn.decode`, ``take`` and
``filter`` decode; ``codes`` is a view of what is stored, page by page. Its dictionary is None where
some page is encoded otherwise: then the values are decoded.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.errors import InvalidInputError
from tessel.store.encodings.codes import EncodingCode, Role, ValueKind
from tessel.store.encodings.fields import FieldNode, NodeValues, to_arrow
from tessel.store.encodings.values import Integers, PhysicalValues
from tessel.store.segment.decode import (
    PagePart,
    decode_codes,
    decode_column,
    join_validity,
    page_parts,
)
from tessel.store.segment.decode_take import take_column
from tessel.store.segment.pages import SegmentPages

_FEW = 8
"""Where at most one row in so many survives, rows are gathered instead of decoding the page."""


class SegmentColumn:
    """Rows of one column of a segment, not decoded.

    Immutable; safe to use from several threads.

    Raises InvalidInputError for rows that the segment does not have.

    Parameters
    ----------
    node
        A top-level column, or a child of a struct.
    """

    def __init__(self, segment: SegmentPages, node: FieldNode, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= segment.row_count:
            raise InvalidInputError(
                f"rows {start} to {stop} were asked for, the segment has {segment.row_count}"
            )
        self._segment = segment
        self._node = node
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __repr__(self) -> str:
        encodings = ", ".join(self.encodings) or "nothing"
        return f"<SegmentColumn {self.type}: {len(self)} rows in {encodings}>"

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self._node.type

    @property
    def encodings(self) -> tuple[str, ...]:
        """Names of the encodings of the pages, each once, in the order of the rows."""
        return tuple(dict.fromkeys(part.encoding.name for part in self._parts()))

    def slice(self, start: int, stop: int) -> SegmentColumn:
        """Return rows ``[start, stop)`` of this column."""
        return SegmentColumn(self._segment, self._node, self._start + start, self._start + stop)

    # --- without decoding -------------------------------------------------------------------------

    def dictionary(self) -> pa.Array | None:
        """Return the distinct values, or None where some row is not kept as a code."""
        if not self._node.is_dictionary and not self._is_coded():
            return None
        return self._segment.dictionary_array(self._node.number, len(self))

    def codes(self) -> pa.Array:
        """Return each row's place in the dictionary, as int32; null where the value is null.

        Raises InvalidInputError where :meth:`dictionary` is None.
        """
        if self.dictionary() is None:
            raise InvalidInputError(
                f"a column of {self.type} kept as {', '.join(self.encodings)} has no codes",
                hint="ask dictionary() first, and decode() what has none",
            )
        parts = self._parts()
        data = decode_codes(parts, len(self), np.dtype(np.int32))
        validity, nulls = join_validity(parts, len(self))
        values = PhysicalValues(ValueKind.SIGNED, 4, len(self), data)
        return to_arrow(pa.int32(), NodeValues(len(self), values, validity, nulls))

    def coded(
        self, mask: npt.NDArray[np.bool_] | None = None, most_entries: int | None = None
    ) -> pa.DictionaryArray | None:
        """Return the rows where a mask is true as codes; None where one is not kept so.

        None also of more entries than ``most_entries``. Pages without such a row are not looked
        at: where bytes come from afar, none is there.
        """
        keep = np.ones(len(self), np.bool_) if mask is None else mask
        spans = [span for span in self._page_edges() if keep[slice(*span)].any()]
        parts = [self.slice(*span) for span in spans]
        entries = [found for part in parts if (found := part.dictionary()) is not None]
        if not parts or len(entries) < len(parts):
            return None
        if most_entries is not None and len(entries[0]) > most_entries:
            return None
        codes = [part.codes() for part in parts]
        if mask is not None:
            rows = [arrow_array(keep[slice(*span)]) for span in spans]
            codes = [each.filter(own) for each, own in zip(codes, rows, strict=True)]
        return pa.DictionaryArray.from_arrays(pa.concat_arrays(codes), entries[0], safe=False)

    # --- values -----------------------------------------------------------------------------------

    def decode(self) -> pa.Array:
        """Return the values as one array."""
        found = self.chunks()
        return found.chunk(0) if found.num_chunks == 1 else pa.concat_arrays(found.chunks)

    def chunks(self) -> pa.ChunkedArray:
        """Return the values; pages that hold Arrow buffers are chunks of their own, not copied."""
        return decode_column(self._segment, self._node, self._start, self._stop)

    def take(self, rows: Integers | pa.Array) -> pa.Array:
        """Return single rows, counted in this column: any order, repeats allowed."""
        wanted = np.asarray(rows, dtype=np.int64)
        if len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < len(self):
            raise InvalidInputError(f"rows were asked for that are none of the {len(self)}")
        return take_column(self._segment, self._node, wanted + self._start)

    def filter(self, mask: npt.NDArray[np.bool_] | pa.Array) -> pa.Array:
        """Return the rows where ``mask`` is true; a null in it counts as false.

        Of a page of which at most an eighth survives, only the survivors are decoded.
        """
        keep = _as_bools(mask)
        if len(keep) != len(self):
            raise InvalidInputError(f"a mask of {len(keep)} rows for a column of {len(self)}")
        found: list[pa.Array] = []
        waiting: list[Integers] = []
        for low, high in self._page_edges():
            here = keep[low:high]
            survivors = int(np.count_nonzero(here))
            if survivors * _FEW <= high - low:
                waiting.append(np.flatnonzero(here) + low)
                continue
            found += self._gathered(waiting)
            waiting = []
            part = self.slice(low, high).decode()
            found.append(part if survivors == high - low else part.filter(arrow_array(here)))
        found += self._gathered(waiting)
        if len(found) == 1:
            return found[0]
        return pa.concat_arrays(found) if found else self.slice(0, 0).decode()

    def _gathered(self, waiting: list[Integers]) -> list[pa.Array]:
        rows = np.concatenate(waiting) if waiting else np.empty(0, np.int64)
        return [self.take(rows)] if len(rows) else []

    # --- inside -----------------------------------------------------------------------------------

    def _parts(self) -> list[PagePart]:
        return page_parts(self._segment, self._node.number, self._start, self._stop)

    def _page_edges(self) -> list[tuple[int, int]]:
        """Return the rows of each page, counted in this column."""
        edges = self._segment.first_rows(self._node.number)
        inside = edges[(edges > self._start) & (edges < self._stop)] - self._start
        bounds = [0, *inside.tolist(), len(self)]
        return [(a, b) for a, b in itertools.pairwise(bounds) if a < b]

    def _is_coded(self) -> bool:
        """Whether every row is a code or null, and there is at least one page to tell."""
        if self._node.role != Role.VALUES:
            return False
        parts = self._parts()
        coded = (EncodingCode.DICTIONARY, EncodingCode.ALL_MISSING)
        return bool(parts) and all(part.page.encoding in coded for part in parts)


def _as_bools(mask: npt.NDArray[np.bool_] | pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    if isinstance(mask, np.ndarray):
        return mask.astype(np.bool_, copy=False)
    plain = fill_null(mask, False) if mask.null_count else mask
    return np.asarray(numpy_array(plain), dtype=np.bool_)
