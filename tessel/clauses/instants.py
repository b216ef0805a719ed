"""Instants and periods as people write them; see :mod:`tessel.expression.periods`."""

from tessel.expression.periods import (
    NANOSECONDS,
    Period,
    instant_text,
    parse_period,
    units_from_ns,
    zone_of,
)

__all__ = ["NANOSECONDS", "Period", "instant_text", "parse_period", "units_from_ns", "zone_of"]
