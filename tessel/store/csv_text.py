"""What text of CSV says: where rows end, and how a column of it becomes numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.errors import InvalidInputError

_COMMA_DECIMALS = r"^\s*[-+]?\d+,\d+\s*$"
_THOUSANDS = r"^\s*[-+]?(\d+|\d{{1,3}}({}\d{{3}})+)({}\d+)?\s*$"


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
        if place and sign == decimal:
            raise InvalidInputError(
                f"{str(path)!r}: {sign!r} cannot lie both between {place} and before decimals",
                hint=f"say what lies between {place}: {what}={such!r}",
            )


def numbers_in_text(name: str, values: pa.Array, delimiter: str, decimal: str) -> tuple[str, ...]:
    """Return notes, if any, on how a column of text with commas in its numbers becomes numbers."""
    if "," not in (delimiter, decimal) and _are(values, _COMMA_DECIMALS):
        return (f"column {name!r} is text such as 1,5 (--decimal ,)",)
    between = "." if decimal == "," else ","
    if not _are(values, _THOUSANDS.format(*map(re.escape, (between, decimal)))):
        return ()
    return (f"column {name!r} is text such as 1{between}234{decimal}5 (--thousands {between})",)


def without_thousands(values: pa.Array, between: str, decimal: str) -> pa.Array:
    """Return text whose numbers are without what lies between their thousands."""
    form = _THOUSANDS.format(*map(re.escape, (between, decimal)))
    are = pc.match_substring_regex(values, form)
    return pc.if_else(are, pc.replace_substring(values, between, ""), values)


def _are(values: pa.Array, form: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, form)).as_py())


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
