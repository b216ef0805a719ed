"""What one symbol is after one commit: its columns, and where its rows are."""

from __future__ import annotations

import base64
import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import pyarrow as pa

from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.encodings.registry import encoding_names
from tessel.store.history.documents import Fields, damaged
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.index import SegmentIndex
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.table import Extent, SegmentTable
from tessel.store.pandas_shape import PandasShape
from tessel.store.segment.types import is_index_type, normalise_schema

OpenManifest = Callable[[ManifestReference], Manifest]
"""Opens a manifest, or returns one that was opened before."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """An extent: rows of a symbol that lie side by side in one manifest.

    Rows are replaced and deleted by cutting extents, and nothing that they refer to is rewritten.

    Attributes
    ----------
    segments
        How many segments hold them; estimated where the extent was cut.
    first_time, last_time
        Bounds of the index over these rows, in its own integer unit; None without an index.
    first_row
        How many of the symbol's rows in the manifest come before.
    cut_front, cut_back
        Whether rows were cut off at that end: then the bound there is not that of a row.
    set
        The set that the manifest was packed for; None for one that belongs to none: a tail.
    held
        How many segments the manifest was packed with, where it is one of the symbols of a single
        leaf, which is not in the lookup; None for all others.
    """

    reference: ManifestReference
    rows: int
    segments: int
    first_time: int | None
    last_time: int | None
    first_row: int = 0
    cut_front: bool = False
    cut_back: bool = False
    set: str | None = None
    held: int | None = None

    @property
    def cut(self) -> bool:
        """Whether rows were cut off, so that bounds and the number of segments are estimates."""
        return self.cut_front or self.cut_back

    @property
    def packing(self) -> Packing:
        """What packing by leaf looks at."""
        return Packing(self.reference.object, self.segments, self.set, self.held)

    def part(self, start: int, stop: int) -> ManifestEntry:
        """Return rows ``[start, stop)`` of the extent, counted from its first one."""
        if start == 0 and stop == self.rows:
            return self
        rows = stop - start
        return dataclasses.replace(
            self,
            rows=rows,
            segments=max(1, -(-self.segments * rows // self.rows)),
            first_row=self.first_row + start,
            cut_front=self.cut_front or start > 0,
            cut_back=self.cut_back or stop < self.rows,
        )

    def joined(self, after: ManifestEntry) -> ManifestEntry | None:
        """Return the extent of this one and the next, where they lie side by side; else None."""
        if (
            self.reference != after.reference
            or self.first_row + self.rows != after.first_row
            or self.cut_back
            or after.cut_front
        ):
            return None
        return dataclasses.replace(
            self,
            rows=self.rows + after.rows,
            segments=self.segments + after.segments,
            last_time=after.last_time,
            cut_back=after.cut_back,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the extent as plain data."""
        document = {
            "object": self.reference.object,
            "length": self.reference.length,
            "tail_length": self.reference.tail_length,
            "tail_checksum": self.reference.tail_checksum,
            "rows": self.rows,
            "segments": self.segments,
            "first_time": self.first_time,
            "last_time": self.last_time,
            "first_row": self.first_row,
            "cut": [self.cut_front, self.cut_back],
            "set": self.set,
        }
        if self.held is not None:
            # A release that knows no leaves takes it for a tail, and may: nobody shares it there.
            document |= {"set": None, "leaf": [self.set, self.held]}
        return document

    @classmethod
    def read(cls, fields: Fields) -> ManifestEntry:
        """Read an extent from a document."""
        reference = ManifestReference(
            fields.text("object"),
            fields.integer("length"),
            fields.integer("tail_length"),
            fields.integer("tail_checksum"),
        )
        cut = fields.sequence("cut")
        if list(map(type, cut)) != [bool, bool]:
            damaged(fields.name, "an extent does not say where it was cut")
        set_name, held = fields.optional_text("set"), None
        if fields.value("leaf") is not None:
            packed = fields.sequence("leaf")
            if len(packed) != 2:
                damaged(fields.name, "an extent does not say what its manifest was packed with")
            leaf = Fields(dict(zip(("set", "held"), packed, strict=True)), fields.name)
            set_name, held = leaf.text("set"), leaf.integer("held")
        rows, segments = fields.integer("rows"), fields.integer("segments")
        first, last = fields.optional_integer("first_time"), fields.optional_integer("last_time")
        first_row = fields.integer("first_row")
        if not rows or not segments or first_row + rows >= 2**63:
            damaged(fields.name, "an extent has an impossible number of rows or segments")
        front, back = cut
        return cls(reference, rows, segments, first, last, first_row, front, back, set_name, held)


class Packing(NamedTuple):
    """Of an extent: manifest, segments, set, and what the manifest was packed with for a leaf."""

    manifest: str
    segments: int
    set: str | None
    held: int | None


class SymbolPacking(NamedTuple):
    """Of a symbol: its name and id, how many columns it has, and the packing of each extent."""

    name: str
    id: int
    columns: int
    extents: Sequence[Packing]


def packing_of(document: Mapping[str, Any]) -> Packing:
    """Read the packing of an extent, and no more, from its document.

    Raises ``KeyError``, ``TypeError`` or ``ValueError`` for what is none.
    """
    manifest, segments = document["object"], document["segments"]
    set_name, held = document.get("leaf") or (document["set"], None)
    if not (
        isinstance(manifest, str)
        and isinstance(segments, int)
        and isinstance(set_name, str | None)
        and isinstance(held, int | None)
        and (set_name is not None or held is None)
    ):
        raise TypeError
    return Packing(manifest, segments, set_name, held)


def rows_of(extents: Iterable[ManifestEntry]) -> int:
    """Return how many rows some extents have."""
    return sum(map(operator.attrgetter("rows"), extents))


def coalesced(extents: Iterable[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """Return the extents, those that lie side by side in one manifest as one."""
    joined: list[ManifestEntry] = []
    for extent in extents:
        both = joined[-1].joined(extent) if joined else None
        if both is None:
            joined.append(extent)
        else:
            joined[-1] = both
    return tuple(joined)


@dataclass(frozen=True, slots=True)
class SymbolState:
    """One symbol after a commit.

    Attributes
    ----------
    id
        Random, 63 bits; a symbol that was deleted and made anew has another one.
    schema
        Columns as stored, in the user's order, and the index.
    next_column_id
        The id for the next new column: ids are never used again.
    manifests
        Where they are: extents in row order.
    encodings
        By column id, the name of an encoding to use wherever it can hold a page.
    pandas
        What pandas showed of it, by column id, where it was written from there.
    """

    id: int
    schema: TableSchema
    column_ids: Mapping[str, int]
    next_column_id: int
    rows: int = 0
    manifests: tuple[ManifestEntry, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    changed: int = 0
    encodings: Mapping[int, str] = field(default_factory=dict)
    pandas: PandasShape | None = None

    def __hash__(self) -> int:
        return hash((self.id, self.changed, self.rows))

    @property
    def last_time(self) -> int | None:
        """A bound above the index, in its own unit; None without an index or rows.

        It is the last value unless the last extent was cut at its end.
        """
        return self.manifests[-1].last_time if self.manifests else None

    def segments(
        self, manifest: OpenManifest, extents: Sequence[ManifestEntry] | None = None
    ) -> SegmentTable:
        """Return the segments of all rows, or of those of some extents."""
        listed = self.manifests if extents is None else extents
        indexed = self.schema.index is not None
        return SegmentTable.from_extents(
            self.id, _opened(listed, manifest), indexed=indexed, rows=rows_of(listed)
        )

    def index(self, manifest: OpenManifest) -> SegmentIndex:
        """Return the index over all segments, on which reading is planned."""
        return SegmentIndex.from_extents(
            self.id,
            _opened(self.manifests, manifest),
            self.schema,
            self.column_ids,
            rows=self.rows,
        )

    @property
    def types(self) -> dict[int, pa.DataType]:
        """The type of each column, by id."""
        return {self.column_ids[field.name]: field.type for field in self.schema.arrow}

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain data; the schema as base64 of its Arrow IPC message."""
        document = {
            "id": self.id,
            "schema": base64.b64encode(self.schema.arrow.serialize().to_pybytes()).decode(),
            "index": self.schema.index,
            "column_ids": [self.column_ids[name] for name in self.schema.names],
            "next_column_id": self.next_column_id,
            "rows": self.rows,
            "manifests": [entry.to_json() for entry in self.manifests],
            "metadata": dict(self.metadata),
            "changed": self.changed,
        }
        if self.encodings:
            document["encodings"] = {str(number): name for number, name in self.encodings.items()}
        if self.pandas:
            document["pandas"] = self.pandas.to_json()
        return document

    @classmethod
    def read(cls, fields: Fields) -> SymbolState:
        """Read a state from a document."""
        schema = _read_schema(fields)
        ids = fields.integers("column_ids")
        next_id = fields.integer("next_column_id")
        if len(ids) != len(schema.names) or len(set(ids)) != len(ids) or max(ids) >= next_id:
            damaged(fields.name, "the column ids of a symbol do not fit its columns")
        manifests = tuple(map(ManifestEntry.read, fields.objects("manifests")))
        rows = fields.integer("rows")
        if rows_of(manifests) != rows:
            damaged(fields.name, "the row counts of a symbol do not add up")
        columns, own = dict(zip(schema.names, ids, strict=True)), fields.integer("id")
        kept, changed = fields.mapping("metadata"), fields.integer("changed")
        forced, pandas = _read_encodings(fields, next_id), None
        if fields.value("pandas") is not None:
            pandas = PandasShape.read(fields.fields("pandas"), next_id)
        return cls(own, schema, columns, next_id, rows, manifests, kept, changed, forced, pandas)


def _opened(extents: Iterable[ManifestEntry], manifest: OpenManifest) -> list[Extent]:
    return [Extent(manifest(each.reference), each.first_row, each.rows) for each in extents]


def _read_encodings(fields: Fields, next_id: int) -> dict[int, str]:
    if fields.value("encodings") is None:
        return {}
    found: dict[int, str] = {}
    for number, name in fields.mapping("encodings").items():
        if not number.isdecimal() or int(number) >= next_id or name not in encoding_names():
            damaged(fields.name, "an encoding of a symbol is of no column, or is none")
        found[int(number)] = name
    return found


def _read_schema(fields: Fields) -> TableSchema:
    try:
        message = base64.b64decode(fields.text("schema"), validate=True)
        arrow = pa.ipc.read_schema(pa.py_buffer(message))
        if not arrow.names or not arrow.equals(normalise_schema(arrow), check_metadata=True):
            damaged(fields.name, "the schema of a symbol holds what no symbol can")
        schema = TableSchema(arrow, fields.optional_text("index"))
    except (ValueError, OSError, pa.ArrowException, TesselError) as error:
        damaged(fields.name, f"the schema of a symbol cannot be read: {error}")
    if schema.index is not None and not is_index_type(schema.type_of(schema.index)):
        damaged(fields.name, "the index of a symbol has a type that none can have")
    return schema
