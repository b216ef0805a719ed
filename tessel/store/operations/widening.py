"""Which types a column can be widened to: those that hold every value of the old one exactly.

==================  ==========================================================================
from                to
==================  ==========================================================================
null                every type
an integer          every integer type with its whole range
an integer          float32 up to 16 bits, float64 up to 32 bits
an integer          a decimal with room for all its digits before the point
float32             float64
a decimal           a decimal with as many digits or more before the point, and after it
time32, time64      a time of a finer unit
date32              date64
a dictionary        the type of its values, and what that can be widened to
a list              a list of items that can be widened, dictionaries apart
==================  ==========================================================================

Timestamps and durations keep their unit: a finer one does not reach as far. The index keeps its
unit too, days or milliseconds: manifests count its times in it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat

__all__ = ["can_widen", "can_widen_index"]

_UNITS = ("s", "ms", "us", "ns")


def can_widen(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether every value of one stored type can be one of another, exactly."""
    if old == new or pat.is_null(old):
        return True
    if pat.is_dictionary(old):
        return not pat.is_dictionary(new) and can_widen(old.value_type, new)
    if pat.is_integer(old):
        return _integer(old, new)
    if pat.is_float32(old):
        return bool(pat.is_float64(new))
    if pat.is_decimal128(old) and pat.is_decimal128(new):
        more = new.scale - old.scale
        return bool(more >= 0 and new.precision - old.precision >= more)
    if pat.is_time(old) and pat.is_time(new):
        return bool(_UNITS.index(new.unit) >= _UNITS.index(old.unit))
    if pat.is_date32(old):
        return bool(pat.is_date64(new))
    if pat.is_fixed_size_list(old):
        return bool(
            pat.is_fixed_size_list(new)
            and old.list_size == new.list_size
            and _item(old.value_type, new.value_type)
        )
    if pat.is_list(old) and pat.is_list(new):
        return _item(old.value_type, new.value_type)
    return False


def can_widen_index(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether an index of one type can become one of another: integers of more bits."""
    return old == new or (pat.is_integer(old) and pat.is_integer(new) and can_widen(old, new))


def _item(old: pa.DataType, new: pa.DataType) -> bool:
    # Dictionaries inside of lists cannot be cast.
    return old == new or (not pat.is_dictionary(old) and can_widen(old, new))


def _integer(old: pa.DataType, new: pa.DataType) -> bool:
    signed = pat.is_signed_integer(old)
    bits = old.bit_width - (1 if signed else 0)
    if pat.is_integer(new):
        if pat.is_signed_integer(new):
            return bool(bits <= new.bit_width - 1)
        return bool(not signed and bits <= new.bit_width)
    if pat.is_float32(new):
        return bool(bits <= 24)
    if pat.is_float64(new):
        return bool(bits <= 53)
    if pat.is_decimal128(new):
        return bool(len(str(2**bits)) <= new.precision - new.scale)
    return False
