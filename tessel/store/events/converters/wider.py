"""wider: numbers in a wider type, which holds every value of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from tessel.store.events.converters.registry import Converter, register_converter

_FLOAT32_BITS, _FLOAT64_BITS = 24, 53
"""Integers of so many bits are floats exactly (IEEE 754)."""


@register_converter
class Wider(Converter):
    """Integers and floats in any wider type that holds all values of theirs, bit for bit.

    By name: in the widest of their kind. ``int64`` has no float, and ``uint64`` no other type.
    """

    name: ClassVar[str] = "wider"

    def makes(self, held: pa.DataType) -> Sequence[pa.DataType]:
        """Return the wider types, the widest of the same kind first."""
        if pa.types.is_floating(held):
            return [kind for kind in _FLOATS if kind.bit_width > held.bit_width]
        if not pa.types.is_integer(held):
            return []
        signed = pa.types.is_signed_integer(held)
        same, other = (_SIGNED, ()) if signed else (_UNSIGNED, _SIGNED)
        wider = [kind for kind in (*same, *other) if kind.bit_width > held.bit_width]
        bits = held.bit_width - signed
        exact = {pa.float64(): _FLOAT64_BITS, pa.float32(): _FLOAT32_BITS}
        return wider + [kind for kind in _FLOATS if bits <= exact[kind]]

    def convert(self, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Return the same numbers."""
        return values.cast(wanted)


_FLOATS = (pa.float64(), pa.float32())
_SIGNED = (pa.int64(), pa.int32(), pa.int16())
_UNSIGNED = (pa.uint64(), pa.uint32(), pa.uint16())
