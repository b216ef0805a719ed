"""Text in rows that are put in order, as codes: of each column all dictionaries, joined to one.

A sort copies rows into ranges of the key, writes them, reads them and copies them once more. Text
that came as dictionaries is four bytes in all of that, from where it comes in to where it goes out.
Entries are held once, beside the rows, and are only added: a code that went to a file keeps its
meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import arrow_array, empty_table, fill_null, numpy_array, one_array
from tessel.clauses.spill.workspace import Account
from tessel.clauses.values import is_text_or_binary, plain, rank_codes
from tessel.expression.text_bytes import texts_of
from tessel.kernels.group_rows import group_texts

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

    Tables are as they came or as they were made here: a column that is text in the schema is text,
    a dictionary of it, or codes, which are int32.

    Parameters
    ----------
    schema
        Of the rows as they go out. A column that is a dictionary there stays as it is.
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

    def coded(self, table: pa.Table) -> pa.Table:
        """Return a table with codes in the place of dictionaries of text, whose entries are added.

        So it is with text behind dictionaries. Where entries are too many, dictionaries become
        text.
        """
        for at, field in enumerate(table.schema):
            column, kind = table.column(at), self._schema.field(field.name).type
            if field.type != kind or field.name in self._entries:
                chunks = self._codes(field.name, column.chunks)
                made = [plain(column)] if chunks is None else chunks
                table = table.set_column(at, field.name, pa.chunked_array(made))
        return table

    def joined(self, tables: list[pa.Table]) -> pa.Table:
        """Return tables of codes or text as one, of one array a column; the list is empty then.

        Where some have codes and others text, a column is a dictionary.
        """
        if not tables:
            return empty_table(self._schema)
        names = tables[0].column_names
        columns = [[chunk for t in tables for chunk in t.column(name).chunks] for name in names]
        tables.clear()
        arrays: list[pa.Array] = []
        for at, name in enumerate(names):
            chunks, columns[at] = columns[at], []  # one column is held twice
            if any(chunk.type != chunks[0].type for chunk in chunks):
                chunks = [self._dictionary(name, chunk) for chunk in chunks]
            arrays.append(one_array(pa.chunked_array(chunks).unify_dictionaries()))
        return pa.Table.from_arrays(arrays, names)

    def comparable(self, table: pa.Table) -> pa.Table:
        """Return a table that was joined, with ranks in the place of codes: to order it by."""
        for at, field in enumerate(table.schema):
            if self._has_codes(field):
                ranked = self._ranks_of(field.name).take(table.column(at))
                table = table.set_column(at, field.name, ranked)
        return table

    def restored(self, table: pa.Table) -> Iterable[pa.Table]:
        """Return a table of codes or text as tables of the schema, of no more text than may be."""
        coded = self._coded_columns(table)
        lengths = {name: self._lengths_of(name, column) for name, column in coded.items()}
        most = table.num_rows * sum(int(each.max()) for each in lengths.values())
        if most <= self._text_bytes:
            return [self._as_text(table)]
        sizes = sum(lengths[name][_codes_of(column)] for name, column in coded.items())
        return self._parts_as_text(table, np.cumsum(sizes))

    def _parts_as_text(self, table: pa.Table, ends: Lengths) -> Iterator[pa.Table]:
        start, rows = 0, table.num_rows
        while start < rows:
            done = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, done + self._text_bytes, side="right"))
            stop = max(stop, start + 1)
            yield self._as_text(table.slice(start, stop - start))
            start = stop

    def _as_text(self, table: pa.Table) -> pa.Table:
        for name, column in self._coded_columns(table).items():
            at, field = table.schema.get_field_index(name), self._schema.field(name)
            chunks = [plain(self._dictionary(name, chunk)) for chunk in column.chunks]
            table = table.set_column(at, field, pa.chunked_array(chunks))
        return pa.Table.from_arrays(table.columns, schema=self._schema)

    def _coded_columns(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """Return the columns that are not of the type in which they go out."""
        types = {field.name: field.type for field in self._schema}
        return {f.name: table.column(f.name) for f in table.schema if f.type != types[f.name]}

    def _has_codes(self, field: pa.Field) -> bool:
        kind = self._schema.field(field.name).type
        return bool(field.type != kind and pa.types.is_int32(field.type))

    def _dictionary(self, name: str, chunk: pa.Array) -> pa.DictionaryArray:
        if isinstance(chunk, pa.DictionaryArray):
            return chunk
        if chunk.type == self._schema.field(name).type:
            return chunk.dictionary_encode()
        return pa.DictionaryArray.from_arrays(chunk, self._entries[name], safe=False)

    def _lengths_of(self, name: str, column: pa.ChunkedArray) -> Lengths:
        """Return the bytes of the text of each code, and behind them 0: for rows without one."""
        if pa.types.is_dictionary(column.type):
            return _lengths_of(column.chunk(0).dictionary)
        found, entries = self._lengths.get(name), self._entries[name]
        if found is None or len(found) <= len(entries):
            found = self._lengths[name] = _lengths_of(entries)
        return found

    def _codes(self, name: str, chunks: Sequence[pa.Array]) -> list[pa.Array] | None:
        """Return chunks of a column as codes, having added their entries; None if these are many.

        Units of one segment have one dictionary, which is long and is looked up once.
        """
        kind = self._schema.field(name).type
        if name in self._full or not is_text_or_binary(kind):
            return None
        last = self._last.get(name)
        dictionaries, numbers = ([], []) if last is None else ([last[0]], [last[1]])
        coded = [self._dictionary(name, chunk) for chunk in chunks]
        places: list[int] = []
        for chunk in coded:
            if not (dictionaries and chunk.dictionary.equals(dictionaries[-1])):
                dictionaries.append(chunk.dictionary)
            places.append(len(dictionaries) - 1)
        added = self._numbers_of(name, dictionaries[len(numbers) :])
        if added is None:
            self._full.add(name)
            return None
        numbers += added
        if numbers:
            self._last[name] = dictionaries[-1], numbers[-1]
        pairs = zip(coded, places, strict=True)
        return [numbers[place].take(chunk.indices) for chunk, place in pairs]

    def _numbers_of(self, name: str, dictionaries: Sequence[pa.Array]) -> list[pa.Array] | None:
        """Add entries; return the code of each of a dictionary, None where all are too many."""
        if not dictionaries:
            return []
        known = self._entries.get(name, arrow_array([], self._schema.field(name).type))
        parts = [known, *(each.drop_null() for each in dictionaries)]
        numbers, first = group_texts([texts_of(each) for each in parts])
        more = one_array(pa.chunked_array(parts)).take(arrow_array(first[len(known) :]))
        added = more.nbytes + _BYTES_OF_PLACES * len(more)
        if self._held + added > self._most or not self._account.fits(added):
            return None
        self._account.hold(added)
        self._held += added
        self._entries[name] = pa.concat_arrays([known, more]) if len(more) else known
        ends = np.cumsum([len(each) for each in parts])
        codes = np.split(numbers.astype(np.int32), ends[:-1])[1:]
        return list(map(_codes_of_entries, dictionaries, codes))

    def _ranks_of(self, name: str) -> pa.Array:
        """Return the place of each entry among all of its column in order."""
        entries, found = self._entries[name], self._ranks.get(name)
        if found is None or len(found) != len(entries):
            found = self._ranks[name] = arrow_array(rank_codes(entries).astype(np.int32))
        return found


def _lengths_of(entries: pa.Array) -> Lengths:
    lengths = pc.binary_length(entries)
    found = numpy_array(fill_null(lengths, 0) if lengths.null_count else lengths)
    return np.append(found, 0).astype(np.int64)


def _codes_of_entries(entries: pa.Array, numbers: NDArray[np.int32]) -> pa.Array:
    """Return the code of each entry, given those that are not null; null for null."""
    if not entries.null_count:
        return arrow_array(numbers)
    is_null = numpy_array(entries.is_null())
    codes = np.zeros(len(entries), np.int32)
    codes[~is_null] = numbers
    return arrow_array(codes, mask=is_null)


def _codes_of(column: pa.ChunkedArray) -> Lengths:
    """Return the codes of a column, -1 where there is none."""
    codes = pa.chunked_array([getattr(chunk, "indices", chunk) for chunk in column.chunks])
    return numpy_array(fill_null(codes, -1) if codes.null_count else codes)
