"""Which rows came to a symbol after a version, as the log tells: what a stream reads.

Rows that are added to the end keep their positions until an edit, whatever is compacted, renamed or
filled meanwhile. So they are read in runs, each at one version, however many commits brought them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tessel.errors import InvalidInputError, SnapshotExpiredError
from tessel.lazy import dataclass
from tessel.store.history.committed_changes import CommittedChange
from tessel.store.history.log import LogEntry
from tessel.store.history.versions import Commit
from tessel.store.timeline import Timeline

_EDITS = frozenset({"write", "update", "upsert", "delete rows", "delete", "rename"})
"""Kinds of changes that may do more than add rows to the end."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A commit that did something else to a symbol than to add rows to its end."""

    version: int
    kind: str


@dataclass(frozen=True, slots=True)
class Run:
    """Rows ``[start, stop)`` of a symbol that came one after another, without an edit between.

    Attributes
    ----------
    version
        The newest version that has them there.
    reached
        Versions and how many rows the symbol had after each, ascending, from the one that the run
        begins with.
    after
        The edit that it begins behind; None for the first run.
    """

    start: int
    stop: int
    version: int
    reached: tuple[tuple[int, int], ...]
    after: Edit | None


def added_rows(store: Timeline, symbol: str, since: int, rows: int, until: Commit) -> list[Run]:
    """Return the rows that a symbol got behind a position, in runs between edits.

    Raises SnapshotExpiredError where what came after ``since`` has expired; tells the oldest
    version that is kept; InvalidInputError for a version that is not on the line, and a number of
    rows that the symbol did not have.

    Parameters
    ----------
    since, rows
        A version, and how many rows that it has at that version are known.
    until
        The version up to which the line of versions is looked at.
    """
    runs: list[Run] = []
    first, start, after = since, rows, None
    grown: list[tuple[int, int, int]] = []

    def run(stop: int, version: int) -> Run:
        if start > stop:
            raise InvalidInputError(
                f"symbol {symbol!r} had {stop} rows at version {version}, and not {start}",
                hint="the position is of another symbol or store, or somebody changed it",
                symbol=symbol,
            )
        behind = [(number, held) for number, _, held in grown]
        return Run(start, stop, version, ((first, grown[0][1] if grown else stop), *behind), after)

    for number, change in reversed(list(_changes(store, symbol, since, until))):
        held = change.rows if change.name == symbol else 0
        before = change.rows - sum(edit.growth for edit in change.edits)
        if _adds_only(change, before):
            grown.append((number, before, held))
            continue
        runs.append(run(before, grown[-1][0] if grown else first))
        first, start, after, grown = number, held, Edit(number, change.kind), []
    state = until.snapshot.get(symbol)
    return [*runs, run(0 if state is None else state.rows, until.number)]


def _adds_only(change: CommittedChange, before: int) -> bool:
    """Whether rows that a symbol had before keep their positions and their values."""
    return change.former is None and (
        _EDITS.isdisjoint(change.kinds)
        or ("delete" not in change.kinds and all(e.start == e.stop == before for e in change.edits))
    )


def _changes(
    store: Timeline, symbol: str, since: int, until: Commit
) -> Iterator[tuple[int, CommittedChange]]:
    """Yield what was done to a symbol after a version, the newest first."""
    oldest: LogEntry | None = None
    for entry in store.history.line(until):
        if entry.number <= since:
            oldest = None if entry.number == since else entry
            break
        oldest = entry
        for change in entry.changes:
            if symbol in change.names:
                yield entry.number, change
    if oldest is None or oldest.parent == since:
        return
    if oldest.parent < since:
        raise InvalidInputError(
            f"version {since} does not lie on branch {until.branch!r}, which was set back or made "
            "anew since",
            hint="begin anew: with another checkpoint, or another starting_version",
            version=since,
        )
    # What lies between has expired. Nothing is lost if it did not change the symbol.
    state = store.at(oldest.number).snapshot.get(symbol)
    if state is None or state.changed > since:
        raise SnapshotExpiredError(
            f"what became of symbol {symbol!r} after version {since} has expired",
            hint=f"version {oldest.number} is the oldest that is kept. Begin anew with another "
            f'checkpoint: there, with option("starting_version", {oldest.number}), or without it '
            "with all rows. expire() that leaves more versions avoids this",
            version=str(since),
            oldest=oldest.number,
            newest=until.number,
        )
