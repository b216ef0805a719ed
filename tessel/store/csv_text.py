"""What text of CSV says: where rows end, and how a column of it becomes numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_COMMA_DECIMALS = r"^\s*[-+]?\d+,\d+\s*$"
_GROUPED = {
    ",": (r"^\s*[-+]?\d{1,3}(,\d{3})*(\.\d+)?\s*$", "1,234.5"),
    ".": (r"^\s*[-+]?\d{1,3}(\.\d{3})*(,\d+)?\s*$", "1.234,5"),
}
"""By what lies between thousands: the form of all values, and one."""


def numbers_in_text(name: str, values: pa.Array, delimiter: str, decimal: str) -> tuple[str, ...]:
    """Return notes, if any, on how a column of text with commas in its numbers becomes numbers."""

    def are(form: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(values, form)).as_py())

    if "," not in (delimiter, decimal) and are(_COMMA_DECIMALS):
        return (f"column {name!r} is text such as 1,5 (--decimal ,)",)
    between = "." if decimal == "," else ","
    form, such = _GROUPED[between]
    if not are(form):
        return ()
    plain = f"col({name!r}).replace({between!r}, '')"
    if between == ".":
        plain += ".replace(',', '.')"
    return (f"column {name!r} is text such as {such} ({plain}.cast('float64'))",)


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
