"""What a commit does to symbols, as values: staged on one version, applied to that or a newer one.

A symbol's rows are a list of extents (:class:`ManifestEntry`). Changing rows is surgery on that
list, so a change costs what it adds, and a retry after a conflict is the same surgery on the newer
list. What can be retried at all is the matter of :mod:`tessel.store.history.rebase`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.history.committed_changes import (
    ROW_KINDS,
    CommittedChange,
    CommittedEdit,
    TimeBounds,
)
from tessel.store.history.snapshot import Overlay
from tessel.store.history.symbol import ManifestEntry, SymbolState, coalesced, rows_of

Claim = tuple[int | None, int | None]
"""Index values ``[from, to]`` in which nobody else may have put rows; None is no bound."""

Symbols = MutableMapping[str, SymbolState]


@dataclass(frozen=True, slots=True)
class Replacement:
    """A symbol is made, or gets a new state in place of what it was."""

    name: str
    state: SymbolState

    kinds: ClassVar[tuple[str, ...]] = ("write",)
    """What the log calls it."""

    def apply(self, symbols: Symbols, number: int) -> CommittedChange:
        """Change ``symbols`` as commit ``number`` does, and return what the log shall record."""
        before = symbols.get(self.name)
        removed = 0 if before is None else before.rows
        state = symbols[self.name] = dataclasses.replace(self.state, changed=number)
        edit = Edit(0, removed, state.manifests).as_committed()
        edits = (edit,) if removed or state.rows else ()
        return CommittedChange(self.name, state.id, self.kinds, state.rows, edits)


@dataclass(frozen=True, slots=True)
class Removal:
    """A symbol ceases to exist."""

    name: str

    kinds: ClassVar[tuple[str, ...]] = ("delete",)
    """What the log calls it."""

    def apply(self, symbols: Symbols, number: int) -> CommittedChange:
        """As that of :class:`Replacement`."""
        before = symbols.pop(self.name)
        edits = (CommittedEdit(0, before.rows, 0),) if before.rows else ()
        return CommittedChange(self.name, before.id, self.kinds, 0, edits)


@dataclass(frozen=True, slots=True)
class Edit:
    """Rows ``[start, stop)`` of a symbol give way to those of some extents.

    Attributes
    ----------
    start, stop
        Positions before the change.
    touched
        Bounds of the index over the rows that go and those that come; None where unknown.
    at_end
        Whether the rows go to the end, wherever that is at the commit.
    """

    start: int
    stop: int
    extents: tuple[ManifestEntry, ...] = ()
    touched: TimeBounds | None = None
    at_end: bool = False

    @property
    def first_time(self) -> int | None:
        """A bound below the index of the rows that come; None without an index or rows."""
        return self.extents[0].first_time if self.extents else None

    @property
    def last_time(self) -> int | None:
        """A bound above the index of the rows that come; None without an index or rows."""
        return self.extents[-1].last_time if self.extents else None

    def moved(self, start: int) -> Edit:
        """Return the edit at another place."""
        return dataclasses.replace(self, start=start, stop=start + self.stop - self.start)

    def as_committed(self) -> CommittedEdit:
        """Return what the log says of it."""
        rows = rows_of(self.extents)
        return CommittedEdit(
            self.start, self.stop, rows, self.first_time, self.last_time, self.touched, self.at_end
        )


@dataclass(frozen=True, slots=True)
class Repacking:
    """Extents of a symbol give way to others of the same rows: nothing that anybody sees changes.

    It takes place where the symbol, whatever was done to it meanwhile, still has these extents side
    by side; elsewhere it is left out, since the old ones go on being valid. So it never conflicts,
    and the log says nothing of it.

    Attributes
    ----------
    name, symbol
        Name of the symbol where this takes place, and its id.
    """

    name: str
    symbol: int
    before: tuple[ManifestEntry, ...]
    after: tuple[ManifestEntry, ...]

    def apply(self, symbols: Symbols, number: int) -> None:
        """Replace the extents where they still lie side by side; the log records nothing."""
        state, width = symbols.get(self.name), len(self.before)
        if state is None or state.id != self.symbol:
            return
        held = state.manifests
        for at in range(len(held) - width + 1):
            if held[at] == self.before[0] and held[at : at + width] == self.before:
                extents = coalesced((*held[:at], *self.after, *held[at + width :]))
                symbols[self.name] = dataclasses.replace(state, manifests=extents)
                return


class NewColumns(NamedTuple):
    """The columns of a symbol as they will be, as in :class:`SymbolState`; rows stay in place."""

    schema: TableSchema
    column_ids: dict[str, int]
    next_column_id: int


@dataclass(frozen=True, slots=True)
class Alteration:
    """What a symbol is changed in: its rows, columns, metadata and name, or some of these.

    Attributes
    ----------
    name, symbol
        Name of the symbol before, and its id.
    kinds
        What the log calls it.
    edits
        Where rows are replaced, taken out or added: ordered and disjoint; two that touch are one,
        except that rows for the end stay apart.
    claims
        Where the change of rows relies on nobody else having put rows.
    columns, metadata, to
        The columns, the metadata and the name that it gets; None where these stay.
    """

    name: str
    symbol: int
    kinds: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    claims: tuple[Claim, ...] = ()
    columns: NewColumns | None = None
    metadata: dict[str, Any] | None = None
    to: str | None = None

    @property
    def row_kinds(self) -> tuple[str, ...]:
        """What the log calls the change of rows."""
        return tuple(kind for kind in self.kinds if kind in ROW_KINDS)

    def apply(self, symbols: Symbols, number: int) -> CommittedChange:
        """As that of :class:`Replacement`."""
        state = dataclasses.replace(symbols[self.name], changed=number)
        if self.row_kinds:
            extents = spliced(state.manifests, self.edits)
            state = dataclasses.replace(state, manifests=extents, rows=rows_of(extents))
        if self.columns is not None:
            state = dataclasses.replace(state, **self.columns._asdict())
        if self.metadata is not None:
            state = dataclasses.replace(state, metadata=self.metadata)
        name, former = (self.name, None) if self.to is None else (self.to, self.name)
        if former is not None:
            del symbols[former]
        symbols[name] = state
        edits = tuple(edit.as_committed() for edit in self.edits)
        return CommittedChange(name, state.id, self.kinds, state.rows, edits, former)


Change = Replacement | Removal | Alteration | Repacking


# --- edits of lists of rows -----------------------------------------------------------------------


class Rows(Protocol):
    """Rows of a symbol that lie side by side."""

    @property
    def rows(self) -> int:
        """How many."""

    def part(self, start: int, stop: int) -> Self:
        """Return rows ``[start, stop)``, counted from the first one."""


Piece = TypeVar("Piece", bound=Rows)


def spliced(extents: Sequence[ManifestEntry], edits: Iterable[Edit]) -> tuple[ManifestEntry, ...]:
    """Return a list of extents after some edits."""
    return coalesced(splice(extents, edits, lambda edit: edit.extents))


def splice(
    pieces: Sequence[Piece],
    edits: Iterable[Edit],
    come: Callable[[Edit], Iterable[Piece]],
    go: Callable[[Piece, Edit], None] = lambda piece, edit: None,
) -> list[Piece]:
    """Return a list of rows after some edits, in one pass over both."""
    made: list[Piece] = []
    rest = list(reversed(pieces))
    position = 0
    for edit in edits:
        for bound, stays in ((edit.start, True), (edit.stop, False)):
            while position < bound:
                piece = rest.pop()
                taken = min(piece.rows, bound - position)
                if taken < piece.rows:
                    rest.append(piece.part(taken, piece.rows))
                position += taken
                part = piece.part(0, taken)
                if stays:
                    made.append(part)
                else:
                    go(part, edit)
        made.extend(come(edit))
    return made + rest[::-1]


@dataclass(slots=True)
class Tried:
    """Changes as commit ``number`` applies them; nothing is written."""

    symbols: Overlay
    number: int
    committed: list[CommittedChange] = field(default_factory=list)

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply further changes."""
        for change in changes:
            found = change.apply(self.symbols, self.number)
            if found is not None:
                self.committed.append(found)


# --- references that were not known when the change was staged ------------------------------------


def resolved(
    change: Change, known: Callable[[int, ManifestEntry], Iterable[ManifestEntry]]
) -> Change:
    """Return a change with every extent replaced by what ``known`` makes of it, by symbol id."""

    def extents(symbol: int, listed: Iterable[ManifestEntry]) -> tuple[ManifestEntry, ...]:
        return tuple(found for each in listed for found in known(symbol, each))

    if isinstance(change, Replacement):
        state = change.state
        manifests = coalesced(extents(state.id, state.manifests))
        return Replacement(change.name, dataclasses.replace(state, manifests=manifests))
    if isinstance(change, Alteration):
        edits = tuple(
            dataclasses.replace(edit, extents=extents(change.symbol, edit.extents))
            for edit in change.edits
        )
        return dataclasses.replace(change, edits=edits)
    return change
