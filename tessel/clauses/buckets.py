"""Time buckets: from a rule such as ``"15min"`` or ``"1D"`` to bucket numbers and back to instants.

A rule in hours or less counts elapsed time from an origin. A rule in days is a calendar rule: a
bucket starts at the first instant of its local date, in the zone of the index, so a day of 23 or 25
hours is one bucket. For an index without a zone, and for UTC, the two agree.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa

from tessel.errors import IndexColumnError, IntegerOverflowError, PlanError
from tessel.expression.periods import NANOSECONDS, parse_period, zone_of

__all__ = ["Bucketer", "Closed", "bucketer_for", "parse_span"]

Closed = Literal["left", "right"]

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60 * 1_000_000_000,
    "h": 3_600 * 1_000_000_000,
}
_DAY_NS = 24 * _UNITS_NS["h"]
_PART = re.compile(r"(\d+)\s*([A-Za-z]+)")


class Bucketer(Protocol):
    """Assigns values of an index to numbered buckets; numbers never go back where values do not."""

    def numbers(self, values: np.ndarray) -> np.ndarray:
        """Return the bucket of each value: int64 in the index's unit in, int64 out."""

    def edges(self, numbers: np.ndarray) -> np.ndarray:
        """Return the left edge of each bucket as int64 in the index's unit."""


@dataclass(frozen=True)
class _FixedBucketer:
    width: int
    origin: int
    closed: Closed

    def numbers(self, values: np.ndarray) -> np.ndarray:
        # floor((value - origin) / width) without the subtraction, which could pass 64 bits.
        quotient, remainder = np.divmod(values, self.width)
        if self.closed == "left":
            return quotient - (remainder < self.origin)
        return quotient - (remainder <= self.origin)

    def edges(self, numbers: np.ndarray) -> np.ndarray:
        if len(numbers):
            limits = np.iinfo(np.int64)
            low = int(numbers.min()) * self.width + self.origin
            high = int(numbers.max()) * self.width + self.origin
            if low < limits.min or high > limits.max:
                raise IntegerOverflowError(
                    "the edge of a time bucket lies past what the index type can hold",
                    hint="filter the outermost instants away, or use a coarser unit",
                )
        return numbers * self.width + self.origin


@dataclass(frozen=True)
class _DayBucketer:
    days: int
    offset: int
    zone: dt.tzinfo
    unit_ns: int
    closed: Closed

    def numbers(self, values: np.ndarray) -> np.ndarray:
        if len(values) == 0:
            return np.empty(0, np.int64)
        low = self._rough_number(int(values.min())) - 2
        high = self._rough_number(int(values.max())) + 3
        edges = self.edges(np.arange(low, high + 1))
        side: Literal["left", "right"] = "right" if self.closed == "left" else "left"
        return (np.searchsorted(edges, values, side=side) - 1 + low).astype(np.int64)

    def edges(self, numbers: np.ndarray) -> np.ndarray:
        starts = [_day_start(int(number) * self.days, self.zone) for number in numbers]
        return np.array([-(-ns // self.unit_ns) for ns in starts], dtype=np.int64) + self.offset

    def _rough_number(self, value: int) -> int:
        return (value - self.offset) * self.unit_ns // (_DAY_NS * self.days)


@functools.lru_cache(maxsize=65_536)
def _day_start(epoch_day: int, zone: dt.tzinfo) -> int:
    """Return the first instant of a local date as nanoseconds since 1970 UTC."""
    try:
        day = dt.date(1970, 1, 1) + dt.timedelta(days=epoch_day)
    except OverflowError:
        raise PlanError(
            "resample by local days reaches past the years 1 to 9999",
            hint="convert the index to UTC, or filter the instants away",
        ) from None
    return parse_period(day.isoformat(), zone).start_ns


def parse_span(rule: str, what: str = "rule") -> tuple[int, bool]:
    """Return the length of a rule and whether it counts calendar days.

    Returns
    -------
    length
        Nanoseconds of an elapsed rule; number of days of a calendar rule.
    calendar
        True for a rule in days (``D``).

    Raises
    ------
    PlanError
        For text that is no rule, with what would be one.
    """
    text = rule.strip()
    parts = _PART.findall(text if not text[:1].isalpha() else f"1{text}")
    spelled = "".join(number + unit for number, unit in parts)
    if not parts or spelled != re.sub(r"\s+", "", text if not text[:1].isalpha() else f"1{text}"):
        raise _no_rule(rule, what)
    days = [int(number) for number, unit in parts if unit in ("D", "d")]
    if days and len(parts) == 1 and days[0] > 0:
        return days[0], True
    total = 0
    for number, unit in parts:
        name = unit if unit in _UNITS_NS else {"T": "min", "m": "?", "H": "h", "S": "s"}.get(unit)
        if name not in _UNITS_NS:
            raise _no_rule(rule, what)
        total += int(number) * _UNITS_NS[name]
    if total == 0:
        raise PlanError(f"the {what} {rule!r} is of no length", hint="write for instance 15min")
    return total, False


def _no_rule(rule: str, what: str) -> PlanError:
    hint = "units: ns us ms s min h D, also together (1h30min); D stands alone (1D, 7D)"
    if re.fullmatch(r"\d*\s*(W|M|ME|MS|Q|QE|QS|Y|YE|YS|B)", rule.strip()):
        hint = f"weeks, months, quarters, years and business days are not supported; {hint}"
    return PlanError(f"{rule!r} is not a {what}", hint=hint, rule=rule)


def bucketer_for(
    rule: str, kind: pa.DataType, *, closed: Closed, origin: str, offset: str | None
) -> Bucketer:
    """Return the bucketer of a rule for an index type.

    Parameters
    ----------
    rule
        Length of a bucket, such as ``"15s"``, ``"1h30min"``, ``"1D"``.
    kind
        Timestamp type of the index.
    closed
        Which edge of a bucket belongs to it.
    origin
        ``"epoch"`` or ISO text: where a bucket of an elapsed rule starts.
    offset
        A rule by which all edges are moved, such as ``"6h"``; a minus in front moves back.

    Raises
    ------
    PlanError, IndexColumnError
        For a rule that is none, or finer than the index.
    """
    if not pa.types.is_timestamp(kind):
        raise IndexColumnError(
            f"resample needs an index of timestamps, and this one is {kind}",
            hint="group by an expression of the index instead",
            type=str(kind),
        )
    unit_ns = NANOSECONDS[kind.unit]
    length, calendar = parse_span(rule)
    shift = _units(_offset_ns(offset), unit_ns, "offset", str(offset), kind)
    zone = zone_of(kind)
    if calendar and zone is not None and zone is not dt.UTC and str(zone) != "UTC":
        if origin != "epoch":
            raise PlanError(
                f"a rule in local days ({rule!r}) starts its buckets at midnight, not at an origin",
                hint="leave out origin, or write the rule in hours",
            )
        return _DayBucketer(length, shift, zone, unit_ns, closed)
    width = _units(length * (_DAY_NS if calendar else 1), unit_ns, "rule", rule, kind)
    start_ns = 0 if origin == "epoch" else parse_period(origin, zone).start_ns
    return _FixedBucketer(width, (start_ns // unit_ns + shift) % width, closed)


def _offset_ns(offset: str | None) -> int:
    if offset is None:
        return 0
    back = offset.strip().startswith("-")
    length, calendar = parse_span(offset.strip().lstrip("+-"), "offset")
    length *= _DAY_NS if calendar else 1
    return -length if back else length


def _units(ns: int, unit_ns: int, what: str, text: str, kind: pa.DataType) -> int:
    if ns % unit_ns:
        raise PlanError(
            f"the {what} {text!r} is finer than the index, which counts in {kind.unit}",
            hint=f"use a {what} of whole {kind.unit}",
        )
    if ns // unit_ns > 2**62:
        raise PlanError(f"the {what} {text!r} is longer than the index can count")
    return ns // unit_ns
