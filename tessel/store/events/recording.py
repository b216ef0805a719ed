"""A saved recording that is open: its index is read, its cells stay where they are.

What says which events there are (ids, times, counts of instances, and which components each has)
becomes chunks of a live store; the cells of these chunks are :class:`StoredCells`. The version that
was saved is leased for as long as somebody holds one of them.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, numpy_array
from tessel.errors import InvalidInputError, SymbolNotFoundError
from tessel.lazy import dataclass
from tessel.store.encodings.values import Integers
from tessel.store.events.batch import EventBatch
from tessel.store.events.chunk import Shape, chunk_of
from tessel.store.events.recordings import (
    ARRIVED,
    ATTACHED,
    EMPTY,
    EVENT_ID,
    INSTANCES,
    PRESENCE,
    Description,
)
from tessel.store.events.stored_cells import CellCache, StoredCells, StoredColumn
from tessel.store.events.timeline import Timeline, ids_of_arrow
from tessel.store.operations.reading import Reader
from tessel.store.repository import Repository
from tessel.store.view import SymbolView


class Recording:
    """The symbols of a recording at one version.

    Raises SymbolNotFoundError where there is no recording of that name.
    """

    def __init__(self, store: Repository, name: str, cache: CellCache) -> None:
        commit = store.at(None)
        self.symbols = [each for each in commit.snapshot if each.startswith(f"{name}/")]
        if not self.symbols:
            raise SymbolNotFoundError.for_name(f"{name}/…", list(commit.snapshot))
        self.version = commit.number
        self._store = store
        self._cache = cache
        self._columns = 0
        self._process = -1
        self._pin()

    def __repr__(self) -> str:
        return f"<Recording of {len(self.symbols)} symbols at version {self.version}>"

    def close(self) -> None:
        """Let the version go; what was not read yet can be read while it is there."""
        if self._process == os.getpid():
            self._release()

    def reading(self) -> AbstractContextManager[object]:
        """Return what a read of the version happens in."""
        if self._process != os.getpid():
            self._pin()  # the lease of a parent ends with it
        return self._store.reading(self.version)

    def _pin(self) -> None:
        """Lease the version until nobody has a cell of the recording, or it is closed."""
        self._process = os.getpid()
        held = contextlib.ExitStack()
        held.enter_context(self._store.reading(self.version, at_once=True))
        self._release = weakref.finalize(self, held.close)

    # --- the index --------------------------------------------------------------------------------

    def batches(self) -> Iterator[EventBatch]:
        """Give all events, with cells at rest.

        Raises InvalidInputError for symbols that are no recording, or were changed so that they are
        none.
        """
        for symbol in self.symbols:
            view = self._store.view(symbol, self.version)
            attached = view.metadata.get(ATTACHED)
            if isinstance(attached, Mapping) and view.row_count:
                yield from self._of_symbol(view, Description.read(symbol, attached, view.schema))

    def _of_symbol(self, view: SymbolView, description: Description) -> Iterator[EventBatch]:
        index = _Index(self._read(view, description), description, view.name)
        columns = {
            name: StoredColumn(
                view,
                name,
                kind,
                is_list=name in description.lists,
                empty=index.empty_rows(at),
                is_missing=name in description.missing,
                cache=self._cache,
                number=self._columns + at,
                reading=self.reading,
            )
            for at, (name, kind) in enumerate(description.components.items())
        }
        self._columns += len(columns)
        names = [*description.timelines, *columns]
        for present, rows in index.shapes(columns):
            here = [name for name, has in zip(names, present, strict=True) if has]
            yield index.batch(
                [description.timelines[name] for name in here if name in description.timelines],
                [columns[name] for name in here if name in columns],
                rows,
            )

    def _read(self, view: SymbolView, description: Description) -> pa.Table:
        names = [EVENT_ID, *description.timelines, INSTANCES]
        names += [PRESENCE] * description.has_presence + [ARRIVED] * description.has_arrivals
        names += [EMPTY] * description.has_empty
        with self.reading():
            reader = Reader(view.index(), view.source()).columns(names)
            return reader.rows(0, view.row_count).combine_chunks()


@dataclass(frozen=True)
class _Index:
    """The index columns of a symbol."""

    table: pa.Table
    description: Description
    symbol: str

    def shapes(
        self, columns: Mapping[str, StoredColumn]
    ) -> Iterator[tuple[np.ndarray, Integers | range]]:
        """Give which timelines and components there are, and in which rows."""
        count = len(self.description.timelines) + len(columns)
        bits = self._presence(columns)
        if bits is None:
            yield np.ones(count, np.bool_), range(self.table.num_rows)
            return
        patterns = bits.dictionary_encode()
        held = np.frombuffer(patterns.dictionary.buffers()[1], np.uint8).reshape(
            -1, bits.type.byte_width
        )
        kinds = np.unpackbits(held, axis=1, count=count, bitorder="little").astype(np.bool_)
        if len(kinds) == 1:
            yield kinds[0], range(self.table.num_rows)
            return
        number = numpy_array(patterns.indices)
        order = np.argsort(number, kind="stable")
        ends = np.cumsum(np.bincount(number, minlength=len(kinds)))
        yield from zip(kinds, np.split(order, ends[:-1]), strict=True)

    def empty_rows(self, component: int) -> Integers:
        """Return the rows in which a component, by its place, has no value in a plain column."""
        if EMPTY not in self.table.column_names:
            return np.zeros(0, np.int64)
        bits = self._column(EMPTY)
        width = bits.type.byte_width
        raw = np.frombuffer(bits.buffers()[1], np.uint8, len(bits) * width, bits.offset * width)
        held = raw.reshape(-1, width)[:, component // 8] & (1 << component % 8)
        return np.flatnonzero(held)

    def _presence(self, columns: Mapping[str, StoredColumn]) -> pa.Array | None:
        """Return for each row bits that say which timelines and components it has; None for all."""
        if PRESENCE in self.table.column_names:
            return self._column(PRESENCE)
        # One shape, or a recording of an older release.
        present = [
            numpy_array(self.table.column(name).is_valid()) for name in self.description.timelines
        ]
        present += [column.present() for column in columns.values()]
        if all(bool(each.all()) for each in present):
            return None
        packed = np.packbits(np.stack(present), axis=0, bitorder="little")
        raw = pa.py_buffer(np.ascontiguousarray(packed.T))
        return pa.Array.from_buffers(pa.binary(len(packed)), self.table.num_rows, [None, raw])

    def batch(
        self,
        timelines: Sequence[Timeline],
        columns: Sequence[StoredColumn],
        rows: Integers | range,
    ) -> EventBatch:
        """Return the events of some rows, which have these timelines and components."""
        chunk = chunk_of(
            ids_of_arrow(self._column(EVENT_ID, rows)),
            [self._numbers(timeline.name, rows) for timeline in timelines],
            numpy_array(self._column(INSTANCES, rows)),
            [StoredCells(column, rows) for column in columns],
            self._numbers(ARRIVED, rows) if self.description.has_arrivals else None,
        )
        components = tuple((c.name, self.description.components[c.name]) for c in columns)
        shape = Shape(self.description.entity, tuple(timelines), components)
        return EventBatch(shape, chunk, shape.names & self.description.lists)

    def _numbers(self, name: str, rows: Integers | range) -> Integers:
        found: Integers = numpy_array(self._column(name, rows).view(pa.int64()))
        return found

    def _column(self, name: str, rows: Integers | range | None = None) -> pa.Array:
        column = self.table.column(name)
        found = (
            column.chunk(0)
            if column.num_chunks == 1
            else pc.cast(column, column.type).combine_chunks()
        )
        if not isinstance(rows, range | None):
            found = found.take(arrow_array(rows))
        if found.null_count:
            raise InvalidInputError(
                f"symbol {self.symbol!r} is no saved recording any more: column {name!r} has "
                "missing values",
                hint="save the recording anew",
                symbol=self.symbol,
                column=name,
            )
        return found
