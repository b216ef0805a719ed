"""radians: angles in degrees as radians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar
from tessel.store.events.converters.base import Converter
from tessel.store.events.converters.registry import register_converter

__all__ = ["Radians"]


@register_converter
class Radians(Converter):
    """Angles that were logged in degrees, in radians: times π / 180, in their own precision."""

    name: ClassVar[str] = "radians"
    by_name_only: ClassVar[bool] = True

    def makes(self, held: pa.DataType) -> Sequence[pa.DataType]:
        """Return the same type, for float32 and float64."""
        return [held] if pa.types.is_float32(held) or pa.types.is_float64(held) else []

    def convert(self, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Return the angles in radians."""
        return pc.multiply(values, arrow_scalar(math.pi / 180, wanted))
