"""Places in the dictionary of the column: grouping, comparing and joining work on the codes.

Codes in 8, 16 or 32 bits are read in place. The dictionary itself is a page of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.base import EncodedPage, Packing, PageEncoding, PageSummary, Profile
from tessel.store.encodings.codes import EncodingCode, ValueKind
from tessel.store.encodings.constant import Constant
from tessel.store.encodings.inner import best_estimate, encode_inner, inner_bytes, inner_of
from tessel.store.encodings.values import Integers, Page, PhysicalValues
from tessel.store.encodings.variable import take_values


class Dictionary(PageEncoding):
    """Codes in an inner encoding."""

    code: ClassVar[EncodingCode] = EncodingCode.DICTIONARY
    name: ClassVar[str] = "dictionary"
    kinds: ClassVar[frozenset[ValueKind]] = Constant.kinds

    def estimate(
        self, values: PhysicalValues, summary: PageSummary, profile: Profile
    ) -> int | None:
        """Return the bytes of the codes; None without codes. ``summary`` is of the codes."""
        if values.codes is None:
            return None
        return int(best_estimate(values.codes, summary, _for_codes(profile))[0])

    def encode(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Return the codes in the best inner encoding, or None without codes."""
        if values.codes is None:
            return None
        held = encode_inner(values.codes, _for_codes(profile))
        return replace(held, encoding=self.code, inner=held.encoding)

    def slot_bytes(
        self, records: npt.NDArray[np.void], kind: ValueKind, width: int, lengths: Integers
    ) -> Integers:
        """Return the bytes of the codes in slots 1 and 2."""
        sizes = np.zeros((len(records), 4), np.int64)
        sizes[:, :2] = inner_bytes(records, lengths)
        return sizes

    def check(self, page: Page) -> None:
        """Refuse codes that are no places in the dictionary."""
        held = 0 if page.dictionary is None else page.dictionary.length
        inner_of(page).check_integers(page, 0, held - 1)

    def decode(self, page: Page, start: int, stop: int) -> PhysicalValues:
        """Return the values, looked up, with their codes."""
        return _looked_up(page, self.codes(page, start, stop))

    def decode_into(self, page: Page, start: int, stop: int, out: npt.NDArray[Any]) -> None:
        """Look values up in place."""
        data = _dictionary(page).data
        codes = self.codes(page, start, stop)
        if out.flags.c_contiguous:
            # Codes were checked, so nothing is clipped; the mode spares a copy of the output.
            np.take(data, codes, axis=0, out=out, mode="clip")
        else:
            out[...] = data[codes]

    def take(self, page: Page, rows: Integers) -> PhysicalValues:
        """Return the values at ``rows``, with their codes."""
        return _looked_up(page, self.take_codes(page, rows))

    def codes(self, page: Page, start: int, stop: int) -> npt.NDArray[Any]:
        """Return codes as a view where they are kept whole, else computed."""
        if (
            page.inner == EncodingCode.LINEAR
            and page.bit_width in (8, 16, 32)
            and not page.base
            and not page.step
        ):
            return page.slot(1, f"<u{page.bit_width // 8}", page.length)[start:stop]
        found = np.empty(stop - start, _code_dtype(page))
        inner_of(page).integers_into(page, start, stop, found)
        return found

    def take_codes(self, page: Page, rows: Integers) -> npt.NDArray[Any]:
        """Return the codes at ``rows``."""
        return inner_of(page).integers_at(page, rows).astype(_code_dtype(page))


def _for_codes(profile: Profile) -> Profile:
    """Return the profile for codes: whole, so that grouping reads them in place, or all packed."""
    return profile if profile.packing is Packing.BITS else replace(profile, packing=Packing.WORDS)


def _dictionary(page: Page) -> PhysicalValues:
    if page.dictionary is None:
        raise page.damaged("it has codes, but its column has no dictionary")
    return page.dictionary


def _code_dtype(page: Page) -> np.dtype[Any]:
    length = _dictionary(page).length
    return np.dtype("<u1" if length <= 1 << 8 else "<u2" if length <= 1 << 16 else "<u4")


def _looked_up(page: Page, codes: npt.NDArray[Any]) -> PhysicalValues:
    return replace(take_values(_dictionary(page), codes), codes=codes)
