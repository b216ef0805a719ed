"""Converters: components in another type or unit, when they are asked for; one converter a file.

A question takes ``convert={"angle": "degrees", "count": pa.float64()}``: a converter by its name,
or a type, for which one is looked for. What is stored stays as it was logged.
"""

from tessel.store.events.converters.angles import Degrees, Radians
from tessel.store.events.converters.registry import (
    Conversion,
    Converter,
    Wanted,
    conversions,
    converter_names,
    find_converter,
    register_converter,
)
from tessel.store.events.converters.wider import Wider

__all__ = [
    "Conversion",
    "Converter",
    "Degrees",
    "Radians",
    "Wanted",
    "Wider",
    "conversions",
    "converter_names",
    "find_converter",
    "register_converter",
]
