"""Text in rows that are put in order, as codes: of each column all dictionaries, joined to one.

A sort copies rows into ranges of the key, writes them, reads them and copies them once more. Text
that came as dictionaries is four bytes in all of that, and becomes text where rows go out. Entries
are held once, beside the rows, and are only added: a code that went to a file keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import arrow_array, empty_table, fill_null, numpy_array
from tessel.clauses.spill.account import Account
from tessel.clauses.values import is_text_or_binary, plain, ranks

__all__ = ["JoinedDictionaries"]

_PART_OF_ENTRIES = 16
"""What part of the budget all entries may take; past it, rows hold text again."""

_PART_OF_TEXT = 16
_LEAST_TEXT_BYTES, _MOST_TEXT_BYTES = 1 << 16, 1 << 28
"""What part of the budget rows may become at a time that go out as text; Arrow's is 2 GiB."""

_BYTES_OF_PLACES = 12
"""Bytes that an entry takes beside its text: its rank, its number, and where it begins."""


Lengths = NDArray[Any]


class JoinedDictionaries:
    """The entries of text columns that may come as dictionaries, each once.

    Tables are as they came or as they were joined here: a column that is text in the schema is
    text, a dictionary of it, or codes, which are int32.

    Parameters
    ----------
    schema
        Of the rows as they go out. A column that is a dictionary there stays as it is.
    account
        What counts the entries as held.
    """

    def __init__(self, schema: pa.Schema, account: Account) -> None:
        self._schema = schema
        self._account = account
        self._most = account.limit // _PART_OF_ENTRIES
        self._text_bytes = max(
            _LEAST_TEXT_BYTES, min(account.limit // _PART_OF_TEXT, _MOST_TEXT_BYTES)
        )
        self._entries: dict[str, pa.Array] = {}
        self._lengths: dict[str, Lengths] = {}
        self._ranks: dict[str, pa.Array] = {}
        self._last: dict[str, tuple[pa.Array, pa.Array]] = {}
        self._full: set[str] = set()
        self._held = 0

    def close(self) -> None:
        """Hold no entries more; may be called twice."""
        self._account.hold(-self._held)
        self._held = 0
        self._entries, self._lengths, self._ranks, self._last = {}, {}, {}, {}

    def joined(self, tables: list[pa.Table]) -> pa.Table:
        """Return tables as one, with one array for each column; the list is empty afterwards.

        Text is codes where one of the tables has a dictionary or codes for it, and its entries are
        not too many.
        """
        if not tables:
            return empty_table(self._schema)
        names = tables[0].column_names
        columns = [[chunk for t in tables for chunk in t.column(name).chunks] for name in names]
        tables.clear()
        arrays: list[pa.Array] = []
        for at, name in enumerate(names):
            chunks, columns[at] = columns[at], []  # one column is held twice
            if any(chunk.type != self._schema.field(name).type for chunk in chunks):
                chunks = self._codes(name, chunks) or [self._text(name, each) for each in chunks]
            arrays.append(pa.chunked_array(chunks).unify_dictionaries().combine_chunks())
        return pa.Table.from_arrays(arrays, names)

    def comparable(self, table: pa.Table) -> pa.Table:
        """Return a table that was joined, with ranks in the place of codes: to order it by."""
        for at, name in enumerate(table.column_names):
            if self._is_coded(table.schema.field(at)):
                table = table.set_column(at, name, self._ranks_of(name).take(table.column(at)))
        return table

    def nbytes_as_text(self, table: pa.Table) -> int:
        """Return the bytes of a table, joined or not, whose codes are counted as their text."""
        coded = [name for name in table.column_names if self._is_coded(table.schema.field(name))]
        codes = sum(table.column(name).nbytes for name in coded)
        return int(table.nbytes - codes + self._text_of_rows(table).sum())

    def restored(self, table: pa.Table) -> Iterator[pa.Table]:
        """Give a table that was joined as tables of the schema, of no more text than may be."""
        ends = np.cumsum(self._text_of_rows(table))
        start = 0
        while start < len(ends):
            done = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, done + self._text_bytes, side="right"))
            stop = max(stop, start + 1)
            yield self._as_text(table.slice(start, stop - start))
            start = stop

    def _as_text(self, table: pa.Table) -> pa.Table:
        columns = [
            self._entries[field.name].take(column) if self._is_coded(field) else column
            for field, column in zip(table.schema, table.columns, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _text_of_rows(self, table: pa.Table) -> Lengths:
        """Return the bytes of text of each row whose columns are dictionaries of it, or codes."""
        found = np.zeros(table.num_rows, np.int64)
        for field, column in zip(table.schema, table.columns, strict=True):
            if self._is_coded(field):
                chunks = [self._text_of_codes(field.name, chunk) for chunk in column.chunks]
                found += np.concatenate([found[:0], *chunks])
        return found

    def _text_of_codes(self, name: str, chunk: pa.Array) -> Lengths:
        if isinstance(chunk, pa.DictionaryArray):
            codes, lengths = chunk.indices, _lengths_of(chunk.dictionary)
        else:
            codes, entries = chunk, self._entries[name]
            lengths = self._lengths.get(name, np.zeros(0, np.int64))
            if len(lengths) != len(entries):
                lengths = self._lengths[name] = _lengths_of(entries)
        if codes.null_count:
            codes = fill_null(codes.cast(pa.int64()), len(lengths))
            lengths = np.append(lengths, 0)
        found: Lengths = lengths[numpy_array(codes)]
        return found

    def _is_coded(self, field: pa.Field) -> bool:
        return bool(field.type != self._schema.field(field.name).type)

    def _text(self, name: str, chunk: pa.Array) -> pa.Array:
        is_codes = pa.types.is_int32(chunk.type)
        return self._entries[name].take(chunk) if is_codes else plain(chunk)

    def _codes(self, name: str, chunks: Sequence[pa.Array]) -> list[pa.Array]:
        """Return chunks of a column as codes, having added their entries; none if these are many.

        Units of one segment have one dictionary, which is long and is looked up once.
        """
        kind = self._schema.field(name).type
        if name in self._full or not is_text_or_binary(kind):
            return []
        last = self._last.get(name)
        dictionaries, numbers = ([], []) if last is None else ([last[0]], [last[1]])
        coded = [chunk.dictionary_encode() if chunk.type == kind else chunk for chunk in chunks]
        places: list[int] = []
        for chunk in coded:
            if isinstance(chunk, pa.DictionaryArray) and not (
                dictionaries and chunk.dictionary.equals(dictionaries[-1])
            ):
                dictionaries.append(chunk.dictionary)
            places.append(len(dictionaries) - 1)
        added = self._numbers_of(name, dictionaries[len(numbers) :])
        if added is None:
            self._full.add(name)
            return []
        numbers += added
        if numbers:
            self._last[name] = dictionaries[-1], numbers[-1]
        return [
            numbers[place].take(chunk.indices) if isinstance(chunk, pa.DictionaryArray) else chunk
            for place, chunk in zip(places, coded, strict=True)
        ]

    def _numbers_of(self, name: str, dictionaries: Sequence[pa.Array]) -> list[pa.Array] | None:
        """Add entries; return the codes of those of each dictionary, None where all are too many.

        What Arrow makes of several dictionaries begins with the entries of the first.
        """
        if not dictionaries:
            return []
        known = self._entries.get(name, arrow_array([], self._schema.field(name).type))
        numbered = [
            pa.DictionaryArray.from_arrays(arrow_array(np.arange(len(each), dtype=np.int32)), each)
            for each in (known, *dictionaries)
        ]
        first, *others = pa.chunked_array(numbered).unify_dictionaries().chunks
        entries = first.dictionary
        added = entries.nbytes - known.nbytes + _BYTES_OF_PLACES * (len(entries) - len(known))
        if self._held + added > self._most or not self._account.fits(added):
            return None
        self._account.hold(added)
        self._held += added
        self._entries[name] = entries
        return [each.indices for each in others]

    def _ranks_of(self, name: str) -> pa.Array:
        """Return the place of each entry among all of its column in order."""
        entries, found = self._entries[name], self._ranks.get(name)
        if found is None or len(found) != len(entries):
            found = self._ranks[name] = arrow_array(ranks(entries)[0].astype(np.int32))
        return found


def _lengths_of(entries: pa.Array) -> Lengths:
    lengths = pc.binary_length(entries)
    return numpy_array(fill_null(lengths, 0) if lengths.null_count else lengths).astype(np.int64)
