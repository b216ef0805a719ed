"""Instants as the text of date ranges that the planner writes."""

from __future__ import annotations

import pyarrow as pa

from tessel.expression.temporal import format_instant

__all__ = ["instant"]


def instant(nanoseconds: int, kind: pa.DataType) -> str | None:
    """Return an instant as ISO text with seconds; None past the years 1 to 9999.

    Parameters
    ----------
    nanoseconds
        Since 1970 UTC, or of the clock where the index has no zone.
    kind
        Type of the index.
    """
    aware = getattr(kind, "tz", None) is not None
    text = format_instant(nanoseconds, "ns", aware=aware)
    return None if text.startswith("@") else text
