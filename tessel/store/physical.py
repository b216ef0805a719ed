"""How a symbol lies in its segments: pages, encodings and bytes of each physical column."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

import numpy as np
import pyarrow as pa

from tessel.lazy import dataclass
from tessel.store.encodings.codes import Codec
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.registry import encoding_by_code
from tessel.store.objects.base import ObjectStore
from tessel.store.segment.decode import decode_column
from tessel.store.segment.pages import SegmentPages
from tessel.store.segment.reader import SegmentReader
from tessel.store.view import SymbolView

_SCHEMA = pa.schema(
    [
        ("column", pa.string()),
        ("type", pa.string()),
        ("segments", pa.int64()),
        ("pages", pa.int64()),
        ("rows", pa.int64()),
        ("encodings", pa.string()),
        ("codecs", pa.string()),
        ("nulls", pa.int64()),
        ("bytes", pa.int64()),
        ("arrow_bytes", pa.int64()),
        ("ratio", pa.float64()),
    ]
)


@dataclass
class _Totals:
    """What was counted of one physical column so far."""

    type: pa.DataType
    top: bool
    segments: int = 0
    rows: int = 0
    nulls: int = 0
    bytes: int = 0
    arrow_bytes: int = 0
    encodings: Counter[str] = field(default_factory=Counter)
    codecs: Counter[str] = field(default_factory=Counter)

    @property
    def pages(self) -> int:
        return self.encodings.total()


def physical_columns(view: SymbolView, objects: ObjectStore) -> pa.Table:
    """Return a line per physical column of a symbol: its fields, and what lies below them.

    Raises CorruptSegmentError when a segment is damaged: values are decoded to know what they take.

    Returns
    -------
    pa.Table
        ``column`` (names joined by dots), ``type``, ``segments``, ``pages``, ``rows``,
        ``encodings`` and ``codecs`` with the number of their pages, ``nulls``, ``bytes`` stored
        (dictionaries included). For fields also ``arrow_bytes``, what their values take in memory,
        and ``ratio``, these by the bytes stored in the field and below; null for what lies below.
    """
    reader = SegmentReader(objects)
    index = view.index()
    names = {column_id: name for name, column_id in view.column_ids.items()}
    totals: dict[str, _Totals] = {}
    below: dict[str, list[str]] = {}
    for position in range(len(index)):
        segment = reader.open(index.source(position).key)
        for column_id in segment.file.column_ids:
            if column_id in names:
                top = names[column_id]
                paths = _count(totals, segment, segment.file.top(column_id), top)
                below[top] = list(dict.fromkeys([*below.get(top, ()), *paths]))
    order = {name: at for at, name in enumerate(view.schema.names)}
    tops = sorted(
        (path for path, found in totals.items() if found.top), key=lambda path: order[path]
    )
    rows = [_row(path, below[top], totals) for top in tops for path in below[top]]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _count(
    totals: dict[str, _Totals], segment: SegmentPages, top: FieldNode, name: str
) -> list[str]:
    """Add what a segment has of a column; return the paths of the column and what is below it."""
    paths = []
    for node in segment.nodes[top.number : top.end]:
        path = name + node.path.removeprefix(top.path)
        paths.append(path)
        found = totals.setdefault(path, _Totals(node.type, node is top))
        records = segment.records(node.number)
        dictionary = segment.file.dictionary(node.number)
        found.segments += 1
        found.rows += int(segment.first_rows(node.number)[-1])
        found.nulls += int(records["null_count"].sum(dtype=np.int64))
        found.bytes += int(records["length"].sum(dtype=np.int64))
        found.bytes += 0 if dictionary is None else int(dictionary["length"])
        for code, count in zip(*np.unique(records["encoding"], return_counts=True), strict=True):
            found.encodings[encoding_by_code(int(code)).name] += int(count)
        for code, count in zip(*np.unique(records["codec"], return_counts=True), strict=True):
            found.codecs[Codec(int(code)).name.lower()] += int(count)
    values = decode_column(segment, top, 0, segment.row_count)
    totals[name].arrow_bytes += values.nbytes
    return paths


def _row(path: str, column: list[str], totals: dict[str, _Totals]) -> dict[str, object]:
    """Return the line of a physical column, one of those of a column of the table."""
    found = totals[path]
    below = [each for each in column if each == path or each.startswith(f"{path}.")]
    stored = sum(totals[each].bytes for each in below)
    ratio = found.arrow_bytes / stored if found.top and stored else None
    return {
        "column": path,
        "type": str(found.type),
        "segments": found.segments,
        "pages": found.pages,
        "rows": found.rows,
        "encodings": _counted(found.encodings),
        "codecs": _counted(found.codecs),
        "nulls": found.nulls,
        "bytes": found.bytes,
        "arrow_bytes": found.arrow_bytes if found.top else None,
        "ratio": None if ratio is None else round(ratio, 2),
    }


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in names.most_common())
