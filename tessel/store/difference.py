"""What differs between two versions: symbols, their columns and rows, their segments."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tessel.display.shown import InNotebooks
from tessel.ecs.piece import RowRange, SegmentKey
from tessel.lazy import dataclass
from tessel.store.history.snapshot import changed_symbols
from tessel.store.history.symbol import ManifestEntry, SymbolState
from tessel.store.history.versions import Commit
from tessel.store.timeline import Timeline
from tessel.store.view import SymbolView

_FACTS = (
    *("change", "rows_before", "rows_after", "segments_removed", "segments_added", "columns"),
)

if TYPE_CHECKING:
    from tessel.display.documents import Part


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Rows that a version of a symbol has in one segment.

    Attributes
    ----------
    rows
        The rows, counted in the symbol at that version.
    first
        Which row of the segment the first of them is.
    """

    key: SegmentKey
    rows: RowRange
    first: int

    def between(self, start: int, stop: int) -> SegmentRows:
        """Return the part from row ``start`` of the segment to ``stop``."""
        moved = self.rows.start - self.first
        return SegmentRows(self.key, RowRange(start + moved, stop + moved), start)


@dataclass(frozen=True, slots=True)
class SymbolDifference:
    """What differs in a symbol that both versions have.

    Attributes
    ----------
    symbol
        Its name.
    recreated
        Whether it was deleted and made anew in between.
    rows_before, rows_after
        How many rows it has.
    columns_added, columns_removed
        Names that only the later, only the earlier version has; a column that was renamed is in
        neither.
    columns_renamed
        Earlier and later name.
    columns_retyped
        Name, earlier and later type.
    index_before, index_after
        The time index; None without one.
    metadata_before, metadata_after
        What the writer attached to it.
    segments_removed, segments_added
        Rows of segments that only the earlier, only the later version refers to. Rows that have
        other positions now, because of rows before them, are in neither.
    """

    symbol: str
    recreated: bool
    rows_before: int
    rows_after: int
    columns_added: tuple[str, ...]
    columns_removed: tuple[str, ...]
    columns_renamed: tuple[tuple[str, str], ...]
    columns_retyped: tuple[tuple[str, str, str], ...]
    index_before: str | None
    index_after: str | None
    metadata_before: dict[str, Any]
    metadata_after: dict[str, Any]
    segments_removed: tuple[SegmentRows, ...]
    segments_added: tuple[SegmentRows, ...]

    def facts(self) -> dict[str, str | int | None]:
        """Return the difference in a line: counts, and what became of columns."""
        columns = [f"+{name}" for name in self.columns_added]
        columns += [f"-{name}" for name in self.columns_removed]
        columns += [f"{old} → {new}" for old, new in self.columns_renamed]
        columns += [f"{name}: {old} → {new}" for name, old, new in self.columns_retyped]
        return {
            "change": "recreated" if self.recreated else "changed",
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
            "segments_removed": len(self.segments_removed),
            "segments_added": len(self.segments_added),
            "columns": ", ".join(columns) or None,
        }


@dataclass(frozen=True, slots=True)
class Difference(InNotebooks):
    """What differs between two versions of a store.

    Attributes
    ----------
    before, after
        Their numbers.
    added, removed
        Symbols that only the later, only the earlier one has, sorted.
    changed
        Symbols that both have and that differ, sorted by name.
    """

    before: int
    after: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[SymbolDifference, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    @property
    def rows(self) -> list[dict[str, str | int | None]]:
        """A row for each symbol, by name: how it differs; all rows have the same names."""
        found: dict[str, dict[str, str | int | None]]
        found = {name: {"change": "added"} for name in self.added}
        found |= {name: {"change": "removed"} for name in self.removed}
        found |= {each.symbol: each.facts() for each in self.changed}
        return [
            {"symbol": name, **dict.fromkeys(_FACTS, None), **found[name]} for name in sorted(found)
        ]

    def _document(self) -> Part:
        from tessel.display.documents import Table

        title = f"version {self.before} → {self.after}"
        rows = tuple(tuple(row.values()) for row in self.rows)
        return Table(title, ("symbol", *_FACTS), rows)


def difference(store: Timeline, before: Commit, after: Commit) -> Difference:
    """Compare two versions; what they share is not read."""
    added: list[str] = []
    removed: list[str] = []
    changed: list[SymbolDifference] = []
    for name, was, becomes in changed_symbols(before.snapshot, after.snapshot):
        if was is None:
            added.append(name)
        elif becomes is None:
            removed.append(name)
        else:
            found = _of_symbol(store, name, was, becomes)
            if found is not None:
                changed.append(found)
    return Difference(before.number, after.number, tuple(added), tuple(removed), tuple(changed))


def _of_symbol(
    store: Timeline, name: str, was: SymbolState, becomes: SymbolState
) -> SymbolDifference | None:
    """Compare two states; None where they are one content that is packed in other manifests."""
    before, after = _segments(store, name, was, becomes), _segments(store, name, becomes, was)
    if _without_places(was) == _without_places(becomes) and _placed(before) == _placed(after):
        return None
    same = was.id == becomes.id
    names_before = {column_id: column for column, column_id in was.column_ids.items()}
    renamed = tuple(
        (names_before[column_id], column)
        for column, column_id in becomes.column_ids.items()
        if same and names_before.get(column_id, column) != column
    )
    left, right = set(was.column_ids), set(becomes.column_ids)
    gone = left - right - {old for old, _ in renamed}
    new = right - left - {new for _, new in renamed}
    retyped = [
        (column, str(was.schema.type_of(column)), str(becomes.schema.type_of(column)))
        for column in becomes.schema.names
        if column in left and was.schema.type_of(column) != becomes.schema.type_of(column)
    ]
    return SymbolDifference(
        symbol=name,
        recreated=not same,
        rows_before=was.rows,
        rows_after=becomes.rows,
        columns_added=tuple(column for column in becomes.schema.names if column in new),
        columns_removed=tuple(column for column in was.schema.names if column in gone),
        columns_renamed=renamed,
        columns_retyped=tuple(retyped),
        index_before=was.schema.index,
        index_after=becomes.schema.index,
        metadata_before=dict(was.metadata),
        metadata_after=dict(becomes.metadata),
        segments_removed=_without(before, after),
        segments_added=_without(after, before),
    )


def _without_places(state: SymbolState) -> SymbolState:
    return dataclasses.replace(state, manifests=(), changed=0, next_column_id=0)


def _placed(segments: Sequence[SegmentRows]) -> dict[SegmentKey, list[tuple[int, int, int]]]:
    """Return where the rows of each segment are, however manifests cut them: from, to, first."""
    found: dict[SegmentKey, list[tuple[int, int, int]]] = {}
    for segment in segments:
        pieces = found.setdefault(segment.key, [])
        start, stop, first = segment.rows.start, segment.rows.end, segment.first
        if pieces and pieces[-1][1] == start and first - pieces[-1][2] == start - pieces[-1][0]:
            start, _, first = pieces.pop()
        pieces.append((start, stop, first))
    return found


def _without(ours: Sequence[SegmentRows], theirs: Sequence[SegmentRows]) -> tuple[SegmentRows, ...]:
    """Return what ours have of each segment beyond theirs, in the order of ours."""
    taken: dict[SegmentKey, list[tuple[int, int]]] = {}
    for segment in theirs:
        end = segment.first + len(segment.rows)
        taken.setdefault(segment.key, []).append((segment.first, end))
    left: list[SegmentRows] = []
    for segment in ours:
        start, end = segment.first, segment.first + len(segment.rows)
        for low, high in sorted(taken.get(segment.key, ())):
            if high > start and low < end:
                if low > start:
                    left.append(segment.between(start, low))
                start = high
        if start < end:
            left.append(segment.between(start, end))
    return tuple(left)


def _segments(
    store: Timeline, name: str, state: SymbolState, other: SymbolState
) -> list[SegmentRows]:
    """Return the segments of a state, without those in manifests that both begin or end with."""
    start, stop = _unshared(state.manifests, other.manifests)
    kept = state.manifests[start:stop]
    rows_before = sum(entry.rows for entry in state.manifests[:start])
    part = dataclasses.replace(state, manifests=kept, rows=sum(entry.rows for entry in kept))
    index = SymbolView(store, name, 0, part).index()
    pieces = (index.source(position) for position in range(len(index)))
    return [
        SegmentRows(
            piece.key,
            RowRange(rows_before + piece.row_start, rows_before + piece.row_stop),
            piece.segment_row_start,
        )
        for piece in pieces
    ]


def _unshared(ours: Sequence[ManifestEntry], theirs: Sequence[ManifestEntry]) -> tuple[int, int]:
    most = min(len(ours), len(theirs))
    start = next((at for at in range(most) if ours[at] != theirs[at]), most)
    most -= start
    end = next((at for at in range(most) if ours[-1 - at] != theirs[-1 - at]), most)
    return start, len(ours) - end
