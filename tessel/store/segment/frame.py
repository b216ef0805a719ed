"""What is known of the page tables of a file before one is read: its frame.

The file reader and its checks enter here. Segments of one symbol that are cut alike share a frame,
so it is computed once a process, and kept by what it follows from.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tessel.lazy import dataclass
from tessel.store.encodings.codes import PAGE_RECORD, ValueKind
from tessel.store.encodings.values import Integers
from tessel.store.segment.expectations import (
    ENCODINGS_A_NODE,
    STATIC,
    Expectations,
    expectations,
    halves,
)
from tessel.store.segment.records import COLUMN_RECORD, LARGEST_PAGE_SHIFT, field_place

_MOST_VALUES = 1 << 48
_LARGEST_DICTIONARY = (1 << 31) - 1
_PAGE_TABLE_WORD = field_place(COLUMN_RECORD, "page_table") // 8


class FrameError(ValueError):
    """Rows, page shifts and page records contradict each other; never leaves this part."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordFacts:
    """What is known of page records before they are read, an element a record.

    Attributes
    ----------
    owner, number
        Column of a record, and its place in the table of that column.
    fresh
        Whether its rows are counted from 0: a first page, or a dictionary.
    held_kind
        What its encoding is asked about, offsets being integers: width and kind as one number,
        ``width << 16 | kind << 8``.
    claimed_width
        Bytes that a row counts as, when it is compared with what is stored.
    rows
        The rows it must have; -1 where that depends on lists or on the dictionary.
    legal_start
        Where the legality of encoding number 0 stands in ``Expectations.legal``, flattened.
    """

    owner: Integers
    number: Integers
    of_dictionary: npt.NDArray[np.bool_]
    fresh: npt.NDArray[np.bool_]
    kind: Integers
    width: Integers
    held_kind: Integers
    claimed_width: Integers
    rows: Integers
    legal_start: Integers
    has_dictionary: npt.NDArray[np.bool_]
    is_float: npt.NDArray[np.bool_]
    is_list: npt.NDArray[np.bool_]
    is_decimal: npt.NDArray[np.bool_]
    is_none: npt.NDArray[np.bool_]

    def picked(self, at: Integers) -> RecordFacts:
        """Return the facts of some records."""
        return RecordFacts(*(getattr(self, field.name)[at] for field in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """What schema, rows, page shifts and dictionaries say about the page tables of a file.

    ``R`` page records in all, a column's dictionary last; ``C`` columns.

    Attributes
    ----------
    first
        Where the records of each column begin, and R; shape (C + 1,).
    pages
        Data pages, shape (C,).
    table_start
        Where its page table begins, from the first one; shape (C,).
    words
        What the directory must hold, a line a column, seen as words of 8 bytes; page tables are
        counted from the first one.
    words_mask
        Which bits of these words are given.
    """

    first: Integers
    pages: Integers
    table_start: Integers
    words: npt.NDArray[np.uint64]
    words_mask: npt.NDArray[np.uint64]
    records: RecordFacts
    any_list: bool
    any_decimal: bool


@lru_cache(maxsize=1024)
def frame(
    message: bytes, rows: int, shifts: bytes, dictionaries: bytes, page_records: int
) -> Frame:
    """Return the frame of all files of a schema that are cut alike.

    Raises FrameError when rows and shifts need another number of records.

    Parameters
    ----------
    message
        The schema, one that :func:`expectations` takes.
    rows
        Top-level rows, fewer than 2**40.
    shifts, dictionaries
        A byte a column: its page shift, and 1 where it has a dictionary.
    page_records
        How many there are: nothing larger is allocated.
    """
    expected = expectations(message)
    shift = np.frombuffer(shifts, np.uint8).astype(np.int64)
    has = np.frombuffer(dictionaries, np.uint8)
    if (shift > LARGEST_PAGE_SHIFT).any() or (has > 1).any():
        raise FrameError("pages have more rows than they may, or a column two dictionaries")
    pages = (rows + (1 << shift) - 1) >> shift
    counts = pages + has
    if int(counts.sum()) != page_records:
        raise FrameError(f"its rows need {int(counts.sum())} page records, it has {page_records}")
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(owner)) - first[owner]
    of_dictionary = number == pages[owner]
    whole = np.minimum(1 << shift[owner], rows - (number << shift[owner]))
    times = expected.multiplier[owner]
    kind, width = expected.kind[owner], expected.width[owner]
    is_list = kind == ValueKind.OFFSETS
    facts = RecordFacts(
        owner=owner,
        number=number,
        of_dictionary=of_dictionary,
        fresh=(number == 0) | of_dictionary,
        kind=kind,
        width=width,
        held_kind=width << 16 | np.where(is_list, int(ValueKind.SIGNED), kind) << 8,
        claimed_width=np.where(width > 0, width, 4),
        rows=np.where((times == 0) | of_dictionary, -1, times * whole),
        legal_start=(owner + of_dictionary * len(counts)) * ENCODINGS_A_NODE,
        has_dictionary=has[owner] == 1,
        is_float=kind == ValueKind.FLOAT,
        is_list=is_list,
        is_decimal=kind == ValueKind.DECIMAL,
        is_none=kind == ValueKind.NONE,
    )
    table_start = first[:-1] * PAGE_RECORD.itemsize
    words, mask = _words(expected, rows, pages, shift, has, table_start)
    return Frame(
        first=first,
        pages=pages,
        table_start=table_start,
        words=words,
        words_mask=mask,
        records=facts,
        any_list=bool(is_list.any()),
        any_decimal=bool(facts.is_decimal.any()),
    )


def _words(
    expected: Expectations,
    rows: int,
    pages: Integers,
    shift: Integers,
    has: npt.NDArray[np.uint8],
    table_start: Integers,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return what is known of the lines of a directory, and a mask of which bits that is."""
    wanted = np.zeros(len(pages), COLUMN_RECORD)
    mask = np.zeros(len(pages), COLUMN_RECORD)
    halves(wanted)[:, STATIC] = expected.static
    halves(mask)[:, STATIC] = 0xFFFF
    wanted["value_count"] = expected.multiplier * rows
    mask["value_count"][expected.multiplier > 0] = (1 << 64) - 1
    for name, values in [
        ("page_table", table_start),
        ("page_count", pages),
        ("page_shift", shift),
        ("has_dictionary", has),
    ]:
        wanted[name] = values
        mask[name] = (1 << 8 * COLUMN_RECORD[name].itemsize) - 1
    return _directory_words(wanted), _directory_words(mask)


def _directory_words(directory: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
    """Return a view of a directory as words of 8 bytes, a row a line."""
    return np.ndarray((len(directory), COLUMN_RECORD.itemsize // 8), "<u8", directory)


def wrong_lines(
    directory: npt.NDArray[np.void],
    expected: Expectations,
    frame_: Frame,
    metadata_start: int | npt.NDArray[np.uint64],
    prefixes_length: int | npt.NDArray[np.uint32],
) -> npt.NDArray[np.bool_]:
    """Return which lines of a directory contradict the schema, the rows, the cuts or the file.

    Of all that follows from the first three, whole words are compared. It may be the directories of
    several files of one schema, one after the other, with numbers a line.
    """
    words = _directory_words(directory).copy()
    words[:, _PAGE_TABLE_WORD] -= np.asarray(metadata_start, np.uint64)
    words ^= frame_.words
    words &= frame_.words_mask
    has, counts = directory["has_dictionary"], directory["dictionary_count"]
    prefix = directory["prefix_length"]
    wrong: npt.NDArray[np.bool_] = words.any(axis=1) | ((counts > 0) != has)
    wrong |= (counts > _LARGEST_DICTIONARY) | (directory["value_count"] > _MOST_VALUES)
    wrong |= directory["prefix_start"].astype(np.int64) + prefix > prefixes_length
    wrong |= (has > 0) & ~np.resize(expected.may_have_dictionary, len(has))
    return wrong | ((prefix > 0) & ~np.resize(expected.is_bytes, len(has)))
