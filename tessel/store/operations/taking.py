"""Which staged rows count, each of them once; and what a finalise has merged of them.

Descriptors come from outside and are checked. Merging reads all rows of stages that overlap and
writes them again. Where the commit cannot land after what others did meanwhile, the rows are the
same when it is tried again, and mostly so are the columns they go into.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tessel.errors import (
    CorruptStoreError,
    InvalidInputError,
    LeaseExpiredError,
    NotFoundError,
    TesselError,
)
from tessel.store.history.log import LogEntry
from tessel.store.history.rebase import Objection
from tessel.store.history.symbol import SymbolState
from tessel.store.names import check_symbol_name, segment_name
from tessel.store.operations.stage import Stage
from tessel.store.operations.staged import StagedRows
from tessel.store.operations.write_ids import WriteId, id_of, logged_id
from tessel.store.segment.writer import WrittenSlice

FINALIZED = "finalized"
"""The key of a commit's metadata under which it says which attempts it took, by symbol."""


def take_staged(
    store: str, symbol: str, staged: Iterable[Any], attempts: Mapping[str, str] | None = None
) -> list[StagedRows]:
    """Check descriptors, and return one attempt of each task, in the order of the tasks.

    Raises InvalidInputError for what is no descriptor, of another store or symbol, or for none at
    all.
    """
    check_symbol_name(symbol)
    if isinstance(staged, StagedRows | Mapping | str) or not isinstance(staged, Iterable):
        raise InvalidInputError(
            f"finalize takes a list of what stage() returned, not {type(staged).__name__}",
            hint="finalize(symbol, [staged, …])",
        )
    wanted = dict(attempts or {})
    chosen: dict[str, StagedRows] = {}
    for given in staged:
        # What is an object already may have been changed as well.
        each = StagedRows.from_json(given.to_json() if isinstance(given, StagedRows) else given)
        if each.store != store:
            raise InvalidInputError(
                f"task {each.task!r} was staged in another store",
                hint="stage and finalize in one store",
                task=each.task,
            )
        if each.symbol != symbol:
            raise InvalidInputError(
                f"task {each.task!r} was staged for symbol {each.symbol!r}, not {symbol!r}",
                hint=f"stage it for {symbol!r}, or finalize {each.symbol!r}",
                task=each.task,
                symbol=each.symbol,
            )
        if wanted.get(each.task, each.attempt) == each.attempt:
            chosen.setdefault(each.task, each)
    for task, attempt in wanted.items():
        if task not in chosen:
            raise InvalidInputError(
                f"attempt {attempt!r} of task {task!r} is not among what was staged",
                hint="attempts= maps tasks to attempts of the list",
                task=task,
            )
    if not chosen:
        raise InvalidInputError(
            "nothing was staged: finalize got no descriptor",
            hint="a task without rows stages a table without rows, which has columns",
            symbol=symbol,
        )
    return list(chosen.values())


def finalized_in(
    entries: Iterable[LogEntry], symbol: str, staged: Sequence[StagedRows]
) -> int | None:
    """Return the version that took these attempts already; None where none did.

    Raises InvalidInputError when one took some of them, but not all, or others with them; when one
    may have taken them that has expired.

    Parameters
    ----------
    entries
        The versions of the branch, the newest first.
    """
    ours = {each.attempt: each for each in staged}
    oldest = min(each.base for each in staged)
    before = 0
    for entry in entries:
        if entry.number <= oldest:
            return None
        before = entry.parent
        taken = _attempts_of(entry, symbol)
        shared = taken & set(ours)
        if not shared:
            continue
        if taken == set(ours):
            return entry.number
        tasks = sorted(ours[attempt].task for attempt in shared)
        raise InvalidInputError(
            f"version {entry.number} has taken some of these rows already, but not the same set: "
            f"tasks {', '.join(map(repr, tasks[:5]))}{' …' if len(tasks) > 5 else ''}",
            hint="finalize the others alone, or the same set as before",
            version=entry.number,
            symbol=symbol,
            tasks=tasks,
        )
    if before > oldest:
        raise InvalidInputError(
            f"nobody knows whether these rows were finalised already: version {before}, which is "
            "newer than they are, has expired",
            hint="look whether the symbol has them; if not, stage them again",
            version=before,
            symbol=symbol,
        )
    return None


def discard_staged(store: Any, symbol: str, staged: Sequence[StagedRows]) -> None:
    """Delete what was staged and is part of no version: all of it, where no commit took it.

    The version that took it is looked for, and what that refers to stays; versions after it have
    rows of these stages from there alone. What cannot be deleted is left to ``gc``.
    """
    if not staged:
        return

    def objects(state: SymbolState) -> set[str]:
        names = set(map(segment_name, state.segments(store.manifest).object.unique().to_pylist()))
        return names | {extent.reference.object for extent in state.manifests}

    with contextlib.suppress(TesselError):
        version = finalized_in(store.history.line(store.at(None)), symbol, staged)
        landed = None if version is None else store.at(version).snapshot.get(symbol)
        kept = set() if landed is None else objects(landed)
        for name in set().union(*(objects(each.state) for each in staged)) - kept:
            store.objects.delete(name)


def objection(
    symbol: str, staged: Sequence[StagedRows], write_id: WriteId | None = None
) -> Objection:
    """Return what objects to landing after a commit that took one of these attempts, or is it."""
    ours = {each.attempt for each in staged}
    logged = None if write_id is None else logged_id(write_id)

    def object_to(entry: LogEntry) -> tuple[str, str] | None:
        if logged is not None and id_of(entry, symbol) == logged:
            return f"it is the write {logged!r} of symbol {symbol!r}", symbol
        if ours.isdisjoint(_attempts_of(entry, symbol)):
            return None
        return f"it took rows that were staged for symbol {symbol!r}", symbol

    return object_to


def _attempts_of(entry: LogEntry, symbol: str) -> set[str]:
    found = entry.metadata.get(FINALIZED)
    listed = found.get(symbol) if isinstance(found, Mapping) else None
    return {each for each in listed if isinstance(each, str)} if isinstance(listed, list) else set()


_Key: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, int, str], ...]]


class Merged:
    """Segments that tries of one finalise have written; used by one thread."""

    def __init__(self) -> None:
        self._slices: dict[_Key, list[WrittenSlice]] = {}
        self._stage: Stage | None = None

    def begin(self, stage: Stage, survived: Callable[[], None]) -> None:
        """Begin a try; drop what was written before unless all of it is there and will stay.

        Parameters
        ----------
        survived
            Raises ``LeaseExpiredError`` where an object of the transaction was condemned.
        """
        self._stage = stage
        written = itertools.chain.from_iterable(self._slices.values())
        names = sorted({segment.key.object for each in written for segment in each.segments})
        try:
            for name in names:
                stage.objects.size(name)
            stage.session.adopt(names)
            survived()
        except (NotFoundError, CorruptStoreError, LeaseExpiredError):
            stage.session.disown(names)
            self._slices.clear()

    def written(
        self,
        group: Sequence[StagedRows],
        target: SymbolState,
        rows: Callable[[], Iterable[pa.Table]],
    ) -> list[WrittenSlice]:
        """Return the segments of some stages in the columns of a symbol, written at most once."""
        assert self._stage is not None
        attempts = tuple(each.attempt for each in group)
        columns = [(f.name, target.column_ids[f.name], str(f.type)) for f in target.schema.arrow]
        key = attempts, tuple(columns)
        if key not in self._slices:
            self._slices[key] = self._stage.write_segments(target, rows())
        return self._slices[key]
