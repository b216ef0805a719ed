"""What changed between two lists of lines; explain shows it for each pass of the planner.

The lines of a plan are few words from a small set, often the same one thousands of times, on which
the standard library's difference takes quadratic time and more. Here the n-th of equal lines before
is the n-th of them after; of these pairs the longest chain that keeps the order stays, and all else
was taken out or put there (a longest increasing subsequence, in O(n log n): Hunt and Szymanski, "A
fast algorithm for computing longest common subsequences", 1977).
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence

__all__ = ["line_changes"]

TAKEN, PUT = "−", "+"


def line_changes(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield every line that is not in both, with ``−`` or ``+``, in the order of the lines."""
    if before == after:
        return
    start = stop = 0
    common = min(len(before), len(after))
    while start < common and before[start] == after[start]:
        start += 1
    while stop < common - start and before[-1 - stop] == after[-1 - stop]:
        stop += 1
    old, new = before[start : len(before) - stop], after[start : len(after) - stop]
    at = to = 0
    for kept, place in (*_kept(old, new), (len(old), len(new))):
        yield from ((TAKEN, line) for line in old[at:kept])
        yield from ((PUT, line) for line in new[to:place])
        at, to = kept + 1, place + 1


def _kept(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places in both of the lines that stay."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place in reversed(range(len(new))):
        places[new[place]].append(place)
    pairs = [(at, places[line].pop()) for at, line in enumerate(old) if places.get(line)]
    ends: list[int] = []  # the least place at which a chain of each length ends, and its pair
    chosen: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect.bisect_left(ends, place)
        before.append(chosen[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        chosen[length : length + 1] = [number]
    kept: list[tuple[int, int]] = []
    number = chosen[-1] if chosen else -1
    while number >= 0:
        kept.append(pairs[number])
        number = before[number]
    return kept[::-1]
