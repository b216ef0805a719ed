"""What page tables say of plain conditions, in a handful of comparisons for all pages of a column.

Late reading enters here before it asks the statistics domain, which knows every operator and takes
a millisecond for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tessel.expression.plain_conditions import PlainCondition
from tessel.expression.statistics import FALSE, TRUE
from tessel.store.encodings.base import Integers
from tessel.store.encodings.codes import ValueKind
from tessel.store.segment.zone_maps import ZoneMaps

if TYPE_CHECKING:
    from tessel.store.segment.page_statistics import ColumnZones

__all__ = ["plain_verdicts"]

Flags = npt.NDArray[np.bool_]

_NUMBERS = frozenset({ValueKind.SIGNED, ValueKind.UNSIGNED, ValueKind.FLOAT})


def plain_verdicts(
    conditions: Sequence[PlainCondition], columns: Mapping[str, ColumnZones], rows: int
) -> tuple[Integers, npt.NDArray[np.int8]] | None:
    """Return where pages of a piece begin and end, and what is proved of all conditions in each.

    Parameters
    ----------
    conditions
        At least one.
    columns
        What page tables say, by name.
    rows
        Rows of the piece, at least one.

    Returns
    -------
    edges, verdicts
        From 0 to ``rows``, one more than the pages; TRUE, UNKNOWN or FALSE for each. None where the
        columns are cut differently, or one of them is none that numbers or texts bound.
    """
    edges: Integers | None = None
    never: Flags | None = None
    always: Flags | None = None
    for condition in conditions:
        column = columns.get(condition.column)
        if column is None or (edges is not None and not np.array_equal(edges, column.edges)):
            return None
        edges = column.edges
        found = _settled(condition, column.zones)
        if found is None:
            return None
        never = found[0] if never is None else never | found[0]
        always = found[1] if always is None else always & found[1]
    assert edges is not None
    assert never is not None
    assert always is not None
    verdicts = always.astype(np.int8) * TRUE
    verdicts[never] = FALSE
    first = int(np.searchsorted(edges, 0, "right")) - 1
    last = int(np.searchsorted(edges, rows, "left"))
    return np.clip(edges[first : last + 1], 0, rows), verdicts[first:last]


def _settled(condition: PlainCondition, zones: ZoneMaps) -> tuple[Flags, Flags] | None:
    """Return the pages in which no row, and in which every row is so."""
    missing = zones.nulls + zones.nans
    nothing = missing >= zones.rows
    if isinstance(condition.bound, str):
        if zones.kind != ValueKind.TEXT:
            return None
        key = zones.key(condition.bound.encode())
        held = zones.may_hold(key, key) if key is not None else np.zeros(len(nothing), np.bool_)
        return nothing | (zones.bounded & ~held), np.zeros(len(nothing), np.bool_)
    if zones.kind not in _NUMBERS:
        return None
    known = zones.bounded & ~(zones.low_open | zones.high_open)
    never = known & condition.never(zones.minimum, zones.maximum)
    always = known & (missing == 0) & condition.always(zones.minimum, zones.maximum)
    return nothing | never, always
