"""The fixed-width records of a segment file besides its pages', and the constants of the layout.

Writers fill these records and readers view bytes as them; nobody else needs to enter. The record
of a page and its codes belong to the encodings (:mod:`tessel.store.encodings.codes`) and are
offered here too. The meaning of every field is written down in ``docs/format.md``: they change
together.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import numpy as np

MAGIC: Final = b"TSLSEG\r\n"
"""The last eight bytes of a segment; the line end shows files mangled by text transfers."""

FORMAT_MAJOR: Final = 1
FORMAT_MINOR: Final = 0
"""A release reads segments of its own major up to its own minor version, for ever."""

READABLE_BEFORE_ONE: Final = ((0, 1),)
"""Versions before 1.0 with the same bytes."""

TAIL_BYTES: Final = 64 * 1024
"""What is read from the end of a segment when nobody knows where its metadata starts."""

LARGEST_PAGE_SHIFT: Final = 16
"""A page holds at most ``2**16`` top-level rows."""

PAGE_BYTES: Final = 8 * 1024 * 1024
"""Aimed-for limit of a decoded page; only rows that are large themselves pass it."""

FREE_BYTES: Final = 2 * PAGE_BYTES
"""Bytes of decoded values that a page may claim without storing any."""

BACKED_BYTES: Final = 512
"""Bytes of decoded values that each stored byte backs beyond :data:`FREE_BYTES`.

Together they keep a small file from asking for a large allocation: a list of a constant has as many
items as it says.
"""

LONGEST_PREFIX: Final = 255
"""The longest common text prefix kept in the column directory, in bytes."""


COLUMN_RECORD: Final = np.dtype(
    [
        ("column_id", "<u8"),
        ("value_count", "<u8"),
        ("page_table", "<u8"),
        ("page_table_checksum", "<u4"),
        ("page_count", "<u4"),
        ("node", "<u4"),
        ("parent", "<i4"),
        ("dictionary_count", "<u4"),
        ("width", "<u4"),
        ("prefix_start", "<u4"),
        ("prefix_length", "<u2"),
        ("role", "u1"),
        ("kind", "u1"),
        ("page_shift", "u1"),
        ("has_dictionary", "u1"),
        ("reserved", "<u2"),
        ("reserved_2", "<u4"),
    ]
)
"""One physical column, 64 bytes: a line of the column directory."""

FOOTER_RECORD: Final = np.dtype(
    [
        ("segment_length", "<u8"),
        ("row_count", "<u8"),
        ("metadata_start", "<u8"),
        ("directory_start", "<u8"),
        ("prefixes_start", "<u8"),
        ("schema_start", "<u8"),
        ("page_count", "<u8"),
        ("column_count", "<u4"),
        ("prefixes_length", "<u4"),
        ("schema_length", "<u4"),
        ("directory_checksum", "<u4"),
        ("reserved", "V4"),
        ("footer_checksum", "<u4"),
        ("version_major", "<u2"),
        ("version_minor", "<u2"),
        ("reserved_2", "V4"),
        ("magic", "S8"),
    ]
)
"""The last 96 bytes of a segment."""


def field_place(record: np.dtype[Any], name: str) -> int:
    """Return where a field begins in a record, in bytes."""
    return int((record.fields or MappingProxyType({}))[name][1])
