"""The contract of a page encoding: physical values of one page to buffers and a record, and back.

Whoever writes or calls an encoding enters here. One encoding is one file with one class that
extends :class:`PageEncoding` and a line in :mod:`tessel.store.encodings.registry`; what holds
integers extends :class:`IntegerEncoding`. Nulls, lists and structs are none of its business:
validity is kept apart (slot 0 of the page) and null slots arrive filled.

Integers are handled modulo 2**64, so unsigned, negative and wrapping values need no case of their
own. Whatever is decoded was written by somebody else: sizes are checked against the record when a
file is opened (:meth:`PageEncoding.slot_bytes`), contents by :meth:`PageEncoding.check` when a
page is first touched; after that an encoding trusts its page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Final, assert_never

import numpy as np
import numpy.typing as npt

from tessel.lazy import dataclass
from tessel.store.encodings.codes import Codec, EncodingCode, ValueKind
from tessel.store.encodings.values import (
    Integers,
    Page,
    PhysicalValues,
    check_bounds,
    kind_bounds,
    native_dtype,
)


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


class PageEncoding(ABC):
    """One way to store the values of a page. Stateless; used from several threads at once.

    A subclass has :meth:`decode` or :meth:`decode_into`, or both where that is faster.
    """

    code: ClassVar[EncodingCode]
    """Its number in page records."""

    name: ClassVar[str]
    """Its word in options, plans and ``show --physical``."""

    kinds: ClassVar[frozenset[ValueKind]]
    """The (stored) kinds of values that can ever be encoded so."""

    @abstractmethod
    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return about how many bytes the buffers would take; None where it cannot hold the page.

        Cheap: the chooser asks every encoding of the kind, then encodes with the best.
        """

    @abstractmethod
    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Return the values as buffers, or None where this encoding cannot hold them.

        Decoding gives the same bits, NaN payloads and negative zeros included. ``length`` is at
        least 1. Null slots have been filled with a neighbouring value. Integers that it keeps in an
        inner encoding are encoded with the best of those (the profile decides widths).
        """

    @abstractmethod
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

    def check(self, page: Page) -> None:  # noqa: B027 - any bits are values, for most
        """Raise ``CorruptSegmentError`` where contents break what decoding relies on.

        Codes out of range, offsets or run ends that go backwards, text that is not UTF-8. Called
        once a page and process, after its checksum was verified.
        """

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return values ``[start, stop)`` of the page, as views where that is possible."""
        data = np.empty(stop - start, native_dtype(page.kind, page.width))
        self.decode_into(page, start, stop, data)
        return PhysicalValues(page.kind, page.width, stop - start, data)

    def decode_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Write values ``[start, stop)`` to ``out``, which holds as many.

        Only for kinds of fixed width. ``out`` has the dtype and trailing shape of
        :func:`native_dtype`, and may be strided (the low words of decimals).
        """
        out[...] = self.decode(page, start, stop).data

    @abstractmethod
    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return the values at places ``rows`` of the page: any order, repeats, maybe none."""

    def codes(self, page: Page, start: int, stop: int) -> npt.NDArray[Any]:
        """Return places in the column's dictionary, unsigned of 1, 2 or 4 bytes.

        Zeros by default: in a column of dictionary type, what has no codes is null in every row.
        """
        return np.zeros(stop - start, np.uint8)

    def take_codes(self, page: Page, rows: Integers) -> npt.NDArray[Any]:
        """Return the codes at places ``rows``."""
        return np.zeros(len(rows), np.uint8)


class IntegerEncoding(PageEncoding):
    """Holds integers, as the values of a page or inside another encoding, whatever its kind."""

    @abstractmethod
    def integer_estimate(
        self, integers: npt.NDArray[Any], summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return the bytes that integers would take; None where they cannot be held."""

    @abstractmethod
    def encode_integers(self, integers: npt.NDArray[Any], profile: Profile) -> EncodedPage | None:
        """Return integers of any dtype as buffers, or None."""

    @abstractmethod
    def integer_bytes(self, records: npt.NDArray[np.void], lengths: Integers) -> Integers:
        """Return the bytes that slots 1 and 2 need, as :meth:`slot_bytes` does."""

    @abstractmethod
    def integers_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Write integers ``[start, stop)``, or float bits, modulo the width of ``out``."""

    @abstractmethod
    def integers_at(self, page: Page, rows: Integers) -> npt.NDArray[np.uint64]:
        """Return the integers at ``rows`` modulo 2**64."""

    def check_integers(self, page: Page, lowest: int, highest: int) -> None:
        """Raise ``CorruptSegmentError`` where an integer, taken as signed, is out of bounds."""
        self._check_form(page)
        self._check_values(page, lowest, highest)

    def _check_form(self, page: Page) -> None:
        """Refuse what is wrong whatever the bounds of the integers."""

    def _check_values(self, page: Page, lowest: int, highest: int) -> None:
        found = np.empty(page.length, np.int64)
        self.integers_into(page, 0, page.length, found)
        check_bounds(page, found, lowest, highest)

    # --- as the values of a page ------------------------------------------------------------------

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return the bytes of the integers."""
        return self.integer_estimate(values.data, summary, profile)

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Encode the integers."""
        return self.encode_integers(values.data, profile)

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return the bytes of the integers, in slots 1 and 2."""
        sizes = np.zeros((len(records), 4), np.int64)
        sizes[:, :2] = self.integer_bytes(records, lengths)
        return sizes

    def check(self, page: Page) -> None:
        """Refuse values that their type does not hold."""
        self._check_form(page)
        bounds = kind_bounds(page.kind, page.width)
        if bounds is not None:
            self._check_values(page, *bounds)

    def decode_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Compute values in place."""
        self.integers_into(page, start, stop, out)

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return the values at ``rows``."""
        return words_as_values(self.integers_at(page, rows), page.kind, page.width)


def words_as_values(words: npt.NDArray[np.uint64], kind: ValueKind, width: int) -> PhysicalValues:
    """Return integers modulo 2**64 as values of a type of at most 8 bytes."""
    data = words.astype(f"<u{width}", copy=False).view(native_dtype(kind, width))
    return PhysicalValues(kind, width, len(words), data)
