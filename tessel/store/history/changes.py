"""What a commit does to symbols, how it is replayed on a newer state, and what conflicts.

A staged change is relative to the commit it was made on. When another commit lands first, the
change is replayed on the newer state, with the manifests already written, unless the two touch the
same rows. The rules, for two changes of one symbol:

==============  ===========  ==============================================================
ours            theirs       outcome
==============  ===========  ==============================================================
append          append       lands after theirs: always without an index; with one if our
                             first time is not before their last
anything else   anything     conflict
==============  ===========  ==============================================================

Changes of different symbols never conflict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from tessel.ecs.components import RowRange
from tessel.store.history.documents import Fields, damaged
from tessel.store.history.symbol import ManifestEntry, SymbolState

__all__ = ["Change", "Extension", "LandedChange", "Removal", "Replacement", "apply", "conflict"]

_KINDS = ("write", "append", "delete")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A symbol gets a new state, whatever it was before."""

    name: str
    state: SymbolState


@dataclass(frozen=True, slots=True)
class Extension:
    """Rows are added at the end of a symbol.

    Attributes
    ----------
    name, symbol
        Name and id of the symbol.
    added
        The manifests of the new rows.
    folded, fold
        Manifests of the symbol (names of their objects, consecutive) that ``fold`` stands for;
        left alone where they are no longer found.
    """

    name: str
    symbol: int
    added: tuple[ManifestEntry, ...]
    folded: tuple[str, ...] = ()
    fold: ManifestEntry | None = None


@dataclass(frozen=True, slots=True)
class Removal:
    """A symbol ceases to exist."""

    name: str


Change = Replacement | Extension | Removal


@dataclass(frozen=True, slots=True)
class LandedChange:
    """A change of one symbol as the log records it, by row range.

    Attributes
    ----------
    name, symbol
        Name and id of the symbol.
    kind
        ``"write"``, ``"append"`` or ``"delete"``.
    removed
        Rows that went away, in positions before the commit; None for none.
    inserted
        Rows that came, in positions after the commit; None for none.
    first_time, last_time
        Bounds of the index over the inserted rows; None without an index or rows.
    rows
        Rows of the symbol after the commit.
    """

    name: str
    symbol: int
    kind: str
    removed: RowRange | None
    inserted: RowRange | None
    first_time: int | None
    last_time: int | None
    rows: int

    def to_json(self) -> dict[str, Any]:
        """Return the change as plain data."""
        return {
            "name": self.name,
            "symbol": self.symbol,
            "kind": self.kind,
            "removed": _range_json(self.removed),
            "inserted": _range_json(self.inserted),
            "first_time": self.first_time,
            "last_time": self.last_time,
            "rows": self.rows,
        }

    @classmethod
    def read(cls, fields: Fields) -> LandedChange:
        """Read a change from a document."""
        kind = fields.text("kind")
        if kind not in _KINDS:
            damaged(fields.name, f"{kind!r} is no kind of change")
        return cls(
            fields.text("name"),
            fields.integer("symbol"),
            kind,
            _read_range(fields, "removed"),
            _read_range(fields, "inserted"),
            fields.optional_integer("first_time"),
            fields.optional_integer("last_time"),
            fields.integer("rows"),
        )


def _range_json(rows: RowRange | None) -> list[int] | None:
    return None if rows is None else [rows.start, rows.end]


def _read_range(fields: Fields, key: str) -> RowRange | None:
    if fields.value(key) is None:
        return None
    bounds = fields.integers(key)
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        damaged(fields.name, f"its field {key!r} is no range of rows")
    return RowRange(*bounds)


@singledispatch
def apply(change: Change, symbols: MutableMapping[str, SymbolState], number: int) -> LandedChange:
    """Change ``symbols`` as commit ``number`` does, and return what the log shall record."""
    raise TypeError(f"{type(change).__name__} is no change")


@apply.register
def _apply_replacement(
    change: Replacement, symbols: MutableMapping[str, SymbolState], number: int
) -> LandedChange:
    before = symbols.get(change.name)
    state = dataclasses.replace(change.state, changed=number)
    symbols[change.name] = state
    removed = RowRange(0, before.rows) if before is not None and before.rows else None
    inserted = RowRange(0, state.rows) if state.rows else None
    first = state.manifests[0].first_time if state.manifests else None
    return LandedChange(
        change.name, state.id, "write", removed, inserted, first, state.last_time, state.rows
    )


@apply.register
def _apply_extension(
    change: Extension, symbols: MutableMapping[str, SymbolState], number: int
) -> LandedChange:
    before = symbols[change.name]
    rows = before.rows + sum(entry.rows for entry in change.added)
    manifests = (*_with_fold(before.manifests, change), *change.added)
    symbols[change.name] = dataclasses.replace(
        before, rows=rows, manifests=manifests, changed=number
    )
    inserted = RowRange(before.rows, rows) if rows > before.rows else None
    first = change.added[0].first_time if change.added else None
    last = change.added[-1].last_time if change.added else None
    return LandedChange(change.name, before.id, "append", None, inserted, first, last, rows)


@apply.register
def _apply_removal(
    change: Removal, symbols: MutableMapping[str, SymbolState], number: int
) -> LandedChange:
    before = symbols.pop(change.name)
    removed = RowRange(0, before.rows) if before.rows else None
    return LandedChange(change.name, before.id, "delete", removed, None, None, None, 0)


def _with_fold(
    manifests: tuple[ManifestEntry, ...], change: Extension
) -> tuple[ManifestEntry, ...]:
    if change.fold is None:
        return manifests
    names = tuple(entry.reference.object for entry in manifests)
    width = len(change.folded)
    for at in range(len(names) - width + 1):
        if names[at : at + width] == change.folded:
            return (*manifests[:at], change.fold, *manifests[at + width :])
    return manifests


def conflict(ours: Change, theirs: LandedChange) -> str | None:
    """Return why our change cannot land after theirs, or None where it can."""
    if ours.name != theirs.name:
        return None
    if not isinstance(ours, Extension) or theirs.kind != "append" or theirs.symbol != ours.symbol:
        verb = {"write": "written", "append": "appended to", "delete": "deleted"}[theirs.kind]
        return f"symbol {ours.name!r} was {verb}"
    first = ours.added[0].first_time if ours.added else None
    if first is not None and theirs.last_time is not None and first < theirs.last_time:
        return f"rows with later times were appended to symbol {ours.name!r}"
    return None
