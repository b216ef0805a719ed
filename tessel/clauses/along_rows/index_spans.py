"""Spans of time on the index, for clauses that look along it: windows, half-lives."""

from __future__ import annotations

import pyarrow as pa

from tessel.clauses.buckets.rules import parse_span
from tessel.errors import IndexColumnError, PlanError
from tessel.expression.periods import NANOSECONDS
from tessel.lazy import dataclass

_DAY_NS = 86_400 * NANOSECONDS["s"]


@dataclass(frozen=True, slots=True)
class IndexSpan:
    """A length of time, and the unit of the index that it is measured on; both in nanoseconds."""

    length_ns: int
    unit_ns: int


def span_on_index(
    text: str, kind: pa.DataType, *, clause: str, what: str, instead: str
) -> IndexSpan:
    """Return a span such as ``"5min"`` beside the unit of an index of a type.

    Parameters
    ----------
    text
        What was written; a day is 24 hours.
    kind
        Type of the index.
    clause, what
        Who asks, and for what: ``"rolling"``, ``"window"``.
    instead
        What to write where the index has no time, for the error.

    Raises
    ------
    IndexColumnError
        For an index that is none of dates or timestamps.
    PlanError
        For days of a zone that are not all of one length, and text that is no span.
    """
    length, days = parse_span(text, what)
    unit = _unit_ns(kind)
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
    return IndexSpan(length * (_DAY_NS if days else 1), unit)


def _unit_ns(kind: pa.DataType) -> int | None:
    if pa.types.is_timestamp(kind):
        return NANOSECONDS[kind.unit]
    if pa.types.is_date32(kind):
        return _DAY_NS
    return NANOSECONDS["ms"] if pa.types.is_date64(kind) else None
