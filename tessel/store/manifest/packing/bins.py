"""Bin packing of symbols into the manifests of one set; every choice is fixed by sizes and ids."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from tessel.store.manifest.packing.configuration import ManifestSet
from tessel.store.manifest.packing.items import Item

__all__ = ["Bin", "fill", "fullest"]

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
    room = _Room(max_segments, max_bytes)
    bins: list[Bin] = []
    for item in items:
        at = room.take(item.segments, item.size)
        if at == len(bins):
            bins.append([])
        bins[at].append(item)
    return bins


class _Room:
    """The room left in each bin, as a tree of maxima, so that the first that fits is found fast.

    A node bounds both dimensions, so a search may have to turn back where different bins have the
    room in one and the other; that is rare in practice.
    """

    def __init__(self, segments: int, size: int) -> None:
        self._whole = (segments, size)
        self._leaves = 1
        self._segments = [segments] * 2
        self._size = [size] * 2

    def take(self, segments: int, size: int) -> int:
        """Take room in the first bin that has it, and return its place."""
        node = self._first_with(segments, size)
        while node is None:
            self._double()
            node = self._first_with(segments, size)
        place = node - self._leaves
        self._segments[node] -= segments
        self._size[node] -= size
        while node > 1:
            node //= 2
            self._bound(node)
        return place

    def _first_with(self, segments: int, size: int) -> int | None:
        room_segments, room_size = self._segments, self._size
        waiting = [1]
        while waiting:
            node = waiting.pop()
            if room_segments[node] >= segments and room_size[node] >= size:
                if node >= self._leaves:
                    return node
                waiting += (2 * node + 1, 2 * node)
        return None

    def _double(self) -> None:
        leaves = self._leaves
        segments, size = self._whole
        self._segments = [0] * (2 * leaves) + self._segments[leaves:] + [segments] * leaves
        self._size = [0] * (2 * leaves) + self._size[leaves:] + [size] * leaves
        self._leaves = 2 * leaves
        for node in range(self._leaves - 1, 0, -1):
            self._bound(node)

    def _bound(self, node: int) -> None:
        left, right = 2 * node, 2 * node + 1
        self._segments[node] = max(self._segments[left], self._segments[right])
        self._size[node] = max(self._size[left], self._size[right])


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
