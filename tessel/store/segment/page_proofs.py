"""Proofs of sargable predicates from zone maps, by a few comparisons for all pages of a column.

Selections enter here before they apply the interval rules, which know every operator and take a
millisecond for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tessel.expression.sargable import SargableConjunct
from tessel.expression.statistics import FALSE, TRUE
from tessel.store.encodings.base import Integers
from tessel.store.encodings.codes import ValueKind
from tessel.store.segment.zone_maps import ZoneMaps

if TYPE_CHECKING:
    from tessel.store.segment.page_statistics import ColumnZones

__all__ = ["page_proofs"]

Flags = npt.NDArray[np.bool_]

_NUMBERS = frozenset({ValueKind.SIGNED, ValueKind.UNSIGNED, ValueKind.FLOAT})


def page_proofs(
    conjuncts: Sequence[SargableConjunct], columns: Mapping[str, ColumnZones], rows: int
) -> tuple[Integers, npt.NDArray[np.int8]] | None:
    """Return the page edges of a piece, and for each page what zone maps prove of all conjuncts.

    Parameters
    ----------
    conjuncts
        At least one.
    columns
        Page edges and zone maps, by name.
    rows
        Rows of the piece, at least one.

    Returns
    -------
    edges, proofs
        Edges from 0 to ``rows``, one more than the pages; TRUE, UNKNOWN or FALSE for each page.
        None where the columns have different edges, or one has no bounds that are numbers or texts.
    """
    edges: Integers | None = None
    never: Flags | None = None
    always: Flags | None = None
    for conjunct in conjuncts:
        column = columns.get(conjunct.column)
        if column is None or (edges is not None and not np.array_equal(edges, column.edges)):
            return None
        edges = column.edges
        found = _prove(conjunct, column.zones)
        if found is None:
            return None
        never = found[0] if never is None else never | found[0]
        always = found[1] if always is None else always & found[1]
    assert edges is not None
    assert never is not None
    assert always is not None
    proofs = always.astype(np.int8) * TRUE
    proofs[never] = FALSE
    first = int(np.searchsorted(edges, 0, "right")) - 1
    last = int(np.searchsorted(edges, rows, "left"))
    return np.clip(edges[first : last + 1], 0, rows), proofs[first:last]


def _prove(conjunct: SargableConjunct, zones: ZoneMaps) -> tuple[Flags, Flags] | None:
    """Return two masks over pages: pages without a matching row, and pages where every row matches.

    None where the zone maps are of another kind than the bound.
    """
    missing = zones.nulls + zones.nans
    nothing = missing >= zones.rows
    if isinstance(conjunct.bound, str):
        if zones.kind != ValueKind.TEXT:
            return None
        key = zones.key(conjunct.bound.encode())
        may_match = (
            zones.may_hold(key, key) if key is not None else np.zeros(len(nothing), np.bool_)
        )
        return nothing | (zones.bounded & ~may_match), np.zeros(len(nothing), np.bool_)
    if zones.kind not in _NUMBERS:
        return None
    known = zones.bounded & ~(zones.low_open | zones.high_open)
    never = known & conjunct.never(zones.minimum, zones.maximum)
    always = known & (missing == 0) & conjunct.always(zones.minimum, zones.maximum)
    return nothing | never, always
