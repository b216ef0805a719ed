"""The verbs of ``Repository`` by which many processes, or many small calls, write one symbol.

Workers stage rows, one of them finalises; an appender gathers small calls into commits; compacting
puts together what either has left small.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tessel.errors import CommitConflictError, InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.progress import operation
from tessel.store.history.symbol import SymbolState
from tessel.store.maintenance.upkeep import Upkeep
from tessel.store.manifest.table import SegmentTable

if TYPE_CHECKING:
    from tessel.store.operations.appender import Appender
    from tessel.store.operations.finalize import Mode
    from tessel.store.operations.incoming import Evolve
    from tessel.store.operations.staged import StagedRows
    from tessel.store.operations.symbols import CompactReport
    from tessel.store.operations.write_ids import WriteId
    from tessel.store.transaction import Isolation, Transaction

_MOST_TRIES = 64
"""So often a finalise begins anew because others changed the symbol meanwhile."""


@checks_arguments
class Bulk(Upkeep):
    """A store as something that many write to at a time."""

    @abstractmethod
    def transaction(self, message: str = "", *, isolation: Isolation = "snapshot") -> Transaction:
        """Gather changes of several symbols into one commit."""

    @abstractmethod
    def append(self, symbol: str, data: Any, *, evolve: Evolve = None) -> int:
        """Add rows at the end of a symbol; return the new version."""

    # --- staged writes ----------------------------------------------------------------------------

    def stage(
        self,
        symbol: str,
        data: Any,
        *,
        task_id: str,
        index: str | Literal[False] | None = None,
        sort: bool = False,
    ) -> StagedRows:
        """Write rows for a symbol that nobody sees before :meth:`finalize`; makes no version.

        Any number of processes stage at a time. Rows that are not finalised are collected by
        ``gc`` once they are older than its minimum age.

        Parameters
        ----------
        symbol
            Its name; it need not exist.
        data
            A table of any kind that ``write`` takes, ordered by the index if there is one.
        task_id
            Names the piece of work, the same when it is tried again: of several attempts of one
            task only one counts.
        index
            The time index; by default that of the symbol, or of the table itself. False for none,
            whatever these have.
        sort
            Sort the rows by the index first.

        Returns
        -------
        StagedRows
            Plain data (``to_json()``), to be passed back to whoever finalises.

        Raises
        ------
        InvalidInputError
            In one of its kinds, when the data cannot be taken.

        Examples
        --------
        >>> staged = [store.stage("runs", {"n": [task]}, task_id=str(task)) for task in range(3)]
        >>> store.finalize("runs", staged)
        3
        >>> store.read("runs")["n"].to_pylist()
        [0, 1, 2]
        """
        from tessel.store.operations.stage import Stage
        from tessel.store.operations.staged import stage_rows

        self.check_writable()
        stage = Stage(self.objects, self.history.newest(self.branch), self.manifest)
        with operation("stage", symbol):
            return stage_rows(stage, self.id, symbol, data, task_id=task_id, index=index, sort=sort)

    def finalize(
        self,
        symbol: str,
        staged: Iterable[StagedRows | Mapping[str, Any] | str],
        *,
        mode: Mode = "write",
        sort: bool = False,
        keys: Sequence[str] | None = None,
        create: bool = False,
        attempts: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        write_id: WriteId | None = None,
    ) -> int:
        """Make what workers have staged rows of a symbol, once, in one commit.

        Finalising the same attempts again changes nothing, and returns the version that took them:
        so it can be repeated whenever its answer was lost. Where others change the symbol meanwhile
        so that it cannot land after them, it begins anew by itself; what was merged is merged once.

        Parameters
        ----------
        symbol
            Its name.
        staged
            What :meth:`stage` returned, or the plain data of it; the order is that of the rows.
        mode
            ``"write"`` makes the symbol, or replaces what it was; ``"append"`` adds to its end;
            ``"update"`` replaces the rows in the range of times of those that were staged;
            ``"upsert"`` replaces rows by ``keys`` and adds those of new keys, and reads all that
            was staged into memory for it.
        sort
            Put the rows in the order of time, whatever that of the list; rows of equal times keep
            the order of the list. Only stages whose times overlap are written anew.
        keys
            For an upsert: the columns that tell one row from another.
        create
            Whether a symbol that does not exist is made, whatever the mode.
        attempts
            Which attempt of a task counts; by default the first in the list.
        metadata
            For ``mode="write"``: plain JSON to keep with the symbol.
        write_id
            A name of yours for the write. Where the symbol has it among the last 1,000 that had
            one, nothing is changed, and the version is returned that it became (the newest, where
            that one has expired). The metadata of the symbol tell of them, as ``tessel.writes``.
            Or a batch of a stream, ``tessel.store.StreamBatch``: where it is the last one of the
            stream that the symbol has, nothing is changed, and otherwise it must be the next one.

        Returns
        -------
        int
            The version.

        Raises
        ------
        InvalidInputError
            For what is no descriptor, or not one of this store and symbol; when an attempt was
            finalised before as part of another set; when what was staged has been collected;
            when ``write_id`` was used for another number of rows, or is a batch that does not
            follow the last one; when a key is missing, or is that of several rows.
        SchemaMismatchError
            When tasks staged different columns; names one of them.
        UnsortedIndexError
            When the times of two tasks overlap or go back, without ``sort``; names both.
        CommitConflictError
            When others kept changing the symbol.

        Examples
        --------
        >>> staged = store.stage("names", {"symbol": ["NVDA"], "name": ["Nvidia"]}, task_id="1")
        >>> store.finalize("names", [staged], mode="append")
        3
        """
        from tessel.store.operations.taking import Merged, finalized_in, take_staged
        from tessel.store.operations.write_ids import check_write_id, is_written, version_of

        chosen = take_staged(self.id, symbol, staged, attempts)
        if write_id is not None:
            check_write_id(write_id)
        merged = Merged()
        for remaining in reversed(range(_MOST_TRIES)):
            transaction = self.transaction(f"finalize {symbol}")
            base = self.at(transaction.base_version)
            landed = finalized_in(self.history.line(base), symbol, chosen)
            if landed is not None:
                return landed
            before = base.snapshot.get(symbol)
            if (
                write_id is not None
                and before is not None
                and is_written(before.metadata, symbol, write_id, chosen)
            ):
                found = version_of(self.history.line(base), symbol, write_id)
                return base.number if found is None else found
            try:
                with transaction:
                    transaction.finalize(
                        symbol,
                        chosen,
                        mode=mode,
                        sort=sort,
                        keys=keys,
                        create=create,
                        metadata=metadata,
                        write_id=write_id,
                        merged=merged,
                    )
            except CommitConflictError:
                if not remaining:
                    raise
                continue
            return transaction.landed
        raise AssertionError("the last try returns or raises")

    # --- one writer of many rows ------------------------------------------------------------------

    def appender(
        self,
        symbol: str,
        *,
        flush_rows: int = 10_000,
        flush_interval_ms: int | None = 1_000,
        evolve: Evolve = None,
    ) -> Appender:
        """Gather rows into commits: ``with store.appender("ticks") as ticks: ticks.append(rows)``.

        Rows are durable once ``flush`` has returned, or the block has ended.

        Parameters
        ----------
        symbol
            Its name; it exists.
        flush_rows
            So many rows are committed at once, by the call that brings the last of them.
        flush_interval_ms
            Rows wait no longer than this; None for no limit.
        evolve
            As for ``append``.

        Examples
        --------
        >>> with store.appender("names") as names:
        ...     names.append({"symbol": ["NVDA"], "name": ["Nvidia"]})
        >>> store.read("names").shape
        (3, 2)
        """
        from tessel.store.operations.appender import Appender

        self.check_writable()
        evolve = evolve if evolve is None or isinstance(evolve, str) else tuple(evolve)
        return Appender(
            symbol,
            state=lambda: self._state(symbol)[1],
            commit=lambda rows: self.append(symbol, rows, evolve=evolve),
            resolve=self.resolve,
            flush_rows=flush_rows,
            flush_interval_ms=flush_interval_ms,
            evolve=evolve,
        )

    # --- putting together -------------------------------------------------------------------------

    def compact(
        self, symbol: str, *, target: int | None = None, dry_run: bool = False
    ) -> CompactReport:
        """Merge small segments, and what edits left of others, into full ones; no answer changes.

        It lands beside appends and beside edits of other rows, and takes bounded memory.

        Parameters
        ----------
        symbol
            Its name.
        target
            Rows of a full segment; by default the option ``segment_rows``.
        dry_run
            Only say what would be done.

        Raises
        ------
        CommitConflictError
            When others changed the very rows meanwhile; nothing was changed.

        Examples
        --------
        >>> store.append("names", {"symbol": ["NVDA"], "name": ["Nvidia"]})
        3
        >>> report = store.compact("names")
        >>> report.segments_after
        1
        """
        from tessel.store.operations.symbols import footprint, planned_compaction

        if target is not None and (
            not isinstance(target, int) or isinstance(target, bool) or target < 1
        ):
            raise InvalidInputError(
                f"target={target!r} is no number of rows", hint="give a whole number from 1 on"
            )
        if not dry_run:
            self.check_writable()
        base = self.at(None).number
        state, table = self._segments(symbol, base)
        planned = planned_compaction(symbol, base, table, len(state.schema.names), target=target)
        if dry_run or not planned.rows_rewritten:
            return dataclasses.replace(planned, dry_run=dry_run)
        with self.transaction(f"compact {symbol}") as transaction:
            transaction.compact(symbol, target=target)
        _, table = self._segments(symbol, transaction.landed)
        segments, size = footprint(table)
        return dataclasses.replace(
            planned,
            version=transaction.landed,
            dry_run=False,
            segments_after=segments,
            bytes_after=size,
        )

    def _segments(self, symbol: str, version: int) -> tuple[SymbolState, SegmentTable]:
        _, state = self._state(symbol, version)
        return state, state.segments(self.manifest)
