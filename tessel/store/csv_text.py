"""What text of CSV says: where rows end, and how a column of it becomes numbers or times."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.errors import InvalidInputError
from tessel.store.file_kinds import FileOptions

TIME_FORMATS = (
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d",
    "%Y.%m.%d %H:%M:%S",
    "%Y.%m.%d",
    "%Y%m%d %H:%M:%S",
    "%b %d %Y %H:%M:%S",
    "%b %d %Y",
    "%b %d, %Y",
    "%d %b %Y %H:%M:%S",
    "%d %b %Y",
    "%d-%b-%Y",
)
"""Forms of dates that are known beside ISO 8601. Of ``03/04/2010`` nobody knows which number is the
month, so such a form is only taken when it is given."""

GUESSES = [
    pa.null(),
    pa.int64(),
    pa.bool_(),
    pa.date32(),
    pa.time32("s"),
    *(pa.timestamp(unit, zone) for unit in ("s", "ns") for zone in (None, "UTC")),
    pa.float64(),
    pa.string(),
]
"""Types of text in the order in which Arrow tries them."""

CODES = {pa.int64(): r"^\s*0\d+\s*$", pa.float64(): r"^\s*(0\d+|\d{19,})\s*$"}
"""Text that looks like such a number and would lose digits as one: ``01234``, or past 64 bits."""

_LONGEST_ROW = 64 << 20  # in bytes; files of longer ones are read as a stream
_MOSTLY = 0.9  # of the values of a column are numbers, if it may be meant as one of numbers
_COMMA_DECIMALS = r"^\s*[-+]?\d+,\d+\s*$"
_THOUSANDS = r"^\s*[-+]?(\d+|\d{{1,3}}({}\d{{3}})+)({}\d+)?\s*$"


def check_encoding(path: Path, encoding: str) -> None:
    """Raise ``InvalidInputError`` for what names no encoding of text in files."""
    try:
        b"a".decode(encoding, "replace")
    except (LookupError, ValueError) as error:
        raise InvalidInputError(
            f"cannot read {str(path)!r} in the encoding {encoding!r}: {error}",
            hint="such as utf-8, utf-16, cp1252",
        ) from error


def check_signs(path: Path, delimiter: str, decimal: str, thousands: str | None) -> None:
    """Raise ``InvalidInputError`` for signs that cannot be told from each other."""
    for what, sign, such, place in (
        ("delimiter", delimiter, ";", "values"),
        ("decimal", decimal, ",", ""),
        ("thousands", thousands or "'", "." if decimal == "," else ",", "thousands"),
    ):
        if len(sign) != 1:
            raise InvalidInputError(
                f"{what} is one character, not {sign!r}", hint=f"such as {such!r}"
            )
        # Arrow's delimiter and decimal point are one byte each; thousands are taken out here.
        if sign in '"\r\n' or sign.isdigit() or not (sign.isascii() or what == "thousands"):
            raise InvalidInputError(
                f"{what} cannot be {sign!r}",
                hint=f"give a character of ASCII that is no digit, quote or line break: {such!r}",
            )
        if place and sign == decimal:
            raise InvalidInputError(
                f"{str(path)!r}: {sign!r} cannot lie both between {place} and before decimals",
                hint=f"say what lies between {place}: {what}={such!r}",
            )


def numbers_in_text(name: str, values: pa.Array, delimiter: str, decimal: str) -> tuple[str, ...]:
    """Return notes, if any, on how a column of text that has numbers becomes one of numbers."""
    if (
        "," not in (delimiter, decimal)
        and pc.all(pc.match_substring_regex(values, _COMMA_DECIMALS)).as_py()
    ):
        return (f"column {name!r} is text such as 1,5 (--decimal ,)",)
    between = "." if decimal == "," else ","
    are = _are_numbers(values, between, decimal)
    if pc.all(are).as_py():
        return (f"column {name!r} is text such as 1{between}234{decimal}5 (--thousands {between})",)
    if pc.mean(are).as_py() < _MOSTLY:
        return ()
    return (misfit_note(name, values.filter(pc.invert(are))[0].as_py(), "number"),)


def misfit_note(name: str, value: str, kind: object) -> str:
    """Return the note on a value for which a column is one of text."""
    return f"column {name!r} is text: {value!r} is no {kind} (--missing {shlex.quote(value)})"


def without_thousands(values: pa.Array, between: str, decimal: str) -> pa.Array:
    """Return text whose numbers are without what lies between their thousands."""
    plain = pc.replace_substring(values, between, "")
    return pc.if_else(_are_numbers(values, between, decimal), plain, values)


def _are_numbers(values: pa.Array, between: str, decimal: str) -> pa.Array:
    """Return which values are numbers, with their thousands apart or not."""
    form = _THOUSANDS.format(*map(re.escape, (between, decimal)))
    return pc.match_substring_regex(values, form)


def time_forms(options: FileOptions) -> list[Any]:
    """Return the forms of times that are known, those that were given first."""
    from pyarrow import csv

    return [csv.ISO8601, *options.time_formats, *TIME_FORMATS]


def text_as(text: pa.Array, kind: pa.DataType, options: FileOptions) -> pa.Array:
    """Return text as values of a type, as they are read from a file of CSV.

    Raises ``pyarrow.ArrowInvalid`` where one is none of it.
    """
    from pyarrow import csv

    pa.enable_signal_handlers(False)  # as of files: CsvFile.open says why
    written = pa.BufferOutputStream()
    csv.write_csv(pa.table([text], ["values"]), written)
    found = csv.read_csv(
        pa.BufferReader(written.getvalue()),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types={"values": kind},
            null_values=[""],  # what is missing is written so, and text in quotes
            quoted_strings_can_be_null=False,
            timestamp_parsers=time_forms(options),
            decimal_point=options.decimal,
        ),
    )
    return found.column(0).combine_chunks()


def fitting(
    text: pa.Array, kinds: Sequence[pa.DataType], options: FileOptions
) -> list[pa.DataType]:
    """Return those types, the widest of which is text, that every value can be read as."""

    def fits(kind: pa.DataType) -> bool:
        try:
            text_as(text, kind, options)
        except pa.ArrowInvalid:
            return False
        return True

    return [kind for kind in kinds[:-1] if not len(text) or fits(kind)] + [kinds[-1]]


def end_of_rows(text: bytearray, size: int, delimiter: str) -> int | None:
    """Return where the last whole row ends in text that begins with a row; 0 without a whole one.

    None where the bytes do not say it: some quote neither begins nor ends a value, nor is doubled
    within one. Where all do, a line break ends a row exactly behind an even number of quotes.
    """
    end = text.rfind(b"\n", 0, size) + 1
    if text.find(b'"', 0, size) < 0:
        return end
    codes = np.frombuffer(text, np.uint8, size)
    places = np.flatnonzero(codes == ord('"'))
    is_border = np.zeros(256, bool)
    is_border[[*b"\r\n", *delimiter.encode()]] = True
    opening, closing = places[::2], places[1::2]
    begins = is_border[codes[opening - 1]]
    begins[:1] |= opening[0] == 0
    begins[1:] |= opening[1:] == closing[: len(opening) - 1] + 1  # doubled
    is_border[ord('"')] = True
    if not (begins.all() and is_border[codes.take(closing + 1, mode="clip")].all()):
        return None
    while end and (before := int(np.searchsorted(places, end))) % 2:
        end = text.rfind(b"\n", 0, int(places[before - 1])) + 1
    return end


class Piece(NamedTuple):
    """Whole rows of a text, behind those of the piece before it."""

    text: bytearray
    end: int
    start: int
    """How many bytes of the text lie before it."""

    @property
    def rows(self) -> memoryview:
        """Its bytes."""
        return memoryview(self.text)[: self.end]


class Pieces:
    """Text that is cut where rows end, as far as its bytes say where that is.

    Parameters
    ----------
    size
        The bytes that are read for a piece, if no row is longer.
    first_line
        The number of the last line of the header; the first piece has a row behind it.

    Attributes
    ----------
    done
        How many bytes the pieces so far have.
    are_all
        Whether they have all of the text.
    unclosed
        Where the quote of the last value lies, if nothing closes it: the text ends early.
    """

    def __init__(self, stream: pa.NativeFile, size: int, delimiter: str, first_line: int) -> None:
        self._stream, self._size = stream, size
        self._delimiter, self._first_line = delimiter, first_line
        self._free: list[bytearray] = []  # few places for all pieces: no page of memory is new
        self.done = 0
        self.are_all = False
        self.unclosed: int | None = None

    def give_back(self, piece: Piece) -> None:
        """Let the bytes of a piece be those of another; by any thread."""
        self._free.append(piece.text)

    def __iter__(self) -> Iterator[Piece]:
        held, text = 0, bytearray(self._size)
        while len(text) <= _LONGEST_ROW:
            held += (read := self._stream.readinto(memoryview(text)[held:]))
            if not read and not self.done and text.find(b"\n", 0, held) < 0:  # a header, no more
                text[held : held + 1] = b"\n"
                held += 1
            end = end_of_rows(text, held, self._delimiter)
            if not read:
                if end is not None and text.count(b'"', 0, held) % 2:
                    self.unclosed = self.done + text.rfind(b'"', 0, held)
                    return
                end = held
            if end is None:
                return
            if read and not self.done and not self._has_row(text, end):
                end = 0  # the names, and a row, belong to the first piece
            if end:
                piece = Piece(text, end, self.done)
                self.done += end
                yield piece
                text = self._free.pop() if self._free else bytearray()
                if len(text) < len(piece.text):  # of before a longer row: nothing may fit in it
                    text = bytearray(len(piece.text))
                held -= end
                text[:held] = piece.text[end : end + held]
            elif held == len(text):  # a row that is longer
                text = text + bytes(held)
            if not read:
                self.are_all = True
                return

    def _has_row(self, text: bytearray, end: int) -> bool:
        at = -1
        for _ in range(self._first_line + 1):
            at = text.find(b"\n", at + 1, end)
            if at < 0:
                return False
        return True
