"""Where the integers of a column's pages are, as small tables of plain integers.

A page record is 112 bytes of many fields. Of a column whose pages are arithmetic, six numbers a
page say where any value lies and what is made of it: single rows and kernels on what is stored
read pages in place by them. A compressed page is unpacked into a buffer that lasts as long as its
rows are looked at, and its integers are read there. Only pages whose integers are no arithmetic
(running sums, runs) are decoded, to words of 64 bits. A second table says which rows have a value,
and which values no integer stands for; plain columns need none. Tables are made once a segment and
looked up by page number after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tessel.cached import cached
from tessel.kernels.blocks import ALL_MISSING, ALL_PRESENT, SINGLE_BITS, SINGLE_SCALED, Gap
from tessel.lazy import dataclass
from tessel.store.encodings.codes import Codec, EncodingCode, PageFlag, Role, ValueKind
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.inner import IS_ADDRESSABLE
from tessel.store.encodings.values import INTEGER_ENCODINGS, Integers
from tessel.store.segment.file import SegmentFile

NOT_SCALED: Final = -1
"""Stands for the exponent of values that are not scaled."""

NUMBERS: Final = frozenset({ValueKind.SIGNED, ValueKind.UNSIGNED, ValueKind.FLOAT})
"""Kinds of which an integer, or its bits, is a value."""

_WORD_BYTES: Final = 8
_KINDS: Final = NUMBERS | {ValueKind.BOOLEAN, ValueKind.DECIMAL}
"""Those too where all values are so narrow."""

_WORDS: Final = NUMBERS | {ValueKind.BOOLEAN, ValueKind.OFFSETS}
"""Kinds of which any value is in one word."""

_ARITHMETIC: Final = frozenset({EncodingCode.CONSTANT, EncodingCode.FLAT, EncodingCode.LINEAR})
"""Encodings in which any value is found by arithmetic."""
_OF_NUMBERS: Final = _ARITHMETIC | {EncodingCode.SCALED}
_CODED: Final = frozenset({EncodingCode.DICTIONARY, EncodingCode.ALL_MISSING})
_PLAIN: Final = np.isin(np.arange(256), sorted({EncodingCode.ALL_MISSING, *_ARITHMETIC}))
"""By code, whether a page has values only that arithmetic finds, or none."""
_HAS_INNER: Final = np.isin(np.arange(256), (EncodingCode.SCALED, EncodingCode.DICTIONARY))
"""By code, whether an encoding keeps its integers in another one."""

_MASKS: Final = np.array([(1 << width) - 1 for width in range(65)], np.uint64).view(np.int64)
_SINGLE_BYTES: Final = 4
_PLACES_SLOT: Final = 2
_VALUES_SLOT: Final = 3
"""Of exceptions, counted from the first slot of an encoding."""


class PageFact:
    """What a line of :attr:`PageTable.facts` says of each page; int64, bits where that matters."""

    START = 0
    """Where the first integer lies, from the first byte of the segment."""
    WIDTH = 1
    """Bits of an integer."""
    MASK = 2
    """The bits of a loaded word that are the integer's."""
    BASE = 3
    STEP = 4
    EXPONENT = 5
    """Of ten, or :data:`NOT_SCALED`."""
    COUNT = 6


class PageForm(IntEnum):
    """What must be done before kernels can read the integers of a page."""

    IN_PLACE = 0
    UNPACKED = 1
    """Its codec must be undone."""
    DECODED = 2
    """Its integers must be computed."""


@dataclass(frozen=True, eq=False)
class PageTable:
    """How the integers of a top-level leaf are found: ``base + step * i + integer i``, mod 2**64.

    Attributes
    ----------
    facts
        Shape (:attr:`PageFact.COUNT`, pages), read-only; of pages that are not in place, what they
        are once unpacked.
    gaps
        Shape (:attr:`Gap.COUNT`, pages), read-only.
    starts
        Where each page begins in the segment; places of ``facts`` and ``gaps`` lie behind it.
    forms
        A :class:`PageForm` a page.
    shift
        Row ``r`` is in page ``r >> shift``.
    is_coded
        Whether the integers are places in the column's dictionary; else they are the values.
    is_plain
        Whether a value is there for each row, and arithmetic in place finds the bits of it.
    is_flat
        Whether the pages hold the values as Arrow does.
    """

    node: FieldNode
    facts: Integers
    gaps: Integers
    starts: Integers
    forms: npt.NDArray[np.uint8]
    shift: int
    is_coded: bool
    is_plain: bool
    is_flat: bool

    @cached
    def has_gaps(self) -> bool:
        """Whether ``gaps`` says anything but that all values are there, and none is a NaN."""
        gaps = self.gaps
        partly = gaps[Gap.VALIDITY] != ALL_PRESENT
        return bool((partly | (gaps[Gap.EXCEPTIONS] > 0) | (gaps[Gap.NANS] > 0)).any())

    @cached
    def exponents(self) -> Integers:
        """By page, of ten, or :data:`NOT_SCALED`."""
        held = self.facts[PageFact.EXPONENT]
        scaled = np.where(held >= SINGLE_SCALED, held - SINGLE_SCALED, held)
        return np.where(held == SINGLE_BITS, NOT_SCALED, scaled)

    @cached
    def exponent_bounds(self) -> tuple[int, int]:
        """The least and the greatest exponent of all pages."""
        return int(self.exponents.min()), int(self.exponents.max())


@dataclass(frozen=True, slots=True, eq=False)
class PageStack:
    """The tables of several columns of a segment that are cut alike.

    Attributes
    ----------
    facts, gaps
        Theirs, shape (lines, columns, pages), read-only; no gaps where none has any.
    first_flags
        Where the pages of each column begin among all page records of the file, shape (columns, 1).
    """

    tables: tuple[PageTable, ...]
    facts: Integers
    gaps: Integers | None
    first_flags: Integers

    @classmethod
    def of(cls, tables: Sequence[PageTable], first_flags: Sequence[int]) -> PageStack:
        """Put tables on each other; they have as many pages each."""
        facts = np.stack([table.facts for table in tables], axis=1)
        facts.flags.writeable = False
        gaps = None
        if any(table.has_gaps for table in tables):
            gaps = np.stack([table.gaps for table in tables], axis=1)
            gaps.flags.writeable = False
        return cls(tuple(tables), facts, gaps, np.array(first_flags, np.int64)[:, None])


class PageWords(NamedTuple):
    """Where arithmetic finds a value in pages of any column.

    Attributes
    ----------
    facts
        Shape (:attr:`PageFact.COUNT`, 1, pages), read-only.
    words
        In which pages it finds integers, codes, or the bits of values.
    coded, scaled
        In which of these they are codes, and integers divided by a power of ten.
    texts, same
        In which it finds texts, and in which of these one text.
    """

    facts: Integers
    words: npt.NDArray[np.bool_]
    coded: npt.NDArray[np.bool_]
    scaled: npt.NDArray[np.bool_]
    texts: npt.NDArray[np.bool_]
    same: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls, records: npt.NDArray[np.void], node: FieldNode, *, has_dictionary: bool
    ) -> PageWords:
        """Return where the values are that pages of these records hold."""
        encodings = records["encoding"]
        in_place = records["codec"] == Codec.NONE
        inside = in_place & IS_ADDRESSABLE[records["inner"]] & (records["exceptions"] == 0)
        coded = inside & (encodings == EncodingCode.DICTIONARY) & has_dictionary
        scaled = inside & (encodings == EncodingCode.SCALED)
        plain = _PLAIN[encodings] if node.kind in _WORDS else encodings == EncodingCode.LINEAR
        facts = _facts(records, node)[:, None]
        facts.flags.writeable = False
        words = (in_place & plain) | coded | scaled
        has_texts = in_place & (node.kind in (ValueKind.TEXT, ValueKind.BINARY))
        same = has_texts & (encodings == EncodingCode.CONSTANT)
        texts = same | (has_texts & (encodings == EncodingCode.VARIABLE))
        return cls(facts, words, coded, scaled, texts, same)


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
    encodings = set(records["encoding"].tolist())
    is_coded = EncodingCode.DICTIONARY in encodings
    if not encodings or (is_coded and not encodings <= _CODED):
        return None
    if not is_coded and (
        node.is_dictionary or node.kind not in _KINDS or not _has_integers(records, node)
    ):
        return None
    is_plain = _are_plain(records, node, encodings)
    facts = _facts(records, node)
    if node.kind == ValueKind.FLOAT and node.width == _SINGLE_BYTES and not is_coded:
        exponents = facts[PageFact.EXPONENT]
        facts[PageFact.EXPONENT] = np.where(
            exponents == NOT_SCALED, SINGLE_BITS, exponents + SINGLE_SCALED
        )
    if not is_plain:
        _fill(facts, records["encoding"] == EncodingCode.ALL_MISSING)
    forms = np.zeros(len(records), np.uint8)
    if not is_plain or (node.kind == ValueKind.SIGNED and node.width < _WORD_BYTES):
        forms = _forms(records, node, facts)
    ends = facts[PageFact.START] + (records["row_count"] * facts[PageFact.WIDTH] >> 3)
    gaps = _gaps(records, is_coded, is_plain)
    if not is_plain:
        in_place = forms == PageForm.IN_PLACE
        held = gaps[Gap.VALUES] + gaps[Gap.EXCEPTIONS] * node.width
        ends = np.where(gaps[Gap.EXCEPTIONS] > 0, np.maximum(ends, held), ends)[in_place]
    if int(ends.max(initial=0)) + _WORD_BYTES > file.length:
        return None
    starts = records["offset"].astype(np.int64)
    for array in (facts, gaps, starts):
        array.flags.writeable = False
    return PageTable(
        node=node,
        facts=facts,
        gaps=gaps,
        starts=starts,
        forms=forms,
        shift=file.page_shift(node.number),
        is_coded=is_coded,
        is_plain=is_plain,
        is_flat=encodings == {EncodingCode.FLAT},
    )


def _are_plain(records: npt.NDArray[np.void], node: FieldNode, encodings: set[int]) -> bool:
    if node.is_dictionary:
        return False
    numbers = node.kind in NUMBERS and encodings <= _OF_NUMBERS
    if not numbers and encodings != {EncodingCode.DICTIONARY}:
        return False
    codec, nulls, exceptions = (records[name] for name in ("codec", "null_count", "exceptions"))
    if codec.any() or nulls.any() or exceptions.any():  # Codec.NONE is 0
        return False
    return bool(IS_ADDRESSABLE[records["inner"][_HAS_INNER[records["encoding"]]]].all())


def _facts(records: npt.NDArray[np.void], node: FieldNode) -> Integers:
    """Return the facts of each page, which mean nothing where it is not arithmetic."""
    facts = np.empty((PageFact.COUNT, len(records)), np.int64)
    flat = records["encoding"] == EncodingCode.FLAT
    # Of constants, only the base means anything.
    alone = flat | (records["encoding"] == EncodingCode.CONSTANT)
    facts[PageFact.START] = records["offset"].view(np.int64) + records["starts"][:, 0]
    # Where a page has no integers, its record may say any width.
    facts[PageFact.WIDTH] = np.where(alone, 0, np.minimum(records["bit_width"], 64))
    width = 1 if node.kind == ValueKind.BOOLEAN else min(node.width, _WORD_BYTES) * 8
    facts[PageFact.WIDTH][flat] = width
    facts[PageFact.MASK] = _MASKS[facts[PageFact.WIDTH]]
    facts[PageFact.BASE] = np.where(flat, 0, records["base"].view(np.int64))
    facts[PageFact.STEP] = np.where(alone, 0, records["step"].view(np.int64))
    scaled = records["encoding"] == EncodingCode.SCALED
    facts[PageFact.EXPONENT] = np.where(scaled, records["exponent"], NOT_SCALED)
    return facts


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
    others = facts[PageFact.EXPONENT][~missing]
    facts[PageFact.EXPONENT, missing] = others[0] if len(others) else NOT_SCALED


def _forms(
    records: npt.NDArray[np.void], node: FieldNode, facts: Integers
) -> npt.NDArray[np.uint8]:
    encodings = records["encoding"]
    within = _HAS_INNER[encodings]
    addressable = _PLAIN[encodings] | (within & IS_ADDRESSABLE[records["inner"]])
    bits = node.width * 8
    if node.kind == ValueKind.SIGNED and bits < 64:
        # Negative integers that are kept as their bits are not what 64 bits make of them.
        as_bits = (facts[PageFact.WIDTH] == bits) & (facts[PageFact.BASE] == 0)
        positive = (records["flags"] & PageFlag.BOUNDS != 0) & (
            records["minimum"].view(np.int64) >= 0
        )
        addressable &= within | positive | ~as_bits
    unpacked = np.where(records["codec"] == Codec.NONE, PageForm.IN_PLACE, PageForm.UNPACKED)
    return np.where(addressable, unpacked, PageForm.DECODED).astype(np.uint8)


def _gaps(records: npt.NDArray[np.void], is_coded: bool, is_plain: bool) -> Integers:
    gaps = np.zeros((Gap.COUNT, len(records)), np.int64)
    gaps[Gap.NANS] = 0 if is_coded else records["nan_count"] > 0
    if is_plain:
        gaps[Gap.VALIDITY] = ALL_PRESENT
        return gaps
    starts = records["offset"].astype(np.int64)
    partly = (records["flags"] & PageFlag.VALIDITY) != 0
    gaps[Gap.VALIDITY] = np.where(partly, starts, ALL_PRESENT)
    gaps[Gap.VALIDITY][records["encoding"] == EncodingCode.ALL_MISSING] = ALL_MISSING
    scaled = records["encoding"] == EncodingCode.SCALED
    gaps[Gap.EXCEPTIONS] = np.where(scaled, records["exceptions"], 0)
    gaps[Gap.PLACES] = starts + records["starts"][:, _PLACES_SLOT]
    gaps[Gap.PLACE_WIDTH] = records["inner_width"]
    gaps[Gap.VALUES] = starts + records["starts"][:, _VALUES_SLOT]
    return gaps
