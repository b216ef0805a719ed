"""The parts of a symbol that is too big for one manifest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.manifest.packing.configuration import ManifestSet
from tessel.store.manifest.packing.items import Item
from tessel.store.manifest.packing.membership import Membership

__all__ = ["Piece", "split"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Segments ``[start, stop)`` of a symbol in an own manifest; None is yet to be written."""

    start: int
    stop: int
    manifest: str | None


def split(
    target: ManifestSet,
    item: Item,
    membership: Membership,
    slice_ends: Sequence[int] | None,
    *,
    afresh: bool,
) -> list[Piece]:
    """Cut a symbol at ends of row slices into manifests that it shares with nobody.

    Manifests of its own that hold what they held are kept; only the rows between them are cut
    anew, and a piece of these that fits into one manifest with its neighbour is joined to it. So a
    change in the middle writes one or two manifests, and no two neighbours of which one was
    written could be one. A single row slice beyond the limit is a piece of its own.

    Parameters
    ----------
    target
        The set.
    item
        The symbol.
    membership
        Where its rows lie now.
    slice_ends
        The ends of its row slices, counted in its segments, ascending; None for one segment each.
    afresh
        Cut all of it, as if nothing lay anywhere.
    """
    limit = _most_segments(target, item.rate)
    ends = range(1, item.all_segments + 1) if slice_ends is None else slice_ends
    if not len(ends) or ends[-1] != item.all_segments:
        raise InvalidInputError(
            f"the row slices of symbol {item.name!r} do not end at its {item.all_segments} segments"
        )
    # What lies in the store was measured before it was uploaded, whatever the estimate says now.
    own = _own_pieces(target, item, membership, ends, _most_segments(target, item.estimated_rate))
    pieces: list[Piece] = []
    start = 0
    for kept in () if afresh else own:
        pieces += _cut(start, kept.start, ends, limit)
        pieces.append(kept)
        start = kept.stop
    pieces += _cut(start, item.segments, ends, limit)
    joined = _join(pieces, limit, list(membership.manifests_of(item.id)))
    same = {(piece.start, piece.stop): piece.manifest for piece in own}
    return [Piece(p.start, p.stop, same.get((p.start, p.stop))) for p in joined]


def _most_segments(target: ManifestSet, rate: int) -> int:
    limit = target.byte_limit // rate
    return limit if target.max_segments is None else min(limit, target.max_segments)


def _own_pieces(
    target: ManifestSet, item: Item, membership: Membership, ends: Sequence[int], limit: int
) -> list[Piece]:
    found = []
    start = 0
    for run in item.runs:
        stop = start + run.segments
        if (
            run.manifest is not None
            and (run.segments <= limit or ends[bisect_right(ends, start)] >= stop)
            and membership.set_of(run.manifest) == target.name
            and list(membership.members_of(run.manifest)) == [item.id]
            and membership.segments_of(item.id, run.manifest) == run.segments
        ):
            found.append(Piece(start, stop, run.manifest))
        start = stop
    return found


def _cut(start: int, stop: int, ends: Sequence[int], limit: int) -> list[Piece]:
    pieces = []
    while start < stop:
        at = bisect_right(ends, start + limit) - 1
        if at < 0 or ends[at] <= start:
            at = bisect_right(ends, start)
        end = min(int(ends[at]), stop)
        pieces.append(Piece(start, end, None))
        start = end
    return pieces


def _join(pieces: Sequence[Piece], limit: int, order: Sequence[str]) -> list[Piece]:
    places = {manifest: at for at, manifest in enumerate(order)}
    joined: list[Piece] = []
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
            joined[-1] = Piece(before.start, piece.stop, None)
        else:
            joined.append(piece)
    return joined
