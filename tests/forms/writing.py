"""Segments whose pages have forms drawn at random, of all that ``docs/format.md`` allows.

A writer chooses the smallest form of a page. Readers must not rely on that, so here chance chooses:
the encoding of each page and of the integers within it, widths, bases and steps, exceptions that
need not be any, entries of dictionaries that no row uses, what stands where a value is null, the
codec, and the rows of a page, for each column of each segment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tessel.store.encodings import block_codec, dictionary, linear, scaled, variable
from tessel.store.encodings.arithmetic import LinearFit, fit_linear
from tessel.store.encodings.base import COMPACT, FAST, EncodedPage, Profile
from tessel.store.encodings.codes import Codec, EncodingCode, ValueKind
from tessel.store.encodings.fields import FieldNode, PhysicalColumn
from tessel.store.encodings.inner import INNER
from tessel.store.encodings.packed import narrowest_width
from tessel.store.encodings.registry import ENCODINGS
from tessel.store.encodings.scaled import Scaled
from tessel.store.encodings.values import PhysicalValues, integer_view, nearest_before
from tessel.store.segment import column_writer, file_writer, paging
from tessel.store.segment.column_writer import EncodedColumn

__all__ = ["FormsOfPages"]

_WORD = 1 << 64
_NUMBERS = frozenset({ValueKind.SIGNED, ValueKind.UNSIGNED, ValueKind.FLOAT})
_TEXTS = frozenset({ValueKind.TEXT, ValueKind.BINARY})
_WHOLE = (8, 16, 24, 32, 40, 48, 56, 64)
_UNUSED = (b"", b"~ of no row", b"A")
_PROFILES = (
    FAST,
    FAST,
    COMPACT,
    replace(COMPACT, name="always compressed", codec_saving=-9.0),
    replace(COMPACT, name="lz4", codec=Codec.LZ4, codec_saving=-9.0),
)


@dataclass(eq=False)
class FormsOfPages:
    """Draws the form of each page that is written in a block.

    Attributes
    ----------
    random
        The source of chance. What is written must be written by one thread.
    shifts
        The k from which each column of each segment draws: pages have 2**k rows.
    """

    random: np.random.Generator
    shifts: Sequence[int]
    _forms: Sequence[str | None] = ()
    _inner: Sequence[EncodingCode] = ()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file_writer, "cut_field", self._cut_field)
            patch.setattr(file_writer, "encode_column", self._encode_column)
            patch.setattr(column_writer, "column_dictionary", self._column_dictionary)
            patch.setattr(column_writer, "choose", self._choose)
            patch.setattr(paging, "_filled", self._filled)
            patch.setattr(block_codec, "_FEWEST_BYTES", 0)
            patch.setattr(Profile, "width", self._width)
            for module in (linear, variable):
                patch.setattr(module, "fit_linear", self._fit_linear)
            for module in (dictionary, scaled):
                patch.setattr(module, "encode_inner", self._encode_inner)
            scaled_encode = Scaled.encode
            patch.setattr(
                Scaled,
                "encode",
                lambda held, values, profile: (
                    self._scaled(values, profile) or scaled_encode(held, values, profile)
                ),
            )
            yield

    # --- a column of a segment --------------------------------------------------------------------

    def _chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def _one_of(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def _cut_field(
        self, array: pa.Array, node: FieldNode, nodes: Sequence[FieldNode], shift: int | None
    ) -> Any:
        return paging.cut_field(array, node, nodes, self._one_of(self.shifts))

    def _encode_column(
        self, column: PhysicalColumn, shift: int, profile: Profile, forced: str | None
    ) -> EncodedColumn:
        # Pages of one form are what kernels take as they are stored; mixed ones are decoded.
        any_form = [*(each.name for each in ENCODINGS.values()), None]
        self._forms = any_form if self._chance(0.3) else [self._one_of(any_form)]
        self._inner = [*INNER] if self._chance(0.5) else [EncodingCode.LINEAR]
        return column_writer.encode_column(column, shift, self._one_of(_PROFILES), forced)

    def _column_dictionary(
        self, column: PhysicalColumn, profile: Profile, forced: str | None
    ) -> tuple[npt.NDArray[Any], PhysicalValues] | None:
        """Draw whether there is one; its entries in any order, and some that no row has."""
        if self._chance(0.6):
            return None
        found = self._dictionary_of(column, profile, "dictionary")
        if found is None or column.node.kind == ValueKind.BOOLEAN:
            return found
        codes, values = found
        order = self.random.permutation(values.length)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        if values.offsets is not None:
            return self._texts(place[codes], values, order)
        data = values.data[order]
        if values.kind in _NUMBERS and self._is_plain(column) and self._chance(0.5):
            data = self._with_unused(data)
        return self._coded(place[codes], replace(values, length=len(data), data=data))

    _dictionary_of = staticmethod(column_writer.column_dictionary)

    @staticmethod
    def _is_plain(column: PhysicalColumn) -> bool:
        kind = column.node.type
        return pa.types.is_integer(kind) or pa.types.is_floating(kind)

    def _with_unused(self, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Add numbers behind those of the rows, which have codes already."""
        octets = self.random.bytes(data.dtype.itemsize * int(self.random.integers(1, 300)))
        more = np.frombuffer(octets, data.dtype)
        bits = f"<u{data.dtype.itemsize}"
        new = np.unique(more.view(bits)[~np.isin(more.view(bits), data.view(bits))])
        return np.concatenate([data, new.view(data.dtype)])

    def _texts(
        self, codes: npt.NDArray[Any], values: PhysicalValues, order: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[Any], PhysicalValues]:
        offsets, octets = values.offsets, values.data.tobytes()
        assert offsets is not None
        held = [octets[offsets[at] : offsets[at + 1]] for at in order.tolist()]
        if self._chance(0.5):
            held += [text for text in _UNUSED if text not in held]
        ends = np.cumsum([0, *(len(text) for text in held)]).astype(np.int32)
        data = np.frombuffer(b"".join(held), np.uint8)
        return self._coded(codes, replace(values, length=len(held), data=data, offsets=ends))

    @staticmethod
    def _coded(
        codes: npt.NDArray[Any], values: PhysicalValues
    ) -> tuple[npt.NDArray[Any], PhysicalValues]:
        width = 1 if values.length <= 1 << 8 else 2 if values.length <= 1 << 16 else 4
        return codes.astype(f"<u{width}"), values

    # --- a page -----------------------------------------------------------------------------------

    def _choose(self, values: PhysicalValues, summary: Any, profile: Profile, forced: Any) -> Any:
        forms = self._forms
        if values.codes is not None and len(forms) == 1:
            forms = ["dictionary"]
        return self._chosen(values, summary, profile, self._one_of(forms))

    _chosen = staticmethod(column_writer.choose)

    def _filled(self, values: PhysicalValues, validity: npt.NDArray[np.bool_]) -> PhysicalValues:
        """Put the value of any row into every null slot; nobody may look at it."""
        if values.length != len(validity) or values.kind == ValueKind.NONE:
            return values
        there = np.flatnonzero(validity)
        source = np.where(validity, np.arange(values.length), self.random.choice(there))
        if self._chance(0.5):
            source[~validity] = self.random.choice(there, int((~validity).sum()))
        codes = None if values.codes is None else values.codes[source]
        of_texts = values.kind in _TEXTS or not len(values.data)
        data = values.data if of_texts else values.data[source]
        return replace(values, data=data, codes=codes)

    def _encode_inner(self, integers: npt.NDArray[Any], profile: Profile) -> EncodedPage:
        """Encode codes, or scaled integers, by any encoding that holds them."""
        while True:
            encoded = INNER[self._one_of(self._inner)].encode_integers(integers, profile)
            if encoded is not None:
                return encoded  # type: ignore[no-any-return]

    def _scaled(self, values: PhysicalValues, profile: Profile) -> EncodedPage | None:
        """Scale by any exponent, with exceptions that could have been scaled."""
        data = values.data
        if self._chance(0.3) or len(data) != values.length:
            return None
        exponent = int(self.random.integers(0, 8))
        whole, is_exact = scaled._scale(data, exponent)
        is_exact[self.random.random(len(data)) < self._one_of([0.0, 0.0, 0.1, 0.9])] = False
        exceptions = np.flatnonzero(~is_exact)
        integers = whole
        if len(exceptions) == len(data):
            integers = np.zeros_like(integers)
        elif len(exceptions):
            integers = whole[nearest_before(is_exact)]
        held = self._encode_inner(integers, profile)
        position_width, buffers = held.inner_width, list(held.buffers)
        if len(exceptions):
            position_width = narrowest_width(len(data) - 1)
            buffers += [np.empty(0, np.uint8)] * (2 - len(buffers))
            buffers.append(exceptions.astype(f"<u{position_width // 8}"))
            buffers.append(data.view(f"<u{data.dtype.itemsize}")[exceptions])
        return replace(
            held,
            encoding=EncodingCode.SCALED,
            inner=held.encoding,
            inner_width=position_width,
            exceptions=len(exceptions),
            exponent=exponent,
            buffers=buffers,
        )

    # --- integers of a page -----------------------------------------------------------------------

    def _width(self, bits: int) -> int:
        """Draw a width that holds so many bits."""
        if bits == 0:
            return 0
        if bits > 57:
            return 64
        whole = [width for width in _WHOLE if width >= bits]
        return int(self._one_of([bits, whole[0], self._one_of(whole)]))

    def _fit_linear(self, integers: npt.NDArray[Any], profile: Profile) -> LinearFit:
        """Draw a step and a base below all values; now and then what the writer draws."""
        if self._chance(0.3):
            return fit_linear(integers, profile)
        words = integer_view(integers).astype(np.uint64)
        step = self._one_of([0, 0, 1, -1, 7, -1000, _WORD - (1 << 40)])
        line = np.arange(len(words), dtype=np.uint64) * np.uint64(step % _WORD)
        level = (words - line).view(np.int64)
        base = int(level.min()) - self._one_of([0, 0, 1, 100, 1 << 20])
        residuals = (words - line) - np.uint64(base % _WORD)
        bits = max(int(residuals.max()).bit_length(), int(self._chance(0.2)))
        return LinearFit(base, step, bits, residuals if bits else None)
