"""What is packed: the segments of one symbol that move together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from tessel.lazy import dataclass
from tessel.store.manifest.packing.membership import (
    Changes,
    Membership,
    Run,
    SymbolContent,
)

__all__ = ["Item", "Placement", "make_items"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where consecutive segments of a symbol lie after the flush.

    Attributes
    ----------
    start, stop
        Segments ``[start, stop)`` of the symbol, counted in its new state.
    manifest
        The existing manifest that goes on holding them; None for one that is to be written.
    written
        The place of that one in ``PackingPlan.written``; None for an existing manifest.
    """

    start: int
    stop: int
    manifest: str | None = None
    written: int | None = None


@dataclass(slots=True)
class Item:
    """The segments of one symbol that are packed in this flush.

    Attributes
    ----------
    id, name
        Of the symbol.
    estimated_rate, rate
        Bytes of a segment as estimated at first, and as found since.
    runs
        What is packed, in row order.
    segments, size
        How many segments, and their estimated bytes.
    tails
        What stays behind it in tails.
    home
        The manifest that holds exactly what is packed, if any does.
    set_before
        The set that the symbol was packed in; None for a new one.
    """

    id: int
    name: str
    estimated_rate: int
    rate: int
    runs: tuple[Run, ...]
    segments: int
    size: int
    tails: tuple[Placement, ...]
    home: str | None
    set_before: str | None

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
    for symbol in sorted(symbols):
        if symbol in changed:
            item = _changed_item(changed[symbol], membership)
        elif symbol in changes.deleted:
            continue
        else:
            item = _sharing_item(symbol, membership)
        factor = inflation.get(symbol)
        if factor is not None:
            item.rate = math.ceil(item.rate * factor)
            item.size = item.segments * item.rate
        if item.segments:
            items.append(item)
    return items


def _changed_item(content: SymbolContent, membership: Membership) -> Item:
    segments = sum(run.segments for run in content.runs)
    before = _set_before(content.id, membership)
    return Item(
        content.id,
        content.name,
        content.bytes_per_segment,
        content.bytes_per_segment,
        content.runs,
        segments,
        segments * content.bytes_per_segment,
        (),
        _home(content.id, content.runs, membership),
        before,
    )


def _sharing_item(symbol: int, membership: Membership) -> Item:
    manifests = membership.manifests_of(symbol)
    packed = len(manifests)
    while packed and membership.set_of(manifests[packed - 1]) is None:
        packed -= 1
    # A tail between packed manifests is packed along: rows would change places otherwise.
    runs = tuple(Run(membership.segments_of(symbol, each), each) for each in manifests[:packed])
    segments = sum(run.segments for run in runs)
    tails: list[Placement] = []
    stop = segments
    for each in manifests[packed:]:
        start, stop = stop, stop + membership.segments_of(symbol, each)
        tails.append(Placement(start, stop, each))
    rate = membership.bytes_per_segment(symbol)
    return Item(
        symbol,
        membership.name_of(symbol),
        rate,
        rate,
        runs,
        segments,
        segments * rate,
        tuple(tails),
        _home(symbol, runs, membership),
        _set_before(symbol, membership),
    )


def _home(symbol: int, runs: tuple[Run, ...], membership: Membership) -> str | None:
    if len(runs) != 1 or runs[0].manifest is None:
        return None
    whole = membership.segments_of(symbol, runs[0].manifest) == runs[0].segments
    return runs[0].manifest if whole else None


def _set_before(symbol: int, membership: Membership) -> str | None:
    for each in membership.manifests_of(symbol):
        found = membership.set_of(each)
        if found is not None:
            return found
    return None
