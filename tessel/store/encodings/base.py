"""The contract of a page encoding: physical values of one page to buffers and a record, and back.

Whoever writes or calls an encoding enters here. One encoding is one file with one class that
satisfies :class:`PageEncoding` and a line in :mod:`tessel.store.encodings.registry`; what it can
answer without decoding are the extra protocols at the end. Nulls, lists and structs are none of
its business: validity is kept apart (slot 0 of the page) and null slots arrive filled.

Integers are handled modulo 2**64, so unsigned, negative and wrapping values need no case of their
own. Whatever is decoded was written by somebody else: sizes are checked against the record when a
file is opened (:meth:`PageEncoding.slot_bytes`), contents by :meth:`PageEncoding.check` when a
page is first touched; after that an encoding trusts its page.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Final, Protocol, assert_never, runtime_checkable

import numpy as np
import numpy.typing as npt

from tessel.lazy import dataclass
from tessel.store.encodings.codes import Codec, EncodingCode, ValueKind
from tessel.store.encodings.values import (
    INTEGER_ENCODINGS,
    Bytes,
    Integers,
    Page,
    PhysicalValues,
    integer_view,
    native_dtype,
    page_from_record,
    stored_kind,
    widen,
)

__all__ = [
    "COMPACT",
    "FAST",
    "INTEGER_ENCODINGS",
    "Bytes",
    "EncodedPage",
    "Gathering",
    "HasCodes",
    "Integers",
    "Packing",
    "Page",
    "PageEncoding",
    "PageSummary",
    "PhysicalValues",
    "Profile",
    "integer_view",
    "native_dtype",
    "page_from_record",
    "stored_kind",
    "widen",
]


@dataclass(frozen=True, slots=True, eq=False)
class PageSummary:
    """What the chooser learnt in one pass over a page, so that no encoding looks again.

    Attributes
    ----------
    runs
        Runs of bit-equal values (of codes, where those are what is encoded).
    minimum, maximum
        Of the values as integers (codes included); None for other kinds.
    total_bytes
        Bytes of the values of text and binary; otherwise length times width.
    """

    runs: int
    minimum: int | None
    maximum: int | None
    total_bytes: int


class Packing(Enum):
    """How tightly a writer packs integers; every reader takes any width."""

    BITS = "bits"
    """To the bit: the fewest bytes, eight windows to unpack."""
    BYTES = "bytes"
    """To whole bytes: one window to unpack, a third of the time."""
    WORDS = "words"
    """To 8, 16, 32 or 64 bits: arrays, read in place."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a writer aims at.

    Attributes
    ----------
    name
        ``"fast"`` or ``"compact"`` in options.
    packing
        Of residuals and scaled integers. Codes and text offsets are packed to the bit, or else kept
        in words.
    codec
        What pages go through after encoding, where it saves enough.
    codec_saving
        The fraction of a page that the codec must save to be used.
    decode_penalty
        Bytes a value that an opaque or slow encoding (DELTA) must save to be chosen.
    """

    name: str
    packing: Packing
    codec: Codec
    codec_saving: float
    decode_penalty: float

    def width(self, bits: int) -> int:
        """Return the width in bits to store integers in that need ``bits`` bits each."""
        if bits == 0:
            return 0
        if bits > 57:
            return 64
        match self.packing:
            case Packing.BITS:
                return bits
            case Packing.BYTES:
                return -(-bits // 8) * 8
            case Packing.WORDS:
                return next(width for width in (8, 16, 32, 64) if bits <= width)
            case unknown:
                assert_never(unknown)


FAST: Final = Profile("fast", Packing.BYTES, Codec.NONE, 1.0, 2.0)
COMPACT: Final = Profile("compact", Packing.BITS, Codec.ZSTD, 0.05, 0.125)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPage:
    """What an encoding made of a page: the fields of its record, and up to four buffers.

    Attributes
    ----------
    encoding, inner
        Which encoding, and which one holds its inner integers (for DICTIONARY and SCALED: one of
        CONSTANT, LINEAR, DELTA, RUN_END; otherwise 0).
    bit_width, base, step
        The (inner) linear form. ``base`` and ``step`` are any integers; they are kept modulo
        2**64. A constant keeps its bits in ``base`` (decimals: low word in ``base``, high word in
        ``step``).
    inner_width
        Bits of one run end or one exception position: 8, 16 or 32.
    count
        Runs; or the length in bytes of a constant text.
    exceptions
        Floats that are no scaled integers.
    exponent
        Of ten: value = integer / 10**exponent, divided, never multiplied.
    buffers
        Slots 1 to 4, in order, unpadded and contiguous.
    """

    encoding: EncodingCode
    inner: EncodingCode = EncodingCode.NOTHING
    bit_width: int = 0
    base: int = 0
    step: int = 0
    inner_width: int = 0
    count: int = 0
    exceptions: int = 0
    exponent: int = 0
    buffers: Sequence[npt.NDArray[Any]] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, padding excluded."""
        return sum(buffer.nbytes for buffer in self.buffers)


class PageEncoding(Protocol):
    """One way to store the values of a page. Stateless; used from several threads at once."""

    code: ClassVar[EncodingCode]
    """Its number in page records."""

    name: ClassVar[str]
    """Its word in options, plans and ``show --physical``."""

    def accepts(self, kind: ValueKind, width: int) -> bool:
        """Return whether values of this (stored) kind can ever be encoded so."""

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return about how many bytes the buffers would take; None where it cannot hold the page.

        Cheap: the chooser asks every encoding that accepts the kind, then encodes with the best.
        """

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Return the values as buffers, or None where this encoding cannot hold them.

        Decoding gives the same bits, NaN payloads and negative zeros included. ``length`` is at
        least 1. Null slots have been filled with a neighbouring value. Integers that it keeps in an
        inner encoding are encoded with the best of those (the profile decides widths).
        """

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return the bytes that slots 1 to 4 need at least, shape ``(len(records), 4)``.

        Vectorised and safe on forged records: used to validate files when they are opened, on the
        pages of all columns at once. A record that this encoding cannot mean (an illegal width,
        inner encoding, exponent, count) has -1 in its first place.

        Parameters
        ----------
        records
            Records of this encoding, of one or many columns, as a structured array.
        kind, width
            Of the values held (after :func:`stored_kind`), the same for all.
        lengths
            Values per page, int64.
        """

    def check(self, page: Page) -> None:
        """Raise ``CorruptSegmentError`` where contents break what decoding relies on.

        Codes out of range, offsets or run ends that go backwards, text that is not UTF-8. Called
        once a page and process, after its checksum was verified.
        """

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return values ``[start, stop)`` of the page, as views where that is possible."""

    def decode_into(
        self, page: Page, start: int, stop: int, out: npt.NDArray[Any], at: int
    ) -> None:
        """Write values ``[start, stop)`` to ``out[at : at + stop - start]``.

        Only for kinds of fixed width. ``out`` has the dtype and trailing shape of
        :func:`native_dtype`, and may be strided (the low words of decimals).
        """

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return the values at places ``rows`` of the page: any order, repeats, maybe none."""


@runtime_checkable
class Gathering(Protocol):
    """Takes from many pages in one call. Without it, each page is one call of ``take``."""

    def gather(
        self,
        segment: Bytes,
        records: npt.NDArray[np.void],
        rows: Integers,
        kind: ValueKind,
        width: int,
        dictionary: PhysicalValues | None,
    ) -> PhysicalValues | None:
        """Return one value per element of ``rows``; None where these records need ``take``.

        Parameters
        ----------
        segment
            All bytes of the segment; the pages wanted are there, checked, and not compressed.
        records
            One page record per element of ``rows`` (repeated as needed), all of this encoding.
        rows
            The place inside that page.
        """


@runtime_checkable
class HasCodes(Protocol):
    """Offers places in the column's dictionary. Without it, values are decoded."""

    def codes(self, page: Page, start: int, stop: int) -> npt.NDArray[Any]:
        """Return the codes of values ``[start, stop)``, unsigned of 1, 2 or 4 bytes."""

    def take_codes(self, page: Page, rows: Integers) -> npt.NDArray[Any]:
        """Return the codes at places ``rows``."""
