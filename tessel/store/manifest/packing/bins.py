"""What is packed, the segments of one symbol that move together, and how it is put into manifests.

Items go into few bins; one that is too big for one manifest is split into pieces. Every choice is
fixed by sizes and ids.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from tessel.cached import cached
from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.manifest.packing.configuration import ManifestSet
from tessel.store.manifest.packing.plan import (
    Changes,
    Membership,
    Placement,
    Run,
    SymbolContent,
    content_of,
    tails_of,
)


@dataclass
class Item:
    """The segments of one symbol that are packed in this flush.

    Attributes
    ----------
    tails
        What stays behind it in tails.
    home
        The manifest that holds exactly what is packed, if any does.
    set_before
        The set that the symbol was packed in; None for a new one.
    inflation
        How many times bigger than estimated a segment was found to be.
    """

    content: SymbolContent
    tails: tuple[Placement, ...] = ()
    home: str | None = None
    set_before: str | None = None
    inflation: Fraction = Fraction(1)

    @property
    def id(self) -> int:
        """The id of the symbol."""
        return self.content.id

    @cached
    def rate(self) -> int:
        """Bytes of a segment as far as they are known."""
        return math.ceil(self.content.bytes_per_segment * self.inflation)

    @cached
    def segments(self) -> int:
        """How many segments are packed."""
        return sum(run.segments for run in self.content.runs)

    @property
    def size(self) -> int:
        """The estimated bytes of what is packed."""
        return self.segments * self.rate

    @property
    def all_segments(self) -> int:
        """The segments of the symbol, which rules look at; tails count."""
        return self.tails[-1].stop if self.tails else self.segments


def make_items(
    symbols: Iterable[int],
    changes: Changes,
    membership: Membership,
    inflation: Mapping[int, Fraction],
) -> list[Item]:
    """Return what is to be packed for these symbols, by id; without deleted and empty ones."""
    changed = {content.id: content for content in changes.contents}
    items = []
    for symbol in sorted(set(symbols) - changes.deleted):
        content, tails = changed.get(symbol), list[Placement]()
        if content is None:
            # A tail between packed manifests is packed along: rows would change places otherwise.
            behind = tails_of(symbol, membership)
            manifests = membership.manifests_of(symbol)
            content = content_of(symbol, membership, manifests[: len(manifests) - len(behind)])
            stop = sum(run.segments for run in content.runs)
            for each in behind:
                start, stop = stop, stop + membership.segments_of(symbol, each)
                tails.append(Placement(start, stop, each))
        home, sets = _home(symbol, content.runs, membership), membership.manifests_of(symbol)
        known = next((each for each in map(membership.set_of, sets) if each is not None), None)
        item = Item(content, tuple(tails), home, known, inflation.get(symbol, Fraction(1)))
        if item.segments:
            items.append(item)
    return items


def _home(symbol: int, runs: tuple[Run, ...], membership: Membership) -> str | None:
    if len(runs) != 1 or runs[0].manifest is None:
        return None
    whole = membership.segments_of(symbol, runs[0].manifest) == runs[0].segments
    return runs[0].manifest if whole else None


Bin = list[Item]


def fill(target: ManifestSet, items: Sequence[Item]) -> list[Bin]:
    """Put items, each of which fits by itself, into few bins within the limits of a set.

    By size: first fit, the biggest first (Johnson, *Near-optimal bin packing algorithms*, 1973),
    with segments and bytes as two dimensions. By count: the biggest with the smallest.
    """
    ordered = sorted(items, key=lambda item: (-_weight(target, item.segments, item.size), item.id))
    if target.symbols_per_manifest is not None:
        return _pair(ordered, target.symbols_per_manifest, target.byte_limit)
    return _first_fit(ordered, target.max_segments, target.byte_limit)


def fullest(target: ManifestSet, bins: Iterable[Bin], count: int) -> tuple[list[Bin], list[Item]]:
    """Return the ``count`` fullest bins, ties by symbol id, and the items of all others."""
    ordered = sorted(bins, key=lambda each: _emptiness(target, each))
    return ordered[:count], [item for each in ordered[count:] for item in each]


def _weight(target: ManifestSet, segments: int, size: int) -> int:
    """Return how near something comes to the limit it comes nearest to, on a scale of the set."""
    if target.max_segments is None:
        return size
    return max(segments * target.byte_limit, size * target.max_segments)


def _emptiness(target: ManifestSet, each: Bin) -> tuple[int, int, int]:
    counted = len(each) if target.symbols_per_manifest is not None else 0
    segments, size = sum(i.segments for i in each), sum(i.size for i in each)
    return -counted, -_weight(target, segments, size), min(i.id for i in each)


def _first_fit(items: Sequence[Item], max_segments: int | None, max_bytes: int) -> list[Bin]:
    if max_segments is None:
        max_segments = sum(item.segments for item in items)
    room = np.tile(np.array([[max_segments], [max_bytes]], np.int64), len(items))
    bins: list[Bin] = []
    for item in items:
        taken = np.array([item.segments, item.size], np.int64)
        # The bin behind the last one is empty, and each item fits into an empty bin.
        at = int((room[:, : len(bins) + 1] >= taken[:, None]).all(axis=0).argmax())
        room[:, at] -= taken
        if at == len(bins):
            bins.append([])
        bins[at].append(item)
    return bins


Packed = TypeVar("Packed")


def fill_in_order(
    target: ManifestSet, items: Iterable[Packed], weight: Callable[[Packed], tuple[int, int]]
) -> list[list[Packed]]:
    """Put items into bins one after the other: segments and bytes of each, which fits by itself."""
    bins: list[list[Packed]] = []
    segments = size = 0
    for item in items:
        own_segments, own_size = weight(item)
        segments, size = segments + own_segments, size + own_size
        if not bins or not target.fits(segments, size):
            bins.append([])
            segments, size = own_segments, own_size
        bins[-1].append(item)
    return bins


def _pair(items: Sequence[Item], count: int, max_bytes: int) -> list[Bin]:
    left = deque(items)
    bins: list[Bin] = []
    while left:
        each = [left.popleft()]
        room = max_bytes - each[0].size
        biggest = (count + 1) // 2
        while left and len(each) < biggest and left[0].size <= room:
            each.append(left.popleft())
            room -= each[-1].size
        while left and len(each) < count and left[-1].size <= room:
            each.append(left.pop())
            room -= each[-1].size
        bins.append(each)
    return bins


def split(
    target: ManifestSet,
    item: Item,
    membership: Membership | None,
    slice_ends: Sequence[int] | None,
    *,
    afresh: bool,
) -> list[Placement]:
    """Cut a symbol at ends of row slices into manifests that it shares with nobody.

    Manifests of its own that hold what they held are kept; only the rows between them are cut
    anew, and a piece of these that fits into one manifest with its neighbour is joined to it. So a
    change in the middle writes one or two manifests, and no two neighbours of which one was
    written could be one. A single row slice beyond the limit is a piece of its own.

    Parameters
    ----------
    membership
        Where its rows lie now; None for rows that lie nowhere yet.
    slice_ends
        The ends of its row slices, counted in its segments, ascending; None for one segment each.
    afresh
        Cut all of it, as if nothing lay anywhere.
    """
    limit = _most_segments(target, item.rate)
    ends = range(1, item.all_segments + 1) if slice_ends is None else slice_ends
    if not len(ends) or ends[-1] != item.all_segments:
        raise InvalidInputError(
            f"the row slices of symbol {item.content.name!r} do not end at its "
            f"{item.all_segments} segments"
        )
    # What lies in the store was measured before it was uploaded, whatever the estimate says now.
    order: Sequence[str] = ()
    own: list[Placement] = []
    if membership is not None:
        order = membership.manifests_of(item.id)
        most = _most_segments(target, item.content.bytes_per_segment)
        own = _own_pieces(target, item, membership, ends, most, afresh=afresh)
    pieces: list[Placement] = []
    start = 0
    for kept in () if afresh else own:
        pieces += _cut(start, kept.start, ends, limit)
        pieces.append(kept)
        start = kept.stop
    pieces += _cut(start, item.segments, ends, limit)
    joined = _join(pieces, limit, order)
    same = {(piece.start, piece.stop): piece.manifest for piece in own}
    return [Placement(p.start, p.stop, same.get((p.start, p.stop))) for p in joined]


def _most_segments(target: ManifestSet, rate: int) -> int:
    limit = target.byte_limit // rate
    return limit if target.max_segments is None else min(limit, target.max_segments)


def _own_pieces(
    target: ManifestSet,
    item: Item,
    membership: Membership,
    ends: Sequence[int],
    limit: int,
    *,
    afresh: bool,
) -> list[Placement]:
    """Return the manifests that go on holding what they hold of a symbol.

    When all is packed afresh, other limits may have held before, and what a manifest holds beside
    that counts as well.
    """
    found = []
    start = 0
    for run in item.content.runs:
        stop = start + run.segments
        if (
            run.manifest is not None
            and (run.segments <= limit or ends[bisect_right(ends, start)] >= stop)
            and membership.set_of(run.manifest) == target.name
            and list(membership.members_of(run.manifest)) == [item.id]
            and membership.segments_of(item.id, run.manifest) == run.segments
            and not (afresh and not membership.all_live(run.manifest))
        ):
            found.append(Placement(start, stop, run.manifest))
        start = stop
    return found


def _cut(start: int, stop: int, ends: Sequence[int], limit: int) -> list[Placement]:
    pieces = []
    while start < stop:
        at = bisect_right(ends, start + limit) - 1
        if at < 0 or ends[at] <= start:
            at = bisect_right(ends, start)
        end = min(int(ends[at]), stop)
        pieces.append(Placement(start, end))
        start = end
    return pieces


def _join(pieces: Sequence[Placement], limit: int, order: Sequence[str]) -> list[Placement]:
    places = {manifest: at for at, manifest in enumerate(order)}
    joined: list[Placement] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        if before is None or piece.stop - before.start > limit:
            joined.append(piece)
            continue
        # Two that were neighbours stay two: raised limits are no reason to write all anew.
        if before.manifest is not None and piece.manifest is not None:
            apart = places[piece.manifest] - places[before.manifest] != 1
        else:
            apart = True
        if apart:
            joined[-1] = Placement(before.start, piece.stop)
        else:
            joined.append(piece)
    return joined
