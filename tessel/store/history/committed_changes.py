"""Changes as log entries record them: enough to tell whether another one can be rebased onto them.

Positions are those of the symbol before the commit. Everything is plain JSON, and checked before it
is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tessel.cached import cached
from tessel.lazy import dataclass
from tessel.store.history.documents import Fields, damaged, fields_of

DONE = {
    "write": "was written",
    "append": "got rows appended",
    "update": "had rows updated",
    "upsert": "had rows upserted",
    "delete rows": "had rows deleted",
    "delete": "was deleted",
    "rename": "was renamed",
    "rename column": "had a column renamed",
    "add column": "got a new column",
    "fill column": "got a new column with values",
    "drop column": "had a column dropped",
    "widen": "had a column widened",
    "metadata": "got other metadata",
    "compact": "was compacted",
}
"""By each kind of change what a symbol went through, as conflicts say it."""

KINDS = tuple(DONE)
"""What can be done to a symbol; the conflict matrix has a row and a column for each."""

ROW_KINDS = frozenset({"append", "update", "upsert", "delete rows", "fill column", "compact"})
"""The kinds that are edits of rows."""

TimeBounds = tuple[int, int]
"""Bounds of index values, both included, in the index's own integer unit."""

_EDIT_FIELDS = 8
_LARGEST = 2**63


@dataclass(frozen=True, slots=True)
class CommittedEdit:
    """One edit of a commit: rows removed at one position of a symbol, and rows inserted there.

    Attributes
    ----------
    start, stop
        The rows removed, ``[start, stop)``.
    first_time, last_time
        Bounds of the index over the rows inserted; None without an index or rows.
    touched
        Bounds of the index over the rows removed and inserted; None where unknown.
    at_end
        Whether the rows were added at the end, wherever that is.
    """

    start: int
    stop: int
    inserted: int
    first_time: int | None = None
    last_time: int | None = None
    touched: TimeBounds | None = None
    at_end: bool = False

    @property
    def growth(self) -> int:
        """How many rows there are more afterwards."""
        return self.inserted - (self.stop - self.start)

    def to_json(self) -> list[Any]:
        """Return the edit as plain data."""
        low, high = (None, None) if self.touched is None else self.touched
        return [
            self.start, self.stop, self.inserted, self.first_time, self.last_time, low, high,
            self.at_end,
        ]  # fmt: skip

    @classmethod
    def read(cls, value: Any, name: str) -> CommittedEdit:
        """Read an edit from a document called ``name``."""
        if not isinstance(value, list) or len(value) != _EDIT_FIELDS:
            damaged(name, "a change of rows has not the fields of one")
        *numbers, at_end = value
        for place, number in enumerate(numbers):
            if number is None and place >= 3:
                continue
            least = 0 if place < 3 else -_LARGEST
            if not isinstance(number, int) or isinstance(number, bool):
                damaged(name, f"a change of rows holds {number!r:.50}, which is no number")
            if not least <= number < _LARGEST:
                damaged(name, f"a change of rows holds the impossible number {number}")
        start, stop, inserted, first, last, low, high = numbers
        if start > stop or not isinstance(at_end, bool) or (low is None) != (high is None):
            damaged(name, "a change of rows contradicts itself")
        return cls(start, stop, inserted, first, last, None if low is None else (low, high), at_end)


@dataclass(frozen=True, slots=True)
class CommittedChange:
    """All that one commit did to one symbol.

    Attributes
    ----------
    name, symbol
        Name of the symbol after the commit (its last one, where it was deleted), and its id.
    kinds
        What was done, of :data:`KINDS`.
    edits
        Where rows went and came: ordered, disjoint.
    former
        The name before the commit, where it was another one.
    """

    name: str
    symbol: int
    kinds: tuple[str, ...]
    rows: int
    edits: tuple[CommittedEdit, ...] = ()
    former: str | None = None

    @property
    def kind(self) -> str:
        """What was done, in words."""
        return ", ".join(self.kinds)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the symbol had before and after the commit."""
        return (self.name,) if self.former is None else (self.former, self.name)

    def to_json(self) -> dict[str, Any]:
        """Return the change as plain data, with edits that have ``to_json``."""
        return fields_of(self)

    @classmethod
    def read(cls, fields: Fields) -> CommittedChange:
        """Read a change from a document."""
        kinds = fields.sequence("kinds")
        if not kinds:
            damaged(fields.name, "a change does not say what it is")
        for kind in kinds:
            if kind not in KINDS:
                damaged(fields.name, f"{kind!r:.50} is no kind of change")
        edits = tuple(CommittedEdit.read(each, fields.name) for each in fields.sequence("edits"))
        _check_order(edits, fields.name)
        name, former = fields.text("name"), fields.optional_text("former")
        symbol, rows = map(fields.integer, ("symbol", "rows"))
        return cls(name, symbol, tuple(kinds), rows, edits, former)


class CommittedChanges:
    """The changes of an entry that was read, decoded and checked when they are first asked for.

    One commit may change 10,000 symbols, and most entries are read for their place in the history.
    """

    def __init__(self, documents: Iterable[Any] = (), name: str = "") -> None:
        self._documents, self._name = documents, name

    def __iter__(self) -> Iterator[CommittedChange]:
        return iter(self._decoded)

    def __len__(self) -> int:
        return len(self._decoded)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and self._decoded == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> list[CommittedChange]:
        """Return the changes as a list."""
        return list(self)

    @cached
    def _decoded(self) -> tuple[CommittedChange, ...]:
        return tuple(CommittedChange.read(Fields(each, self._name)) for each in self._documents)


def _check_order(edits: Iterable[CommittedEdit], name: str) -> None:
    last = 0
    for edit in edits:
        if edit.start < last:
            damaged(name, "the changes of rows of a symbol are not in order")
        last = edit.stop
