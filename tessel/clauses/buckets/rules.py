"""Rules as people write them: ``15min``, ``1h30min``, ``1D``, ``2W-TUE``, ``3MS``, ``QE``, ``B``.

A rule in hours or less is *elapsed* time; its parts add up. A rule in days or longer is a
*calendar* rule: one unit, how many of it, and for weeks, quarters and years where they begin. The
names are those of pandas and, in small letters, of Polars; a name that means two things in the
field (``M``: a month's start, its end, or a minute) is refused with the names that mean one.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

from tessel.errors import PlanError, nearest, shown
from tessel.expression.types import DAY_NANOSECONDS, SPAN_NANOSECONDS
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.clauses.buckets.calendar import CalendarUnit

_OLD_UNITS = {"T": "min", "H": "h", "S": "s"}
_OLD_UNIT = re.compile(r"(\d\s*|^)([THS])(?=\d|\s|$)")
_WORDS = {
    "hour": "h",
    "minute": "min",
    "second": "s",
    "millisecond": "ms",
    "microsecond": "us",
    "nanosecond": "ns",
    "day": "D",
    "week": "W",
    "month": "MS",
    "quarter": "QS",
    "year": "YS",
}
_WORD = re.compile(rf"(?<![A-Za-z-])({'|'.join(_WORDS)})s?(?![A-Za-z])")
_LONGEST = 200
"""Characters of a rule: no span that can be counted needs more."""

_PART = re.compile(r"(\d+)\s*([A-Za-z]+)")
_CALENDAR = re.compile(r"(\d*)\s*([A-Za-z]+)(?:-([A-Z]{3}))?")
_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_SPELLINGS = {
    "D": ("D", "d"),
    "W": ("W", "w"),
    "MS": ("MS", "mo"),
    "ME": ("ME",),
    "QS": ("QS", "q"),
    "QE": ("QE",),
    "YS": ("YS", "y"),
    "YE": ("YE",),
    "B": ("B",),
}
_CALENDAR_UNITS = {spelling: unit for unit, all_ in _SPELLINGS.items() for spelling in all_}
_TWO_MEANINGS = {
    "M": "MS (named by its first day) or ME (by its last); min is a minute",
    "m": "min for minutes, MS or ME for months",
    "Q": "QS (named by its first day) or QE (by its last)",
    "Y": "YS (named by its first day) or YE (by its last)",
    "A": "YS (named by its first day) or YE (by its last)",
}
_MAY_BE_ZERO = ("offset", "tolerance")
_MOST = 2**31 - 1
_HINT = (
    "elapsed: ns us ms s min h, also together (1h30min); of the calendar, one alone: D, W, W-SUN, "
    "MS, ME, QS, QE, YS, YE, B, with a count before (2W, 3MS)"
)
_SPAN_HINT = "units: ns us ms s min h, also together (1h30min), or whole days (2D)"


@dataclass(frozen=True)
class CalendarRule:
    """Some units of a calendar.

    Attributes
    ----------
    ends
        Whether a bucket is named by its last day.
    """

    unit: CalendarUnit
    count: int
    ends: bool = False


def parse_rule(text: str) -> int | CalendarRule:
    """Read a rule: one of the calendar, or the nanoseconds of one that is elapsed time.

    Raises PlanError for text that is no rule, with what would be one.
    """
    if len(text) > _LONGEST:
        raise _no_rule(text, "rule")
    spelled = _abbreviated(text)
    match = _CALENDAR.fullmatch(spelled)
    if match is None:
        return _elapsed_ns(spelled, "rule", written=text)
    count, unit, anchor = match.groups()
    if unit in _TWO_MEANINGS:
        raise PlanError(
            f"{text!r} is not a rule: {unit} has more than one meaning",
            hint=f"write {_TWO_MEANINGS[unit]}",
            rule=text,
        )
    if unit not in _CALENDAR_UNITS:
        if anchor is not None:
            raise _no_rule(text, "rule")
        return _elapsed_ns(spelled, "rule", written=text)
    return _calendar_rule(text, int(count or 1), _CALENDAR_UNITS[unit], anchor)


def _abbreviated(text: str) -> str:
    """Return a rule with its units in short: ``1 hour`` is ``1 h``, ``2 months`` is ``2 MS``."""
    return _WORD.sub(lambda word: _WORDS[word[1]], text.strip())


def _calendar_rule(text: str, count: int, unit: str, anchor: str | None) -> CalendarRule:
    from tessel.clauses.buckets.calendar import BusinessDays, Days, Months

    if not 0 < count <= _MOST:
        raise _no_length(text, "rule") if count == 0 else _too_long(text)
    anchors = {"W": _WEEKDAYS, "Q": _MONTHS, "Y": _MONTHS}.get(unit[0], ())
    if anchor is not None and anchor not in anchors:
        raise PlanError(
            f"{text!r} is not a rule: {unit} begins nowhere named {anchor}",
            hint=f"after {unit} may stand one of {', '.join(anchors)}"
            if anchors
            else f"{unit} stands without a dash",
            rule=text,
        )
    ends = unit.endswith("E")
    if unit == "D":
        return CalendarRule(Days(), count)
    if unit == "B":
        return CalendarRule(BusinessDays(), count)
    if unit == "W":
        return CalendarRule(Days.weeks(_WEEKDAYS.index(anchor or "MON")), count)
    months = {"M": 1, "Q": 3, "Y": 12}[unit[0]]
    # QS-FEB begins in February; QE-JAN ends with January, and is the same quarter.
    month = _MONTHS.index(anchor) if anchor else (-1 if ends else 0)
    return CalendarRule(Months(months, (month + ends) % 12 + 1), count, ends)


def new_spelling(rule: Any) -> Any:
    """Return a rule with the units of today, and warn where it has older ones: ``5T``, ``1H``."""
    if not isinstance(rule, str):
        return rule  # whoever parses it refuses it
    new = _OLD_UNIT.sub(lambda part: part[1] + _OLD_UNITS[part[2]], rule)
    if new != rule:
        warnings.warn(f"write {new!r} for {rule!r}", DeprecationWarning, stacklevel=5)
    return new


def parse_offset(text: str | None) -> tuple[int, int]:
    """Read by how much edges are moved: days of the calendar, and nanoseconds.

    One of the two is 0: an offset is in days (``1D``) or in hours and less; a minus moves back.
    """
    if text is None:
        return 0, 0
    spelled = text.strip()
    length, calendar = parse_span(spelled.lstrip("+-"), "offset", shown=text)
    length = -length if spelled.startswith("-") else length
    return (length, 0) if calendar else (0, length)


def parse_span(rule: str, what: str = "rule", *, shown: str | None = None) -> tuple[int, bool]:
    """Return the length of a span of time in days or less, and whether it counts calendar days.

    Raises PlanError for text that is no such span, with what would be one.

    Parameters
    ----------
    rule
        ``"15s"``, ``"1h30min"``, ``"7D"``; not weeks and longer.
    what, shown
        What it is to be, and how it was written, for the error.

    Returns
    -------
    length
        Nanoseconds of elapsed time; number of days where calendar days are counted.
    calendar
        True for days (``D``).
    """
    if len(rule) > _LONGEST:
        raise _no_rule(rule, what)
    shown = rule if shown is None else shown
    rule = _abbreviated(rule)
    match = _CALENDAR.fullmatch(rule)
    if match is not None and _CALENDAR_UNITS.get(match[2]) == "D" and match[3] is None:
        if int(match[1] or 1) == 0:
            raise _no_length(rule, what)
        return int(match[1] or 1), True
    return _elapsed_ns(rule, what, written=shown), False


def _elapsed_ns(rule: str, what: str, *, written: str | None = None) -> int:
    written = rule if written is None else written
    text = rule.strip()
    text = f"1{text}" if text[:1].isalpha() else text
    parts = _PART.findall(text)
    spelled = "".join(number + unit for number, unit in parts)
    if not parts or spelled != re.sub(r"\s+", "", text):
        raise _no_rule(written, what)
    total = 0
    for number, unit in parts:
        name = _OLD_UNITS.get(unit, unit)
        if name not in SPAN_NANOSECONDS:
            raise _no_rule(written, what, unit)
        total += int(number) * SPAN_NANOSECONDS[name]
    if total == 0 and what not in _MAY_BE_ZERO:
        raise _no_length(written, what)
    if total > _MOST * DAY_NANOSECONDS:
        raise _too_long(written)
    return total


def _no_rule(text: str, what: str, unit: str | None = None) -> PlanError:
    hint = _HINT if what == "rule" else _SPAN_HINT
    if unit in _TWO_MEANINGS:
        hint = f"{unit} has more than one meaning: write {_TWO_MEANINGS[unit]}"
    elif unit is not None and (match := nearest(unit, [*SPAN_NANOSECONDS, *_CALENDAR_UNITS])):
        hint = f"did you mean {match}?   {hint}"
    article = "an" if what == "offset" else "a"
    return PlanError(f"{shown(text)} is not {article} {what}", hint=hint, rule=text[:_LONGEST])


def _no_length(text: str, what: str) -> PlanError:
    return PlanError(
        f"the {what} {text!r} is of no length", hint="write for instance 15min", rule=text
    )


def _too_long(text: str) -> PlanError:
    return PlanError(
        f"the rule {text!r} is longer than an index can count",
        hint="use a shorter one",
        rule=text,
    )
