"""Spans of time on the index, for clauses that look along it: windows, half-lives.

A half-life, a span or a share says how much a new value counts where older ones fade.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.clauses.buckets.rules import parse_span
from tessel.errors import IndexColumnError, PlanError, shown
from tessel.expression.types import DAY_NANOSECONDS, counted_nanoseconds


def span_on_index(
    text: str, kind: pa.DataType, *, clause: str, what: str, instead: str
) -> tuple[int, int]:
    """Return a span such as ``"5min"`` and the unit of an index of a type, both in nanoseconds.

    Raises IndexColumnError for an index that is none of dates or timestamps; PlanError for days of
    a zone that are not all of one length, and text that is no span.

    Parameters
    ----------
    text
        What was written; a day is 24 hours.
    clause, what
        Who asks, and for what: ``"rolling"``, ``"window"``.
    instead
        What to write where the index has no time, for the error.
    """
    length, days = parse_span(text, what)
    unit = counted_nanoseconds(kind)
    if unit is None:
        raise IndexColumnError(
            f"{clause}: a {what} of {text!r} needs an index of dates or timestamps, "
            f"and this one is {kind}",
            hint=instead,
            type=str(kind),
        )
    if days and getattr(kind, "tz", None) not in (None, "UTC"):
        raise PlanError(
            f"{clause}: days of {kind.tz} are not all of one length",
            hint=f'write "{24 * length}h" for elapsed time',
            **{what: text},
        )
    return length * (DAY_NANOSECONDS if days else 1), unit


def fading_of(
    alpha: float | None, span: float | None, halflife: float | str | None, com: float | None
) -> tuple[float | None, str | None]:
    """Return how much a new value counts, or a half-life in time, from whichever is given.

    Raises PlanError unless exactly one is given, a number in its range.
    """
    given = {"alpha": alpha, "span": span, "halflife": halflife, "com": com}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) != 1:
        raise PlanError(
            f"ewm takes one of alpha, span, halflife and com, not {sorted(named) or 'none'}",
            hint="ewm(span=20)",
        )
    name, given_value = next(iter(named.items()))
    value: Any = given_value
    if isinstance(value, np.number):
        value = value.item()
    if name == "halflife" and isinstance(value, str):
        return None, value
    least, inclusive = {"alpha": (0, 0), "span": (1, 1), "halflife": (0, 0), "com": (0, 1)}[name]
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) <= sys.float_info.max  # neither NaN nor past what a float holds
    ):
        raise PlanError(f"ewm: {name} is a number, not {shown(value)}")
    if value < least or (value == least and not inclusive) or (name == "alpha" and value > 1):
        raise PlanError(
            f"ewm: {name} is {value!r}",
            hint="alpha lies above 0, up to 1; span from 1 on; halflife above 0; com from 0 on",
        )
    if name == "alpha":
        return float(value), None
    if name == "halflife":
        value = -1 / math.expm1(-math.log(2) / value) - 1
    return 1 / (1 + ((value - 1) / 2 if name == "span" else value)), None
