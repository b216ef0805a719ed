"""Where the integers of a column's pages are, also of pages that are not plain.

Kernels on what is stored enter here for columns with missing values, with exceptions and with pages
that have to be unpacked first. A page is read in place where it is arithmetic and has no codec;
another one is unpacked into a buffer that lasts as long as the rows are looked at, and there its
integers are read as before. Only those whose integers are no arithmetic (running sums, runs) are
decoded, to words of 64 bits. Which rows have a value, and which values no integer stands for, is
said by a second table, of which plain columns have no need.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tessel.kernels.blocks import ALL_MISSING, ALL_PRESENT, SINGLE_BITS, SINGLE_SCALED, Gap
from tessel.lazy import dataclass
from tessel.store.encodings.codes import Codec, EncodingCode, PageFlag, Role, ValueKind, aligned
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.inner import IS_ADDRESSABLE, inner_of
from tessel.store.encodings.registry import encoding_by_code
from tessel.store.encodings.values import INTEGER_ENCODINGS, Bytes, Integers, Page
from tessel.store.segment.file import SegmentFile
from tessel.store.segment.gather_table import (
    HAS_INNER,
    NOT_SCALED,
    NUMBERS,
    PLAIN,
    GatherFact,
    gather_facts,
)

_WORD_BYTES: Final = 8
_KINDS: Final = NUMBERS | {ValueKind.BOOLEAN, ValueKind.DECIMAL}
"""Kinds of which an integer, or its bits, is a value; of decimals, where all are so narrow."""

_PLAIN: Final = np.isin(np.arange(256), sorted({EncodingCode.ALL_MISSING, *PLAIN}))
"""By code, whether a page has values only that arithmetic finds, or none."""

_SINGLE_BYTES: Final = 4
_PLACES_SLOT: Final = 2
_VALUES_SLOT: Final = 3
"""Of exceptions, counted from the first slot of an encoding."""


class PageForm(IntEnum):
    """What must be done before kernels can read the integers of a page."""

    IN_PLACE = 0
    UNPACKED = 1
    """Its codec must be undone."""
    DECODED = 2
    """Its integers must be computed."""


@dataclass(frozen=True, slots=True, eq=False)
class PageTable:
    """How the integers of a top-level leaf are found.

    Attributes
    ----------
    node
        The column.
    facts
        As of a :class:`~tessel.store.segment.gather_table.GatherTable`, read-only; of pages that
        are not in place, what they are once unpacked.
    gaps
        Shape (:attr:`Gap.COUNT`, pages), read-only.
    starts
        Where each page begins in the segment; places of ``facts`` and ``gaps`` lie behind it.
    forms
        A :class:`PageForm` a page.
    shift
        Row ``r`` is in page ``r >> shift``.
    is_coded
        Whether the integers are places in the column's dictionary.
    """

    node: FieldNode
    facts: Integers
    gaps: Integers
    starts: Integers
    forms: npt.NDArray[np.uint8]
    shift: int
    is_coded: bool


def page_table(file: SegmentFile, node: FieldNode) -> PageTable | None:
    """Return the table of a column; None where some page holds no integers.

    Parameters
    ----------
    file
        The segment; the page table of the column is read if it was not.
    """
    if node.role != Role.VALUES or node.parent >= 0:
        return None
    records = file.pages(node.number)
    encodings = records["encoding"]
    missing = encodings == EncodingCode.ALL_MISSING
    coded = encodings == EncodingCode.DICTIONARY
    is_coded = bool(coded.any())
    if not len(records) or (is_coded and not (coded | missing).all()):
        return None
    if not is_coded and node.is_dictionary:
        return None
    if not is_coded and (node.kind not in _KINDS or not _has_integers(records, node)):
        return None
    facts = np.array(gather_facts(records, node))
    if node.kind == ValueKind.FLOAT and node.width == _SINGLE_BYTES and not is_coded:
        exponents = facts[GatherFact.EXPONENT]
        facts[GatherFact.EXPONENT] = np.where(
            exponents == NOT_SCALED, SINGLE_BITS, exponents + SINGLE_SCALED
        )
    _fill(facts, missing)
    forms = _forms(records, node, facts)
    ends = facts[GatherFact.START] + (records["row_count"] * facts[GatherFact.WIDTH] >> 3)
    if int(ends[forms == PageForm.IN_PLACE].max(initial=0)) + _WORD_BYTES > file.length:
        return None
    gaps = _gaps(records, is_coded)
    held = gaps[Gap.VALUES] + gaps[Gap.EXCEPTIONS] * node.width
    partly = (forms == PageForm.IN_PLACE) & (gaps[Gap.EXCEPTIONS] > 0)
    if int(held[partly].max(initial=0)) + _WORD_BYTES > file.length:
        return None
    starts = records["offset"].astype(np.int64)
    for array in (facts, gaps, starts):
        array.flags.writeable = False
    return PageTable(node, facts, gaps, starts, forms, file.page_shift(node.number), is_coded)


def _has_integers(records: npt.NDArray[np.void], node: FieldNode) -> bool:
    """Return whether every page of values that are not coded holds integers, or their bits."""
    if node.kind != ValueKind.DECIMAL:
        return True
    encodings = records["encoding"]
    narrow = np.isin(encodings, [int(code) for code in INTEGER_ENCODINGS])
    constant = encodings == EncodingCode.CONSTANT
    low, high = records["base"].view(np.int64), records["step"].view(np.int64)
    narrow |= constant & (high == low >> 63)
    return bool((narrow | (encodings == EncodingCode.ALL_MISSING)).all())


def _fill(facts: Integers, missing: npt.NDArray[np.bool_]) -> None:
    """Let pages without values look like the others."""
    if not missing.any():
        return
    facts[:, missing] = 0
    others = facts[GatherFact.EXPONENT][~missing]
    facts[GatherFact.EXPONENT, missing] = others[0] if len(others) else NOT_SCALED


def _forms(
    records: npt.NDArray[np.void], node: FieldNode, facts: Integers
) -> npt.NDArray[np.uint8]:
    encodings = records["encoding"]
    within = HAS_INNER[encodings]
    addressable = _PLAIN[encodings] | (within & IS_ADDRESSABLE[records["inner"]])
    bits = node.width * 8
    if node.kind == ValueKind.SIGNED and bits < 64:
        # Negative integers that are kept as their bits are not what 64 bits make of them.
        as_bits = (facts[GatherFact.WIDTH] == bits) & (facts[GatherFact.BASE] == 0)
        addressable &= within | ~as_bits
    unpacked = np.where(records["codec"] == Codec.NONE, PageForm.IN_PLACE, PageForm.UNPACKED)
    return np.where(addressable, unpacked, PageForm.DECODED).astype(np.uint8)


def _gaps(records: npt.NDArray[np.void], is_coded: bool) -> Integers:
    gaps = np.zeros((Gap.COUNT, len(records)), np.int64)
    starts = records["offset"].astype(np.int64)
    partly = (records["flags"] & PageFlag.VALIDITY) != 0
    gaps[Gap.VALIDITY] = np.where(partly, starts, ALL_PRESENT)
    gaps[Gap.VALIDITY][records["encoding"] == EncodingCode.ALL_MISSING] = ALL_MISSING
    scaled = records["encoding"] == EncodingCode.SCALED
    gaps[Gap.EXCEPTIONS] = np.where(scaled, records["exceptions"], 0)
    gaps[Gap.PLACES] = starts + records["starts"][:, _PLACES_SLOT]
    gaps[Gap.PLACE_WIDTH] = records["inner_width"]
    gaps[Gap.VALUES] = starts + records["starts"][:, _VALUES_SLOT]
    gaps[Gap.NANS] = 0 if is_coded else records["nan_count"] > 0
    return gaps


# --- unpacking ------------------------------------------------------------------------------------


def placed_pages(
    tables: Sequence[PageTable], pages: Sequence[Sequence[Page]], numbers: Integers
) -> tuple[Bytes, Integers, Integers]:
    """Lay pages of columns one behind the other, so that all of them are read in place.

    Parameters
    ----------
    tables
        Columns that are cut alike.
    pages
        Of each column, those of some numbers; verified.
    numbers
        Ascending.

    Returns
    -------
    data, facts, gaps : numpy.ndarray
        The bytes, and both tables of all columns for these bytes; nothing is said of other pages.
    """
    place = 0
    places: list[list[tuple[int, int]]] = []
    for table, held in zip(tables, pages, strict=True):
        own: list[tuple[int, int]] = []
        for number, page in zip(numbers.tolist(), held, strict=True):
            words = aligned(place + len(page.payload))
            own.append((place, words))
            decoded = table.forms[number] == PageForm.DECODED
            place = aligned(words + page.length * _WORD_BYTES) if decoded else words
        places.append(own)
    data = np.empty(place + _WORD_BYTES, np.uint8)
    data[place:] = 0
    facts = np.stack([table.facts for table in tables], axis=1)
    gaps = np.stack([table.gaps for table in tables], axis=1)
    for column, table in enumerate(tables):
        for number, page, (at, words) in zip(
            numbers.tolist(), pages[column], places[column], strict=True
        ):
            data[at : at + len(page.payload)] = page.payload
            moved = at - int(table.starts[number])
            facts[GatherFact.START, column, number] += moved
            gaps[[Gap.PLACES, Gap.VALUES], column, number] += moved
            if gaps[Gap.VALIDITY, column, number] >= 0:
                gaps[Gap.VALIDITY, column, number] += moved
            if table.forms[number] == PageForm.DECODED:
                held_words = data[words : words + page.length * _WORD_BYTES].view(np.int64)
                _decode(page, held_words)
                kept = facts[GatherFact.EXPONENT, column, number]
                facts[:, column, number] = words, 64, -1, 0, 0, kept
    for array in (data, facts, gaps):
        array.flags.writeable = False
    return data, facts, gaps


def _decode(page: Page, out: npt.NDArray[np.int64]) -> None:
    """Write the integers of a page, or the bits of its floats."""
    if HAS_INNER[page.encoding]:
        inner_of(page).integers_into(page, 0, page.length, out)
        return
    values: npt.NDArray[Any] = encoding_by_code(page.encoding).decode(page, 0, page.length).data
    if values.dtype == np.float32:
        values = values.view(np.uint32)
    out[...] = values.view(np.int64) if values.dtype.itemsize == _WORD_BYTES else values
