"""What one symbol is after one commit: its columns, and where its rows are."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.store.history.documents import Fields, damaged
from tessel.store.manifest import ManifestReference
from tessel.store.segment import is_index_type, normalise_schema

__all__ = ["ManifestEntry", "SymbolState"]


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A manifest as a symbol refers to it, with the extent of the symbol's rows in it.

    Attributes
    ----------
    reference
        The manifest.
    rows, segments
        How many of the symbol it holds.
    first_time, last_time
        Bounds of the index over these rows, in its own integer unit; None without an index.
    """

    reference: ManifestReference
    rows: int
    segments: int
    first_time: int | None
    last_time: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        return {
            "object": self.reference.object,
            "length": self.reference.length,
            "tail_length": self.reference.tail_length,
            "tail_checksum": self.reference.tail_checksum,
            "rows": self.rows,
            "segments": self.segments,
            "first_time": self.first_time,
            "last_time": self.last_time,
        }

    @classmethod
    def read(cls, fields: Fields) -> ManifestEntry:
        """Read an entry from a document."""
        reference = ManifestReference(
            fields.text("object"),
            fields.integer("length"),
            fields.integer("tail_length"),
            fields.integer("tail_checksum"),
        )
        return cls(
            reference,
            fields.integer("rows"),
            fields.integer("segments"),
            fields.optional_integer("first_time"),
            fields.optional_integer("last_time"),
        )


@dataclass(frozen=True, slots=True)
class SymbolState:
    """One symbol after a commit.

    Attributes
    ----------
    id
        Random, 63 bits; a symbol that was deleted and made anew has another one.
    schema
        Columns as stored, in the user's order, and the index.
    column_ids
        The id of each column.
    next_column_id
        The id for the next new column: ids are never used again.
    rows
        How many rows it has.
    manifests
        Where they are, in row order.
    metadata
        What the user attached: plain JSON.
    changed
        The commit that changed it last.
    """

    id: int
    schema: TableSchema
    column_ids: Mapping[str, int]
    next_column_id: int
    rows: int = 0
    manifests: tuple[ManifestEntry, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    changed: int = 0

    @property
    def last_time(self) -> int | None:
        """The last value of the index, in its own unit; None without an index or rows."""
        return self.manifests[-1].last_time if self.manifests else None

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain data; the schema as base64 of its Arrow IPC message."""
        return {
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

    @classmethod
    def read(cls, fields: Fields) -> SymbolState:
        """Read a state from a document."""
        schema = _read_schema(fields)
        ids = fields.integers("column_ids")
        next_id = fields.integer("next_column_id")
        if len(ids) != len(schema.names) or len(set(ids)) != len(ids) or max(ids) >= next_id:
            damaged(fields.name, "the column ids of a symbol do not fit its columns")
        manifests = tuple(ManifestEntry.read(item) for item in fields.objects("manifests"))
        rows = fields.integer("rows")
        if sum(entry.rows for entry in manifests) != rows:
            damaged(fields.name, "the row counts of a symbol do not add up")
        return cls(
            fields.integer("id"),
            schema,
            dict(zip(schema.names, ids, strict=True)),
            next_id,
            rows,
            manifests,
            fields.mapping("metadata"),
            fields.integer("changed"),
        )


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
