"""One symbol as a transaction has changed it, and the one change that makes it of its base."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tessel.errors import InvalidInputError, UnicodeTextError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.history.changes import (
    Alteration,
    Change,
    Claim,
    Edit,
    NewColumns,
    Replacement,
    splice,
    spliced,
)
from tessel.store.history.committed_changes import KINDS, TimeBounds
from tessel.store.history.symbol import ManifestEntry, SymbolState, rows_of


@dataclass(frozen=True, slots=True)
class _BaseRows:
    """Rows ``[start, stop)`` of the base."""

    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def part(self, start: int, stop: int) -> _BaseRows:
        return _BaseRows(self.start + start, self.start + stop)


@dataclass(frozen=True, slots=True)
class _Added:
    """Rows that the transaction wrote."""

    extent: ManifestEntry
    at_end: bool

    @property
    def rows(self) -> int:
        return self.extent.rows

    def part(self, start: int, stop: int) -> _Added:
        return _Added(self.extent.part(start, stop), self.at_end)


_Piece = _BaseRows | _Added


@dataclass
class Working:
    """A symbol on its way; changed by the verbs of one transaction.

    Attributes
    ----------
    state
        What it is now; extents may refer to a manifest that is not written yet.
    base_name, base
        Name and state on the version that the transaction began with; None for a symbol that the
        transaction made or wrote anew.
    """

    name: str
    state: SymbolState
    base_name: str | None = None
    base: SymbolState | None = None
    _pieces: list[_Piece] = field(default_factory=list)
    _removed: list[tuple[int, int, TimeBounds | None]] = field(default_factory=list)
    _row_kinds: set[str] = field(default_factory=set)
    _schema_kinds: set[str] = field(default_factory=set)
    _claims: list[Claim] = field(default_factory=list)
    _metadata: bool = False

    @classmethod
    def of(cls, name: str, base: SymbolState) -> Working:
        """Return a symbol of the base, unchanged."""
        pieces: list[_Piece] = [_BaseRows(0, base.rows)] if base.rows else []
        return cls(name, base, name, base, pieces)

    @property
    def rows_changed(self) -> bool:
        """Whether its rows are no longer those of the base."""
        return self.base is None or bool(self._row_kinds)

    # --- changing -------------------------------------------------------------------------------

    def splice(self, edits: Sequence[Edit], kind: str, claims: Iterable[Claim] = ()) -> None:
        """Replace rows; positions are those of the symbol as it is now, edits ordered."""
        manifests = spliced(self.state.manifests, edits)
        self.state = dataclasses.replace(self.state, manifests=manifests, rows=rows_of(manifests))
        if self.base is None:
            return
        self._row_kinds.add(kind)
        self._claims.extend(claims)

        def go(piece: _Piece, edit: Edit) -> None:
            if isinstance(piece, _BaseRows):
                self._removed.append((piece.start, piece.stop, edit.touched))

        self._pieces = splice(
            self._pieces,
            edits,
            lambda edit: [_Added(extent, edit.at_end) for extent in edit.extents],
            go,
        )

    def append(self, extents: Sequence[ManifestEntry]) -> None:
        """Add rows at the end, wherever that is at the commit."""
        end = self.state.rows
        edits = []
        if extents:
            first, last = extents[0].first_time, extents[-1].last_time
            touched = None if first is None or last is None else (first, last)
            edits.append(Edit(end, end, tuple(extents), touched, at_end=True))
        self.splice(edits, "append")

    def change_schema(self, schema: TableSchema, ids: Mapping[str, int], kind: str) -> None:
        """Change columns, each with its id."""
        next_id = max(self.state.next_column_id, 1 + max(ids.values()))
        self.state = dataclasses.replace(
            self.state, schema=schema, column_ids=dict(ids), next_column_id=next_id
        )
        self._schema_kinds.add(kind)

    def change_metadata(self, metadata: dict[str, object]) -> None:
        """Replace the metadata."""
        self.state = dataclasses.replace(self.state, metadata=metadata)
        self._metadata = True

    # --- the change -----------------------------------------------------------------------------

    def change(self) -> Change | None:
        """Return what makes the symbol of its base; None for nothing."""
        if self.base is None or self.base_name is None:
            return Replacement(self.name, self.state)
        found = self._row_kinds | self._schema_kinds
        if self._metadata:
            found.add("metadata")
        if self.name != self.base_name:
            found.add("rename")
        if not found:
            return None
        state = self.state
        columns = NewColumns(state.schema, dict(state.column_ids), state.next_column_id)
        return Alteration(
            self.base_name,
            self.base.id,
            tuple(kind for kind in KINDS if kind in found),
            self._edits() if self._row_kinds else (),
            tuple(self._claims) if self._row_kinds else (),
            columns if self._schema_kinds else None,
            dict(state.metadata) if self._metadata else None,
            self.name if self.name != self.base_name else None,
        )

    def _edits(self) -> tuple[Edit, ...]:
        """Return the edits that make the pieces of the base."""
        assert self.base is not None
        edits: list[Edit] = []
        position = 0
        waiting: list[_Added] = []
        for piece in (*self._pieces, _BaseRows(self.base.rows, self.base.rows)):
            if isinstance(piece, _Added):
                waiting.append(piece)
                continue
            split = len(waiting)
            while piece.rows == 0 and split and waiting[split - 1].at_end:
                split -= 1  # at the end of the base, rows for the end stay apart from others
            if split or piece.start > position:
                edits.append(self._edit(position, piece.start, waiting[:split]))
            if waiting[split:]:
                edits.append(self._edit(piece.start, piece.start, waiting[split:], at_end=True))
            position, waiting = piece.stop, []
        return tuple(edits)

    def _edit(
        self, start: int, stop: int, added: Sequence[_Added], *, at_end: bool = False
    ) -> Edit:
        extents = tuple(each.extent for each in added)
        return Edit(start, stop, extents, self._touched(start, stop, extents), at_end)

    def _touched(
        self, start: int, stop: int, extents: Sequence[ManifestEntry]
    ) -> TimeBounds | None:
        known: list[TimeBounds | None] = [
            bounds for low, high, bounds in self._removed if low < stop and start < high
        ]
        for extent in extents:
            if extent.first_time is None or extent.last_time is None:
                return None
            known.append((extent.first_time, extent.last_time))
        found = [bounds for bounds in known if bounds is not None]
        if not found or len(found) < len(known):
            return None
        return min(low for low, _ in found), max(high for _, high in found)


_HINT = "use text, numbers, booleans, None, lists and dictionaries with text keys"


def checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return metadata as they will come back; ``InvalidInputError`` where they would not."""
    if metadata is None:
        return {}
    try:
        # Not escaped, so that halves of surrogate pairs show.
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
        found: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        told = f"the metadata of a symbol are plain JSON: {error}"
        raise InvalidInputError(told, hint=_HINT) from error
    UnicodeTextError.require(text, "the JSON of the metadata")
    if found != dict(metadata):
        told = "the metadata of a symbol would not come back as they are"
        raise InvalidInputError(told, hint=_HINT)
    return found
