"""Every number of a file's page tables is checked once, before anything is believed or allocated.

:class:`~tessel.store.segment.file.SegmentFile` enters here, once the directory was found sound
(:func:`tessel.store.segment.frame.wrong_lines`). All checks are arithmetic on arrays over the pages
of all columns at once, so that opening a file costs microseconds. What only the bytes of a page can
show (codes out of range, offsets that go backwards) its encoding checks when the page is first
touched.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from tessel.errors import CorruptSegmentError
from tessel.lazy import dataclass
from tessel.store.encodings.codes import (
    ALIGNMENT,
    PAGE_RECORD,
    SLOTS,
    Codec,
    EncodingCode,
    PageFlag,
    Role,
    ValueKind,
)
from tessel.store.encodings.registry import ENCODINGS
from tessel.store.encodings.values import INTEGER_ENCODINGS, Integers
from tessel.store.segment.expectations import Expectations
from tessel.store.segment.frame import Frame
from tessel.store.segment.records import BACKED_BYTES, FREE_BYTES, field_place

_INTEGER_CODES = np.isin(np.arange(256), sorted(INTEGER_ENCODINGS))
_FLAGS = int(sum(PageFlag))

# Plain integers: operators of numpy with members of an enum take several times as long.
_VALIDITY = int(PageFlag.VALIDITY)
_KINDS = tuple(ValueKind(kind) for kind in range(len(ValueKind)))
_NARROW_DECIMALS = 8 << 16 | int(ValueKind.SIGNED) << 8
_ALL_MISSING, _DICTIONARY = int(EncodingCode.ALL_MISSING), int(EncodingCode.DICTIONARY)
_VARIABLE = int(EncodingCode.VARIABLE)
_NO_CODEC, _LAST_CODEC = int(Codec.NONE), int(max(Codec))


def _places(size: int) -> dict[str, int]:
    """Return where fields of ``size`` bytes stand, in a view of records as numbers of that size."""
    return {
        name: field_place(PAGE_RECORD, name) // size
        for name in PAGE_RECORD.names or ()
        if PAGE_RECORD[name].base.itemsize == size
    }


_WORD, _LONG, _SMALL = _places(4), _places(8), _places(1)
_STARTS = slice(_WORD["starts"], _WORD["starts"] + SLOTS - 1)
_ENDS = slice(_STARTS.start + 1, _STARTS.stop + 1)

Check: TypeAlias = "tuple[Any, str]"
"""An array of bool, and what is wrong where it is False."""


def damaged(name: str, what: str, **place: Any) -> CorruptSegmentError:
    """Make the error for a damaged segment; ``place`` may name column and page."""
    where = "".join(f", {word} {value}" for word, value in place.items())
    return CorruptSegmentError.for_object(name, f"is damaged{where}: {what}", **place)


def _aligned(lengths: Integers) -> Integers:
    return (lengths + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _seen_as(dtype: str, records: npt.NDArray[np.void]) -> npt.NDArray[Any]:
    """Return page records as a table of numbers, a row a record."""
    # Not a view of the array, which looks at all fields first.
    kind = np.dtype(dtype)
    shape = len(records), PAGE_RECORD.itemsize // kind.itemsize
    return np.ndarray(shape, kind, records)


@dataclass(eq=False)
class _Checker:
    """Checks over the records of a set of columns; an instance lives for one call.

    Fields of the records are columns of three views: ``words`` (u4, as int64), ``longs`` (u8, as
    int64, so that what does not fit is negative) and ``small`` (single bytes).
    """

    records: npt.NDArray[np.void]
    picked: Integers | None
    directory: npt.NDArray[np.void]
    expected: Expectations
    frame: Frame
    name: str
    metadata_start: int | Integers

    def __post_init__(self) -> None:
        self.words = _seen_as("<u4", self.records).astype(np.int64)
        self.longs = _seen_as("<i8", self.records)
        self.small = _seen_as("u1", self.records)
        facts = self.frame.records
        self.facts = facts if self.picked is None else facts.picked(self.picked)
        self.row_count = self.words[:, _WORD["row_count"]]
        self.payload = self.words[:, _WORD["payload_length"]]
        self.encoding = self.small[:, _SMALL["encoding"]]
        self.checks: list[Check] = []

    def require(self, holds: npt.NDArray[np.bool_], what: str) -> None:
        self.checks.append((holds, what))

    def settle(self) -> None:
        """Raise for the first check that does not hold; nothing is believed before."""
        together = np.ones(len(self.records), np.bool_)
        for holds, _ in self.checks:
            together &= holds
        if np.count_nonzero(together) < together.size:
            at, what = next((h.argmin(), what) for h, what in self.checks if not h.all())
            self.fail(int(at), what)
        self.checks.clear()

    def fail(self, at: int, what: str) -> NoReturn:
        facts = self.facts
        column = int(self.expected.column_id[facts.owner[at] % len(self.expected.nodes)])
        page: Any = "dictionary" if facts.of_dictionary[at] else int(facts.number[at])
        raise damaged(self.name, what, column=column, page=page)

    def places(self) -> None:
        """Check that stored bytes lie among the pages, and that their lengths fit the codec."""
        words, payload = self.words, self.payload
        offset = self.longs[:, _LONG["offset"]]
        length = words[:, _WORD["length"]]
        starts = words[:, _STARTS]
        places = starts[:, 0] | starts[:, 1] | starts[:, 2] | starts[:, 3]
        self.require(
            (offset | payload | places) % ALIGNMENT == 0, "its buffers begin at odd places"
        )
        self.require(
            (offset >= 0) & (offset <= self.metadata_start - length),
            "its bytes lie outside the pages of the file",
        )
        codec = self.small[:, _SMALL["codec"]]
        if np.count_nonzero(codec):
            from tessel.store.encodings.block_codec import table_bytes

            plain = codec == _NO_CODEC
            fewest = table_bytes(payload, codec)
            self.require(codec <= _LAST_CODEC, "its codec is none")
            self.require(plain | (length >= fewest), "it is too short for what it should hold")
            self.require(~plain | (length == payload), "its two lengths differ without a codec")
        else:
            self.require(length == payload, "its two lengths differ without a codec")

    def counts(self) -> None:
        """Check that rows, nulls and NaNs add up, and say whether there is a validity bitmap."""
        rows, facts = self.row_count, self.facts
        nulls = self.words[:, _WORD["null_count"]]
        nans = self.words[:, _WORD["nan_count"]]
        flags = self.records["flags"]
        partly = (flags & _VALIDITY) != 0
        self.require(nulls + nans <= rows, "it has more nulls and NaNs than rows")
        if np.count_nonzero(nans):
            self.require((nans == 0) | facts.is_float, "it has NaNs, being no floats")
        self.require(flags <= _FLAGS, "its flags are none")
        if np.count_nonzero(nulls) or np.count_nonzero(partly):
            first = self.words[:, _STARTS.start]
            self.require(partly == ((nulls > 0) & (nulls < rows)), "its validity is misstated")
            self.require(~partly | (first >= (rows + 7) >> 3), "its validity is cut short")
            self.require(~facts.of_dictionary | (nulls == 0), "a dictionary holds nulls")
        self.require(
            ((self.encoding == _ALL_MISSING) == (nulls == rows)) | facts.is_none,
            "its encoding and its nulls contradict each other",
        )
        stored = self.words[:, _WORD["length"]]
        claimed = rows * facts.claimed_width - FREE_BYTES
        self.require(
            (claimed <= stored * BACKED_BYTES) | facts.is_none,
            "it claims more values than its bytes can back",
        )

    def cuts(self) -> None:
        """Check that pages follow each other without gap, cut where their top-level rows are."""
        facts = self.facts
        first = self.longs[:, _LONG["first_row"]]
        follows = np.empty(len(first), np.int64)
        np.add(first[:-1], self.row_count[:-1], out=follows[1:])
        follows[facts.fresh] = 0
        self.require(first == follows, "its rows do not follow those of the page before it")
        sizes = self.directory["dictionary_count"][facts.owner]
        wanted = np.where(facts.of_dictionary, sizes, facts.rows)
        self.require(
            (self.row_count == wanted) | (wanted < 0), "it has not the rows that belong in it"
        )

    def items(self, node: int) -> None:
        """Check that pages below a list hold exactly the items of the lists above."""
        facts = self.facts
        file, owner = np.divmod(facts.owner, len(self.expected.nodes))
        mine = np.flatnonzero((owner == node) & ~facts.of_dictionary)
        if not len(mine):
            return
        above = self.expected.nodes[self.expected.nodes[node].parent]
        theirs = np.flatnonzero((owner == above.number) & ~facts.of_dictionary)
        if above.role == Role.LIST:
            holds = self.longs[mine, _LONG["first_row"]] == self.longs[theirs, _LONG["item_start"]]
        else:
            times = above.width if above.role == Role.FIXED_LIST else 1
            holds = self.row_count[mine] == self.row_count[theirs] * times
        if not holds.all():
            self.fail(int(mine[np.argmin(holds)]), "it does not fit the page above it")
        stated = self.directory["value_count"][node :: len(self.expected.nodes)]
        held = np.zeros(len(stated), np.int64)
        np.add.at(held, file[mine], self.row_count[mine])
        if (held != stated.astype(np.int64)).any():
            self.fail(int(mine[0]), "the pages do not hold all values")

    def encodings(self) -> None:
        """Check that encodings are ones of the type, with buffers long enough for the values."""
        encoding, facts = self.encoding, self.facts
        legal = self.expected.legal.reshape(-1).take(facts.legal_start + encoding)
        self.require(legal, "its encoding is none of its type")
        refers = encoding == _DICTIONARY
        self.require(refers <= facts.has_dictionary, "it refers to a dictionary not there")
        self.settle()
        needed = self.needed()
        self.require(needed[:, 0] >= 0, "its encoding has parameters that mean nothing")
        room = self.words[:, _ENDS] - self.words[:, _STARTS]
        room[:, -1] = self.payload - self.words[:, _STARTS.stop - 1]
        fits = np.logical_and.reduce(needed <= room, axis=1)
        self.require(fits, "its buffers are too short, or out of order")
        if np.count_nonzero(self.small[:, _SMALL["codec"]]):
            # What is decompressed has no more bytes than the values take; text alone may.
            bitmap = np.where(self.records["flags"] & _VALIDITY, (self.row_count + 7) >> 3, 0)
            most = _aligned(bitmap) + _aligned(needed).sum(axis=1)
            bounded = (encoding != _VARIABLE) & (self.small[:, _SMALL["codec"]] != _NO_CODEC)
            self.require(~bounded | (self.payload <= most), "it claims more bytes than values take")

    def needed(self) -> Integers:
        """Return the bytes that the slots of each page need, as its encoding says."""
        facts, lengths, held = self.facts, self.row_count, self.facts.held_kind
        if self.frame.any_list:
            lengths = lengths + (facts.is_list & (lengths > 0))
        if self.frame.any_decimal:
            narrow = facts.is_decimal & _INTEGER_CODES[self.encoding]
            held = np.where(narrow, _NARROW_DECIMALS, held)
        needed = np.zeros((len(lengths), SLOTS - 1), np.int64)
        # Columns of one type and encoding are asked about together.
        groups = held | self.encoding
        for group in sorted(set(groups.tolist())):
            code, kind, width = group & 255, (group >> 8) & 255, group >> 16
            if code > _ALL_MISSING:
                chosen = (groups == group).nonzero()[0]
                # For records, take() is several times as fast as indexing.
                needed[chosen] = ENCODINGS[code].slot_bytes(
                    self.records.take(chosen), _KINDS[kind], width, lengths.take(chosen)
                )
        return needed


def check_pages(
    records: npt.NDArray[np.void],
    picked: Integers | None,
    directory: npt.NDArray[np.void],
    expected: Expectations,
    frame_: Frame,
    *,
    name: str,
    metadata_start: int | Integers,
) -> None:
    """Check all page records of some columns.

    They may be those of several files of one schema, one after the other; then all columns are
    there, the directory has the lines of all, and ``metadata_start`` is given for each record.

    Raises CorruptSegmentError, which names the object, the column id and the page (its number, or
    ``"dictionary"``).
    """
    if not len(records):
        return
    checker = _Checker(records, picked, directory, expected, frame_, name, metadata_start)
    checker.places()
    checker.counts()
    checker.cuts()
    checker.encodings()
    checker.settle()
    for node in expected.varying:
        checker.items(node)
