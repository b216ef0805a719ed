"""Numbers written to the places of their groups, one by one or as lists that lie somewhere.

Groups lie side by side in what is written, and each has a place that moves on. Nothing is written
twice, and no order of rows is made on the way: memory that was never touched costs more than work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.declare import kernel

__all__ = ["place_lists", "place_numbers"]


@kernel("numbers: i64[rows], codes: i64[rows], places: mut i64[groups], found: mut i64[found]")
def place_numbers(numbers: Any, codes: Any, places: Any, found: Any) -> None:
    """Write each number to the place of its group."""
    if not len(found) or not len(places):
        return
    # Groups may be what a file says: they are never trusted as places.
    last_group, last_place = len(places) - 1, len(found) - 1
    for row in range(len(numbers)):
        group = np.uint64(min(np.uint64(codes[row]), np.uint64(last_group)))
        place = min(np.uint64(places[group]), np.uint64(last_place))
        found[place] = numbers[row]
        places[group] += 1


@kernel(
    "numbers: i64[numbers], starts: i64[lists], lengths: i64[lists], owners: i64[lists], "
    "places: mut i64[groups], found: mut i64[found]"
)
def place_lists(
    numbers: Any, starts: Any, lengths: Any, owners: Any, places: Any, found: Any
) -> None:
    """Write the numbers of each list to the place of its group; groups and lists fit."""
    for row in range(len(starts)):
        group = np.uint64(owners[row])
        source, target = np.uint64(starts[row]), np.uint64(places[group])
        length = np.uint64(lengths[row])
        for place in range(length):
            found[target + place] = numbers[source + place]
        places[group] += lengths[row]
