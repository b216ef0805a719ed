"""Writes a DataFrame as rows of a symbol: tasks stage, the driver finalises in one commit.

Spark makes the writer in a process of its own and sends it to all tasks. Each stages the rows of
its partition, which nobody sees, and says what it staged. When all have, the writer goes to one
more process, which finalises: one attempt of each task, in one commit, or nothing. What attempts
have staged that fail, are killed or run beside another (speculation) belongs to no version, and
``gc`` collects it.

The batches of a stream go the same way, each under its number: the metadata of the symbol tell of
the last one of each stream, in the commit that brings its rows, so that one which Spark runs again
after a restart changes nothing. Spark tells the commit the number alone, but tasks know the id of
the query, which lies in the checkpoint: what comes from another one is told by it.

Everything that can be known before a task runs is refused where the writer is made.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
from collections.abc import Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tessel.errors import IndexColumnError, SchemaMismatchError, UnsortedIndexError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.spark_exec.source.options import WriteOptions
from tessel.spark_exec.source.rows import BATCH_ROWS
from tessel.spark_exec.source.types import as_declared, spark_schema, stored_schema
from tessel.spark_exec.submission import check_same_package, package_build
from tessel.store.frames import check_column_names
from tessel.store.index_column import check_index
from tessel.store.names import check_symbol_name
from tessel.store.operations.write_ids import WriteId
from tessel.store.repository import Repository
from tessel.store.segment.types import is_index_type

_QUERY_ID = "sql.streaming.queryId"
_MOST_GATHERED_BYTES = 16 << 20


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What one task has staged.

    Attributes
    ----------
    partition
        The number of its partition, which is its place in the order of the rows.
    descriptor
        What ``stage`` returned, as JSON.
    query
        The id of the query of a stream.
    """

    partition: int
    descriptor: str
    query: str | None = None


def made_writer(asked: WriteOptions, declared: StructType, kind: type[Writer]) -> Writer:
    """Check what is to be written against the symbol as it is, and return what writes it.

    Raises
    ------
    TesselError
        For a store that is absent or read-only, and a name that no symbol can have.
    UnsupportedTypeError, DuplicateColumnError
        For columns that cannot be stored.
    SchemaMismatchError
        For columns that are not those of the symbol that rows are added to; lists all differences.
    IndexColumnError, InvalidInputError
        For an index that is absent, or needed and not named.
    """
    check_symbol_name(asked.place.symbol)
    check_column_names(declared.names)
    repository = asked.place.opened(read_only=False)
    stored = stored_schema(declared)
    is_there = asked.place.symbol in repository.at(None).snapshot
    known = repository.view(asked.place.symbol).schema if is_there else None
    if known is not None and asked.mode != "write":
        _check_columns(asked, known, declared)
        stored = pa.schema([known.arrow.field(name) for name in declared.names])
    index = _index(asked, known, stored)
    return kind(asked, repository.id, stored, index)


class StagingWriter:
    """Stages partitions and finalises them; sent to every task and to the commit.

    Parameters
    ----------
    asked
        What was asked for.
    store
        The id of the store.
    schema
        The columns in the types that they are stored as.
    index
        The time index, or None.
    """

    def __init__(
        self, asked: WriteOptions, store: str, schema: pa.Schema, index: str | None
    ) -> None:
        self.asked = asked
        self._store = store
        self._schema = schema
        self._index = index
        self._job = secrets.token_hex(8)
        self._build = package_build()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one partition; runs in a task, maybe several times."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        return Staged(partition, self._staged(partition, self._tables(iterator)), query)

    def finalize_staged(self, staged: Sequence[Staged], write_id: WriteId | None) -> None:
        """Make what tasks staged rows of the symbol, in one commit."""
        asked = self.asked
        staged = sorted(staged, key=lambda each: each.partition)
        descriptors = [each.descriptor for each in staged]
        if not descriptors:  # a DataFrame may have no partition at all
            descriptors = [self._staged(0, iter(()))]
        with _told_for_spark():
            self._opened().finalize(
                asked.place.symbol,
                descriptors,
                mode=asked.mode,
                sort=asked.sort and asked.mode != "upsert",
                keys=asked.keys,
                create=True,
                write_id=write_id,
            )

    def _staged(self, partition: int, tables: Iterator[pa.Table]) -> str:
        # Rows of an upsert have no order to keep: they go where their keys are.
        sort = self._index is not None and (self.asked.sort or self.asked.mode == "upsert")
        with _told_for_spark():
            staged = self._opened().stage(
                self.asked.place.symbol,
                itertools.chain([TableSchema(self._schema).empty()], tables),
                task_id=f"{self._job}-{partition}",
                index=self._index,
                sort=sort,
            )
        return json.dumps(staged.to_json())

    def _tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for held in _gathered(batches):
            table = pa.Table.from_batches(held).combine_chunks().rename_columns(self._schema.names)
            yield as_declared(table, self._schema, "the type that is stored,")

    def _opened(self) -> Repository:
        check_same_package(self._build)
        return self.asked.place.reopened(self._store, read_only=False)


class SymbolWriter(StagingWriter, DataSourceArrowWriter):
    """Writes a DataFrame."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the rows of all partitions those of the symbol, in one commit."""
        self.finalize_staged(came_back(messages), self.asked.write_id)


Writer = TypeVar("Writer", bound=StagingWriter)


def came_back(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """Return what tasks staged; of those that failed nothing came back."""
    return [each for each in messages if isinstance(each, Staged)]


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Put batches together: how many rows Spark sends is a setting, and each table has a price."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= BATCH_ROWS or size >= _MOST_GATHERED_BYTES:
            yield held
            held, rows, size = [], 0, 0
    if held:
        yield held


def _check_columns(asked: WriteOptions, known: TableSchema, declared: StructType) -> None:
    """Compare columns by the types that reading the symbol gives them in Spark."""
    held = {field.name: field.dataType for field in spark_schema(known.arrow)}
    given = {field.name: field.dataType for field in declared}
    lines = [f"column {name!r} is missing" for name in held if name not in given]
    lines += [
        f"column {name!r} is new ({kind.simpleString()})"
        for name, kind in given.items()
        if name not in held
    ]
    lines += [
        f"column {name!r} is {kind.simpleString()}, not {held[name].simpleString()}"
        for name, kind in given.items()
        if name in held and held[name] != kind
    ]
    if lines:
        raise SchemaMismatchError(
            f"the DataFrame has not the columns of symbol {asked.place.symbol!r}",
            detail="\n".join(lines),
            hint="cast, rename, add or drop columns, or write the symbol anew with "
            'mode("overwrite")',
            symbol=asked.place.symbol,
            differences=lines,
        )


def _index(asked: WriteOptions, known: TableSchema | None, stored: pa.Schema) -> str | None:
    """Return the index that the rows get; refuse what does not go with it."""
    before = None if known is None else known.index
    if known is not None and asked.mode != "write" and asked.index not in (None, before):
        raise IndexColumnError(
            f"the index of symbol {asked.place.symbol!r} is {before!r}, not {asked.index!r}",
            hint='leave the option "index" out, or write the symbol anew with mode("overwrite")',
            index=asked.index,
        )
    index = asked.index
    if index is None and before in stored.names and is_index_type(stored.field(before).type):
        index = before
    check_index(stored, index, sort=asked.sort)
    if asked.mode == "update" and index is None:
        raise IndexColumnError.required("the verb 'update'")
    TableSchema(stored, index).require(asked.keys or ())
    return index


@contextlib.contextmanager
def _told_for_spark() -> Iterator[None]:
    """Let hints name options in place of the arguments that staging and finalising have."""
    try:
        yield
    except UnsortedIndexError as error:
        by_sorting = "sort=True" in (error.hint or "")
        error.hint = _SORT_HINT if by_sorting else _LATE_HINT
        raise


_SORT_HINT = (
    'option("sort", True) sorts the rows of each task and merges tasks that overlap; '
    "frame.repartitionByRange(index) before it leaves little to merge"
)
_LATE_HINT = (
    'option("verb", "update") replaces the rows of a range of times, which a stream cannot; '
    'option("verb", "upsert") puts rows where their times are; mode("overwrite") writes the symbol '
    "anew"
)
