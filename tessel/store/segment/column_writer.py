"""One physical column as stored pages: dictionary, encodings, statistics, codec, checksums.

The file writer enters here, once a column and possibly from several threads: a column knows nothing
of the others, and nothing of where its pages will lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.encodings.base import EncodedPage, Profile
from tessel.store.encodings.block_codec import choose_codec, planes_codec, whole_widths
from tessel.store.encodings.chooser import (
    choose,
    column_dictionary,
    encode_as,
    summarise_values,
)
from tessel.store.encodings.codes import (
    BYTE_KINDS,
    PAGE_RECORD,
    SLOTS,
    Codec,
    EncodingCode,
    PageFlag,
    Role,
    ValueKind,
    aligned,
)
from tessel.store.encodings.fields import FieldNode, PhysicalColumn
from tessel.store.encodings.values import Bytes, PhysicalValues
from tessel.store.segment.paging import PageInput, page_input
from tessel.store.segment.records import BACKED_BYTES, FREE_BYTES
from tessel.store.segment.zone_maps import (
    DictionaryBounds,
    PageBounds,
    common_prefix,
    page_bounds,
    slots,
)

_LARGEST_PAYLOAD = (1 << 32) - 64
_ZEROS = np.zeros(64, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedColumn:
    """The pages of one physical column.

    Attributes
    ----------
    records
        One page record a page, the dictionary's last; ``offset`` is still 0.
    stored
        For each record, the pieces that its stored bytes consist of.
    prefix
        What all values of text, binary or fixed bytes begin with.
    bounds
        Those of all pages together.
    """

    node: FieldNode
    page_shift: int
    records: npt.NDArray[np.void]
    stored: Sequence[Sequence[Bytes]]
    dictionary_count: int
    has_dictionary: bool
    prefix: bytes
    bounds: PageBounds

    @property
    def page_count(self) -> int:
        """Data pages, the dictionary not counted."""
        return len(self.records) - self.has_dictionary


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """One page, encoded: everything but its slots for bounds, which need the whole column."""

    page: PageInput
    encoded: EncodedPage
    bounds: PageBounds
    constant: bool
    first_row: int
    item_start: int


def encode_column(
    column: PhysicalColumn, page_shift: int, profile: Profile, forced: str | None = None
) -> EncodedColumn:
    """Encode all pages of a column.

    Parameters
    ----------
    column
        Cut into pages already.
    page_shift
        How it was cut; recorded only.
    forced
        The name of an encoding to use wherever it can hold a page.
    """
    column, dictionary = _with_dictionary(column, profile, forced)
    by_code = None if dictionary is None else DictionaryBounds(dictionary)
    made: list[_Made] = []
    for number in range(len(column.bounds) - 1):
        start = int(column.bounds[number])
        items = int(column.values.data[start]) if column.node.role == Role.LIST else 0
        page = page_input(column, number)
        made.append(_encode(page, column.node.kind, by_code, profile, forced, start, items))
    bounds = _together([page.bounds for page in made])
    if dictionary is not None:
        page = PageInput(dictionary.length, dictionary, None, 0)
        made.append(_encode(page, column.node.kind, None, profile, None, 0, 0))
    prefix = b""
    if column.node.kind in BYTE_KINDS:
        prefix = common_prefix([page.bounds for page in made])
    records = np.zeros(len(made), PAGE_RECORD)
    stored = [
        _store(records, number, page, column.node.kind, prefix, profile)
        for number, page in enumerate(made)
    ]
    count = 0 if dictionary is None else dictionary.length
    return EncodedColumn(
        column.node,
        page_shift,
        records,
        stored,
        count,
        dictionary is not None,
        prefix,
        bounds,
    )


def _together(pages: Sequence[PageBounds]) -> PageBounds:
    lows: list[Any] = [bounds.minimum for bounds in pages if bounds.minimum is not None]
    highs: list[Any] = [bounds.maximum for bounds in pages if bounds.maximum is not None]
    nans = sum(bounds.nans for bounds in pages)
    return PageBounds(min(lows, default=None), max(highs, default=None), nans, False)


def _with_dictionary(
    column: PhysicalColumn, profile: Profile, forced: str | None
) -> tuple[PhysicalColumn, PhysicalValues | None]:
    if column.node.role != Role.VALUES or column.node.kind == ValueKind.NONE:
        return column, None
    if column.node.is_dictionary:
        held = column.dictionary
        # Only null rows refer to a dictionary without values.
        return column, held if held is not None and held.length else None
    found = column_dictionary(column, profile, forced)
    if found is None:
        return column, None
    codes, dictionary = found
    return replace(column, values=replace(column.values, codes=codes)), dictionary


def _encode(
    page: PageInput,
    kind: ValueKind,
    by_code: DictionaryBounds | None,
    profile: Profile,
    forced: str | None,
    first_row: int,
    item_start: int,
) -> _Made:
    if kind == ValueKind.NONE or page.null_count == page.rows:
        code = EncodingCode.NOTHING if kind == ValueKind.NONE else EncodingCode.ALL_MISSING
        nothing = PageBounds(None, None, 0, False)
        return _Made(page, EncodedPage(code), nothing, False, first_row, item_start)
    if by_code is not None and (kind in BYTE_KINDS or not len(page.values.data)):
        bounds = by_code.of(page)
    else:
        bounds = page_bounds(page, kind)
    same = bounds.minimum is not None and bounds.minimum == bounds.maximum
    summary = summarise_values(page.values, constant=same)
    constant = summary.runs == 1 and not page.null_count and kind != ValueKind.OFFSETS
    encoded = choose(page.values, summary, profile, forced)
    return _Made(page, encoded, bounds, constant, first_row, item_start)


@dataclass(frozen=True, slots=True, eq=False)
class _Payload:
    """An encoded page as it would be stored without a codec.

    Attributes
    ----------
    pieces
        What it consists of, padding included.
    starts
        Where slots 1 to 4 begin.
    """

    encoded: EncodedPage
    pieces: list[Bytes]
    starts: list[int]
    length: int

    def joined(self) -> Bytes:
        return np.concatenate(self.pieces) if self.pieces else np.empty(0, np.uint8)


def _compressed(
    made: _Made, plain: _Payload, profile: Profile
) -> tuple[_Payload, Codec, list[Bytes]]:
    """Return the payload that is stored, through which codec, and the stored bytes."""
    whole: list[_Payload] = []

    def planes() -> tuple[Codec, Bytes] | None:
        values, code = made.page.values, made.encoded.encoding
        encoded = encode_as(values, code, whole_widths(profile))
        codec = None if encoded is None else planes_codec(encoded, values.width)
        if encoded is None or codec is None:
            return None
        whole.append(_payload(made.page, encoded))
        return codec, whole[0].joined()

    chosen, with_planes = choose_codec(plain.joined(), profile, planes)
    if chosen is None:
        return plain, Codec.NONE, plain.pieces
    return whole[0] if with_planes else plain, chosen[0], [chosen[1]]


def backing_bytes(rows: int, kind: ValueKind, width: int) -> int:
    """Return the fewest stored bytes of a page that decodes to ``rows`` values."""
    if kind == ValueKind.NONE:
        return 0
    # Text of any length has width 0, and takes 4 bytes of offsets a value at least.
    return max(0, -(-(rows * (width or 4) - FREE_BYTES) // BACKED_BYTES))


def _store(
    records: npt.NDArray[np.void],
    number: int,
    made: _Made,
    kind: ValueKind,
    prefix: bytes,
    profile: Profile,
) -> list[Bytes]:
    """Fill one record, and return the pieces of the page's stored bytes."""
    page = made.page
    plain = payload = _payload(page, made.encoded)
    codec, pieces = Codec.NONE, plain.pieces
    if profile.codec != Codec.NONE:
        payload, codec, pieces = _compressed(made, plain, profile)
    needed = backing_bytes(page.rows, kind, page.values.width)
    if sum(map(len, pieces)) < needed:
        # Only long lists of a constant, a sequence or of nulls need more bytes than they have for
        # the values that the page claims.
        padding = np.zeros(max(0, aligned(needed) - plain.length), np.uint8)
        codec, pieces = Codec.NONE, [*plain.pieces, padding]
        payload = replace(plain, pieces=pieces, length=plain.length + len(padding))
    encoded, starts = payload.encoded, payload.starts
    minimum, maximum, flags = slots(made.bounds, kind, prefix)
    if starts[0]:
        flags |= PageFlag.VALIDITY
    if made.constant:
        flags |= PageFlag.CONSTANT
    records[number] = (
        made.first_row,
        0,
        sum(map(len, pieces)),
        payload.length,
        encoded.base % (1 << 64),
        encoded.step % (1 << 64),
        minimum,
        maximum,
        made.item_start,
        page.rows,
        reduce(google_crc32c.extend, pieces, 0),
        page.null_count,
        made.bounds.nans,
        starts,
        encoded.count,
        encoded.exceptions,
        encoded.encoding,
        encoded.inner,
        encoded.bit_width,
        encoded.inner_width,
        codec,
        encoded.exponent,
        flags,
    )
    return pieces


def _payload(page: PageInput, encoded: EncodedPage) -> _Payload:
    bitmap = page.bitmap
    pieces: list[Bytes] = []
    starts = []
    place = 0
    for buffer in encoded.buffers if bitmap is None else (bitmap, *encoded.buffers):
        starts.append(place)
        held = np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)
        end = place + len(held)
        place = aligned(end)
        pieces.append(held)
        if place > end:
            pieces.append(_ZEROS[: place - end])
    if bitmap is not None:
        del starts[0]
    starts += [place] * (SLOTS - 1 - len(starts))
    if place > _LARGEST_PAYLOAD:
        raise InvalidInputError(
            f"one page of {page.rows} rows has {place} bytes, more than a segment can hold",
            hint="write fewer rows a segment, or cut the values",
        )
    return _Payload(encoded, pieces, starts, place)
