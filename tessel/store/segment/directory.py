"""The column directory is compared with what schema, rows and cuts say it must hold.

:class:`~tessel.store.segment.file.SegmentFile` enters here, before it looks at a page table. A
sound directory is known by a few comparisons of whole words; only for others it is worked out what
is wrong with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessel.store.segment.expectations import STATIC, Expectations, halves
from tessel.store.segment.frame import Frame, FrameError, directory_words, frame
from tessel.store.segment.records import COLUMN_RECORD, field_place
from tessel.store.segment.validation import Check, damaged, first_failure, per_row

_MOST_VALUES = 1 << 48
_LARGEST_DICTIONARY = (1 << 31) - 1
_PAGE_TABLE_WORD = field_place(COLUMN_RECORD, "page_table") // 8


def page_frame(
    directory: npt.NDArray[np.void], message: bytes, name: str, rows: int, page_records: int
) -> Frame:
    """Return the frame of a file, after checking that it is no larger than the file.

    Raises CorruptSegmentError when the rows need other page tables than there are.
    """
    shifts, dictionaries = directory["page_shift"], directory["has_dictionary"]
    try:
        return frame(message, rows, shifts.tobytes(), dictionaries.tobytes(), page_records)
    except FrameError as error:
        raise damaged(name, str(error)) from error


def check_directory(
    directory: npt.NDArray[np.void],
    expected: Expectations,
    frame_: Frame,
    *,
    name: str,
    rows: int,
    metadata_start: int,
    prefixes_length: int,
) -> None:
    """Check the column directory against the schema, the footer and itself.

    Raises CorruptSegmentError, which names the object and the column.
    """
    if directory_fits(directory, expected, frame_, metadata_start, prefixes_length):
        return
    # Something is wrong, or unusual: these checks say what.
    shift, has = directory["page_shift"], directory["has_dictionary"]
    counts = directory["dictionary_count"]
    values = directory["value_count"].astype(np.int64)
    prefix = directory["prefix_length"]
    ends = directory["prefix_start"].astype(np.int64) + prefix
    fixed = (values == expected.multiplier * rows) | (expected.multiplier == 0)
    checks: list[Check] = [
        (
            halves(directory)[:, STATIC] == expected.static,
            "it does not fit the schema",
        ),
        (shift == shift[expected.top], "the parts of one field are cut differently"),
        (directory["page_count"] == frame_.pages, "it has not the pages that its rows need"),
        (
            directory["page_table"] == frame_.table_start + metadata_start,
            "its page table lies elsewhere",
        ),
        ((has == (counts > 0)) & (counts <= _LARGEST_DICTIONARY), "it misstates its dictionary"),
        (expected.may_have_dictionary >= has, "it has a dictionary, unlike its type"),
        (fixed & (values >= 0) & (values <= _MOST_VALUES), "it has not as many values as rows"),
        (ends <= prefixes_length, "its prefix lies outside"),
        ((prefix == 0) | expected.is_bytes, "it has a prefix, being no text"),
    ]
    found = first_failure([(per_row(holds), what) for holds, what in checks])
    if found is not None:
        raise damaged(name, found[1], column=int(expected.column_id[found[0]]))


def directory_fits(
    directory: npt.NDArray[np.void],
    expected: Expectations,
    frame_: Frame,
    metadata_start: int | npt.NDArray[np.uint64],
    prefixes_length: int | npt.NDArray[np.uint32],
) -> bool:
    """Return whether a directory holds what it must; it may be sound even if not.

    Of all that follows from the schema, the rows and the cuts, whole words are compared. It may be
    the directories of several files of one schema, one after the other, with numbers a line.
    """
    words = directory_words(directory).copy()
    words[:, _PAGE_TABLE_WORD] -= np.asarray(metadata_start, np.uint64)
    words ^= frame_.words
    words &= frame_.words_mask
    has, counts = directory["has_dictionary"], directory["dictionary_count"]
    prefix = directory["prefix_length"]
    if np.count_nonzero(words) or np.count_nonzero((counts > 0) != has):
        return False
    if len(prefix) and (
        int(counts.max()) > _LARGEST_DICTIONARY
        or int(directory["value_count"].max()) > _MOST_VALUES
        or (directory["prefix_start"].astype(np.int64) + prefix > prefixes_length).any()
    ):
        return False
    if np.count_nonzero(has) and not _within(has, expected.may_have_dictionary):
        return False
    return not np.count_nonzero(prefix) or _within(prefix, expected.is_bytes)


def _within(held: npt.NDArray[Any], may_be: npt.NDArray[np.bool_]) -> bool:
    """Return whether only columns that may be so are other than 0, in one file after another."""
    return not np.count_nonzero(held.reshape(-1, len(may_be)).astype(np.bool_) & ~may_be)
