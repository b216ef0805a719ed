"""Reads the rows that come to a symbol as a stream, and writes batches of a stream as rows of one.

Spark keeps one process for the driver's side of a stream. It asks how far the next batch goes,
which the log of the store answers, and for its partitions, which are those of the batch reader.
They read the newest version that has the rows where they were: what is compacted meanwhile shows
nothing, and a thousand small commits are read at once. Until Spark has the batch, a lease keeps
that version.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tessel.clauses.builder import QueryBuilder
from tessel.clauses.combining import Combining
from tessel.errors import InvalidInputError, NotAStoreError, OptionError, PlanError
from tessel.errors.names import suggestion
from tessel.lazy import dataclass
from tessel.pipeline.plan import cut_stages
from tessel.spark_exec.source.options import StreamOptions
from tessel.spark_exec.source.reader import Pin, made_reader, needs_no_exchange
from tessel.spark_exec.source.writer import StagingWriter, came_back
from tessel.store.added_rows import Edit, Run, added_rows
from tessel.store.operations.write_ids import StreamBatch
from tessel.store.repository import Repository


@dataclass(frozen=True)
class Offset:
    """How far a stream has come; Spark keeps it as JSON in the checkpoint.

    Attributes
    ----------
    store
        The id of the store.
    version
        A version; 0 before the first batch, which begins with all rows that are there then.
    rows
        How many rows of the symbol, as it is at that version, have been given.
    """

    store: str
    version: int
    rows: int

    @classmethod
    def of(cls, told: Any, store: str) -> Self:
        """Return the offset that Spark tells.

        Raises
        ------
        InvalidInputError, NotAStoreError
            For what is none, or is one of another store.
        """
        match told:
            case {"store": str(owner), "version": int(version), "rows": int(rows)} if (
                len(told) == 3 and version >= 0 and rows >= 0
            ):
                found = cls(owner, version, rows)
            case _:
                raise InvalidInputError(
                    f"{told!r:.80} is no offset of a symbol",
                    hint="the checkpoint is of another source; give this stream one of its own",
                )
        if found.store != store:
            raise NotAStoreError(
                "the checkpoint is of another store than the one that is there now",
                hint="begin anew with another checkpoint, or put the store back",
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the offset as plain data."""
        return dataclasses.asdict(self)


def made_stream_reader(
    asked: StreamOptions, declared: StructType, slots: int
) -> SymbolStreamReader:
    """Check what is to be read, and return what reads it.

    Raises
    ------
    PlanError
        For a query that does more than to treat each row by itself.
    """
    repository = asked.read.place.opened(read_only=True)
    clauses = asked.read.query.clauses
    schema = repository.view(asked.read.place.symbol).schema
    combines = any(isinstance(clause, Combining) for clause in clauses)
    if combines or not all(map(needs_no_exchange, cut_stages(clauses, schema))):
        raise PlanError(
            "the query of a stream treats each row by itself, and this one puts rows together",
            hint="filter, apply, select, … go here; group, join and sort the stream in Spark",
        )
    return SymbolStreamReader(asked, declared, slots)


class SymbolStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gives the rows that come to a symbol, each once and in order.

    Parameters
    ----------
    asked
        What was asked for.
    declared
        The columns in Spark.
    slots
        Tasks that run at a time.
    """

    def __init__(self, asked: StreamOptions, declared: StructType, slots: int) -> None:
        self._asked = asked
        self._declared = declared
        self._slots = slots
        self._until: int | None = None
        # Both are made in the driver's process: what is sent to tasks has neither.
        self._opened: Repository | None = None
        self._open_batch: contextlib.ExitStack | None = None

    # --- how far --------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  (these are Spark's names)
        """Return where the stream begins; the same as long as no batch has been given."""
        store = self._store()
        if self._asked.starting_version is None:
            return Offset(store.id, 0, 0).to_json()
        version = self._asked.starting_version
        if isinstance(version, str) and version not in store.tags():
            raise OptionError(
                f"option 'starting_version' is the number of a version or a tag, not {version!r}",
                option="starting_version",
                **suggestion(version, list(store.tags()), "tags"),
            )
        commit = store.at(version)
        state = commit.snapshot.get(self._asked.read.place.symbol)
        return Offset(store.id, commit.number, 0 if state is None else state.rows).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return a limit that says which of the options is set; :meth:`latestOffset` obeys both."""
        if self._asked.max_bytes is not None:
            return ReadMaxBytes(self._asked.max_bytes)
        if self._asked.max_versions is not None:
            return ReadMaxFiles(self._asked.max_versions)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let what is there now be all."""
        self._until = self._store().newest

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far the next batch goes; ``start`` where there is nothing to give.

        Raises
        ------
        InvalidInputError
            Where the next commit did something else than to add rows, unless edits are skipped.
        SnapshotExpiredError
            Where what comes next has expired.
        """
        begun = Offset.of(start, self._store().id)
        bounded = not isinstance(limit, ReadAllAvailable)
        return self._admitted(begun, bounded=bounded).to_json()

    def _admitted(self, begun: Offset, *, bounded: bool) -> Offset:
        versions = self._asked.max_versions if bounded else None
        budget = self._asked.max_bytes if bounded else None
        end, taken = begun, 0
        for run in self._runs(begun, begun):
            if run.after is not None and self._asked.on_edit == "error":
                if end == begun:
                    raise self._edited(run.after)
                return end
            most = run.stop
            if budget is not None:
                most, cost = self._within(run, budget, least=end == begun)
                budget -= cost
            position = run.start
            for version, rows in run.reached:
                if rows <= position:
                    # Commits without rows are passed as well: they may expire before rows come.
                    end = Offset(begun.store, version, rows) if rows == position else end
                    continue
                if taken == versions or most == position:
                    return end
                end = Offset(begun.store, version, min(rows, most))
                if most < rows:
                    return end
                position, taken = rows, taken + 1
        return end

    def _edited(self, edit: Edit) -> InvalidInputError:
        symbol = self._asked.read.place.symbol
        return InvalidInputError(
            f"version {edit.version} changed symbol {symbol!r} by {edit.kind!r}, and a stream "
            "gives rows that are added",
            hint='option("on_edit", "skip") passes over such commits, and over the rows that they '
            "bring; or begin anew with another checkpoint",
            symbol=symbol,
            version=edit.version,
        )

    def _within(self, run: Run, budget: int, *, least: bool) -> tuple[int, int]:
        """Return the row up to which a run keeps to so many stored bytes, and the bytes.

        It is that of whole slices, and of one at the least if ``least``.
        """
        index = self._store().view(self._asked.read.place.symbol, run.version).index()
        ends = index.slice_row_end
        sizes = np.bincount(index.slice_number, weights=index.bytes, minlength=len(ends))
        wanted = (ends > run.start) & (index.slice_row_start < run.stop)
        totals = np.cumsum(sizes[wanted])
        count = int(np.searchsorted(totals, budget, side="right"))
        count = max(count, 1) if least else count
        if not count or not len(totals):
            return run.start, 0
        return min(int(ends[wanted][count - 1]), run.stop), int(totals[count - 1])

    def _runs(self, begun: Offset, end: Offset) -> list[Run]:
        """Return the runs from an offset on; before the first batch, from the first row on."""
        store = self._store()
        until = store.at(self._until)
        since = begun.version or end.version or until.number
        return added_rows(store, self._asked.read.place.symbol, since, begun.rows, until)

    # --- a batch --------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what each task of a batch reads, in the order of the rows."""
        store = self._store()
        begun, ended = Offset.of(start, store.id), Offset.of(end, store.id)
        self.stop()
        if begun == ended:
            return []
        runs = self._runs(begun, ended)
        parts: list[tuple[int, int, int]] = []
        for run, following in itertools.zip_longest(runs, runs[1:]):
            last = following is None or following.reached[0][0] > ended.version
            stop = ended.rows if last else run.stop
            if run.start < stop:
                parts.append((run.version, run.start, stop))
            if last:
                break
        self._open_batch = contextlib.ExitStack()
        versions = {version for version, _, _ in parts}
        self._open_batch.enter_context(store.reading(*versions, at_once=True))
        return [each for part in parts for each in self._planned(store.id, *part)]

    def _planned(self, store: str, version: int, start: int, stop: int) -> Iterator[InputPartition]:
        asked = self._asked.read
        query = QueryBuilder().row_range(start, stop).then(*asked.query.clauses)
        query = query.select(self._declared.names)  # columns that came later are not shown
        asked = dataclasses.replace(asked, query=query)
        reader = made_reader(asked, Pin(store, version), self._declared, self._slots)
        for partition in reader.partitions():
            yield InputPartition((reader, partition))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of a partition; runs in a task."""
        reader, told = partition.value
        yield from reader.read(told)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Give up the lease of the batch that Spark has."""
        self.stop()

    def stop(self) -> None:
        """Give up the lease of a batch that is open."""
        if self._open_batch is not None:
            self._open_batch.close()
            self._open_batch = None

    def _store(self) -> Repository:
        if self._opened is None:
            self._opened = self._asked.read.place.opened(read_only=False)
        return self._opened


class StreamWriter(StagingWriter, DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each once."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Make the rows of a batch those of the symbol, in one commit, unless they are already."""
        staged = came_back(messages)
        queries = [each.query for each in staged if each.query is not None]
        named = self.asked.write_id
        assert isinstance(named, StreamBatch)
        self.finalize_staged(
            staged, dataclasses.replace(named, number=batch, query=next(iter(queries), None))
        )
