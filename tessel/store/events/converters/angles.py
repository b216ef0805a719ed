"""degrees and radians: angles in the other unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar
from tessel.store.events.converters.registry import Converter, register_converter


class _Angles(Converter):
    """Angles times a factor, in their own precision."""

    by_name_only: ClassVar[bool] = True
    factor: ClassVar[float]

    def makes(self, held: pa.DataType) -> Sequence[pa.DataType]:
        """Return the same type, for float32 and float64."""
        return [held] if pa.types.is_float32(held) or pa.types.is_float64(held) else []

    def convert(self, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Return the angles in the other unit."""
        return pc.multiply(values, arrow_scalar(self.factor, wanted))


@register_converter
class Degrees(_Angles):
    """Angles that were logged in radians, in degrees: times 180 / π, in their own precision."""

    name: ClassVar[str] = "degrees"
    factor: ClassVar[float] = 180 / math.pi


@register_converter
class Radians(_Angles):
    """Angles that were logged in degrees, in radians: times π / 180, in their own precision."""

    name: ClassVar[str] = "radians"
    factor: ClassVar[float] = math.pi / 180
