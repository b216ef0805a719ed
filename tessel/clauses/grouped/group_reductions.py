"""The results of reductions by group, and their merging over segments before states are made.

Aggregations of a unit with several segments enter here. Each segment numbers its groups by its own
dictionaries and is reduced by itself. The results of a group are added, or the better extreme is
taken, while they are still integers in arrays. Partial states are made once for all segments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.kernels.extremes import greatest, least
from tessel.kernels.exact_sums import add_by_group
from tessel.kernels.fields import FieldResult
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch

__all__ = [
    "MOST_JOINED",
    "GroupReductions",
    "ReducedParts",
    "ReductionKey",
    "merged_reductions",
    "reduced_slices",
    "without_zeros",
]

Integers = NDArray[np.int64]

_Reduced = TypeVar("_Reduced")

ReducedParts = Mapping[int, Integers] | NDArray[np.int64] | NDArray[np.float64]
"""The mergeable form of a result: sums by bit position, each below 2**48 in size, or extremes."""

ReductionKey = tuple[tuple[str, ...], str]
"""Input columns, and the name of a reduction of them."""

_EXTREMES = {"greatest": greatest, "least": least}

MOST_JOINED = 1 << 12
"""At most so many segments are merged: their sums then stay below 2**62, as states need them."""


@dataclass(frozen=True, eq=False)
class GroupReductions:
    """The results of all reductions, by group.

    Attributes
    ----------
    counts
        Rows of each group, int64, shape ``(groups,)``.
    parts
        Sums and extremes.
    ends
        The first and the last value of each group, and extremes that are no numbers; null for
        groups without a value.
    """

    counts: Integers
    parts: Mapping[ReductionKey, ReducedParts]
    ends: Mapping[ReductionKey, pa.Array]

    def take(self, groups: Integers) -> GroupReductions:
        """Return the results of some groups."""
        once: dict[int, NDArray[Any]] = {}  # counts are parts of several

        def own(held: NDArray[Any]) -> NDArray[Any]:
            if id(held) not in once:
                once[id(held)] = held[groups]
            return once[id(held)]

        parts: dict[ReductionKey, ReducedParts] = {
            key: {place: own(sums) for place, sums in held.items()}
            if isinstance(held, Mapping)
            else own(held)
            for key, held in self.parts.items()
        }
        ends = {key: end.take(arrow_array(groups)) for key, end in self.ends.items()}
        return GroupReductions(own(self.counts), parts, ends)


def without_zeros(found: GroupReductions) -> GroupReductions:
    """Drop sums that are 0 in all groups, as those of high bit positions mostly are."""
    parts: dict[ReductionKey, ReducedParts] = {}
    for key, held in found.parts.items():
        if isinstance(held, Mapping) and len(held) > 1:
            some = {place: sums for place, sums in held.items() if sums.any()}
            held = some or dict(list(held.items())[:1])
        parts[key] = held
    return replace(found, parts=parts)


def reduced_slices(
    rows: Sequence[Batch], reduced: Callable[[Batch], _Reduced | None]
) -> list[_Reduced] | None:
    """Reduce all batches that have selected rows; return None where one of them must be read."""
    found: list[_Reduced] = []
    for each in rows:
        if each.is_empty:
            continue
        one = reduced(each)
        if one is None:
            return None
        found.append(one)
    return found


def of_groups(result: FieldResult, groups: Integers) -> FieldResult:
    """Return a kernel's result for some of the groups."""
    if isinstance(result, dict):
        return {place: sums[groups] for place, sums in result.items()}
    return result[groups]


def merged_reductions(
    found: Sequence[GroupReductions], codes: Integers, extremes: Mapping[ReductionKey, np.ufunc]
) -> GroupReductions:
    """Merge the results of the same groups in several segments.

    Parameters
    ----------
    found
        One a segment, in order of rows, at most `MOST_JOINED`.
    codes
        The number of each group of each segment, by first appearance; within a segment each
        number occurs once.
    extremes
        The extreme of two numbers, for what is no sum.
    """
    groups = int(codes.max()) + 1 if len(codes) else 0
    edges = np.cumsum([len(each.counts) for each in found])[:-1]
    own = np.split(codes, edges)
    counts = _sums([{0: each.counts} for each in found], own, groups)[0]
    parts: dict[ReductionKey, ReducedParts] = {}
    for key in found[0].parts:
        held = [each.parts[key] for each in found]
        if key in extremes:
            parts[key] = _best(held, codes, groups, extremes[key])
        else:
            parts[key] = _sums(held, own, groups)
    ends = {
        key: _end(pa.concat_arrays([each.ends[key] for each in found]), codes, groups, key[1])
        for key in found[0].ends
    }
    return GroupReductions(counts, parts, ends)


def _end(values: pa.Array, codes: Integers, groups: int, end: str) -> pa.Array:
    """Return of each group the first, last, least or greatest value not null; null for none."""
    if end in _EXTREMES:
        some = numpy_array(values.is_valid())
        return _EXTREMES[end](values.filter(arrow_array(some)), codes[some], groups)
    places = np.arange(len(codes))
    if values.null_count:
        places = np.flatnonzero(numpy_array(values.is_valid()))
    if end == "first":
        places = places[::-1]
    found = np.full(groups, -1, np.int64)
    found[codes[places]] = places  # of an index that occurs twice numpy keeps the last value
    return values.take(arrow_array(found, mask=found < 0))


def _sums(
    held: Sequence[ReducedParts], own: Sequence[Integers], groups: int
) -> dict[int, Integers]:
    """Add up sums of which each segment may have its own bit positions."""
    by_place: dict[int, Integers] = {}
    for sums, codes in zip(held, own, strict=True):
        assert isinstance(sums, Mapping)  # what is no extreme
        for place, numbers in sums.items():
            if place not in by_place:
                by_place[place] = np.zeros(groups, np.int64)
            add_by_group(by_place[place], codes, numbers)
    return by_place


def _best(
    held: Sequence[ReducedParts], codes: Integers, groups: int, better: np.ufunc
) -> NDArray[np.int64] | NDArray[np.float64]:
    lines = np.concatenate([np.asarray(line) for line in held])
    best = np.zeros(groups, lines.dtype)
    best[codes] = lines  # any of a group's own, to begin with
    better.at(best, codes, lines)
    return best
