"""Which pieces of the right an as-of join may want for a piece of the left, from their times alone.

The times that are known of a piece are those between which its rows lie; they may lie closer. A
piece without rows is of no use, and one whose times are not known may have any.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

import pyarrow as pa

from tessel.clauses.joining.asof_shape import NANOSECONDS, AsofShape
from tessel.clauses.structures import UnitFacts

__all__ = ["pieces_in_reach"]

_DAY_MS = 86_400_000


def pieces_in_reach(shape: AsofShape, units: Sequence[UnitFacts]) -> list[list[int]]:
    """Return groups of pieces, one for each unit of the left, as positions among all pieces.

    Parameters
    ----------
    shape
        What is joined, and how.
    units
        Facts of the pieces of both sides, symbol 0 and symbol 1, each in plan order.
    """
    right = [at for at, facts in enumerate(units) if facts.symbol == 1 and facts.rows]
    left = [at for at, facts in enumerate(units) if facts.symbol == 0 and facts.rows]
    one, two = shape.index
    scales = _scale(shape.left.type_of(one)), _scale(shape.right.type_of(two))
    spans = _spans(units, right, scales[1])
    # Where they do not follow one another each gets all, and finds what is not in order.
    ordered = spans is not None and all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    groups = []
    for _, members in itertools.groupby(left, key=lambda at: units[at].unit):
        group = list(members)
        own = _spans(units, group, scales[0])
        wanted = range(len(right))
        if ordered and own is not None and spans is not None:
            first, last = min(span[0] for span in own), max(span[1] for span in own)
            wanted = _in_reach(shape, first, last, spans)
        groups.append([*group, *(right[at] for at in wanted)])
    return groups


def _in_reach(shape: AsofShape, first: int, last: int, spans: Sequence[tuple[int, int]]) -> range:
    """Return the pieces that rows of times from ``first`` to ``last`` may want."""
    # Pieces before this one end before the first time; all rows of the last of them do.
    start = bisect.bisect_left(spans, first, key=lambda span: span[1])
    stop = bisect.bisect_right(spans, last, key=lambda span: span[0])
    if shape.direction != "forward":
        start = max(0, start - 1)
    if shape.direction != "backward" and stop < len(spans):
        # The first piece behind has the first row behind; of rows of its time the last is taken.
        stop += 1
        while stop < len(spans) and spans[stop][0] <= spans[stop - 1][1]:
            stop += 1
    return range(start, stop)


def _spans(
    units: Sequence[UnitFacts], pieces: Sequence[int], scale: int
) -> list[tuple[int, int]] | None:
    """Return between which times the rows of pieces lie; None where that is not known of all."""
    times = [units[at].time_range for at in pieces]
    known = [(each.first * scale, each.last * scale) for each in times if each is not None]
    return known if len(known) == len(pieces) else None


def _scale(kind: pa.DataType) -> int:
    """Return by what times are multiplied, so that those of both sides count the same unit."""
    if pa.types.is_timestamp(kind):
        return NANOSECONDS[kind.unit]
    return _DAY_MS if pa.types.is_date32(kind) else 1
