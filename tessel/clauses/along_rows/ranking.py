"""What places in order become as ranks; the same for rows in memory and for a stream of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Places", "RankMethod", "Ranking"]

RankMethod = Literal["average", "min", "max", "dense", "ordinal"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """Where values lie among those of their key, in order; each int64, shape ``(rows,)``.

    Attributes
    ----------
    own
        Place of each value, from 1 on.
    first, last
        The first and the last place of the values equal to it.
    dense
        How many distinct values there are up to it.
    of
        What ranks are a part of: the values of the key, or its distinct ones for ``"dense"``.
    """

    own: Integers
    first: Integers
    last: Integers
    dense: Integers
    of: Integers


@dataclass(frozen=True, slots=True)
class Ranking:
    """How values are ranked; see :class:`~tessel.clauses.rank.Rank`."""

    method: RankMethod
    descending: bool = False
    pct: bool = False

    @property
    def looks_ahead(self) -> bool:
        """Whether a rank depends on how many equal values follow."""
        return self.method in ("average", "max")

    def ranks(self, places: Places) -> NDArray[Any]:
        """Return the rank of each value: float64 for averages and parts, else int64."""
        found: NDArray[Any]
        if self.method == "average":
            found = (places.first + places.last) / 2
        else:
            found = {
                "min": places.first,
                "max": places.last,
                "dense": places.dense,
                "ordinal": places.own,
            }[self.method]
        return found / places.of if self.pct else found

    def places(self, new_key: NDArray[np.bool_], new_value: NDArray[np.bool_]) -> Places:
        """Return the places of values in order, given where keys and values begin.

        Parameters
        ----------
        new_key, new_value
            Shape ``(rows,)``; a new key is a new value. The first row is both.
        """
        rows = np.arange(len(new_key))
        starts, firsts = np.flatnonzero(new_key), np.flatnonzero(new_value)
        of_key, of_value = np.cumsum(new_key) - 1, np.cumsum(new_value) - 1
        start = starts[of_key]
        dense = of_value - of_value[start] + 1
        stop = np.append(starts, len(rows))[1:]
        last = np.append(firsts, len(rows))[1:][of_value] - 1
        of = dense[stop - 1] if self.method == "dense" else stop - starts
        return Places(
            rows - start + 1,
            firsts[of_value] - start + 1,
            last - start + 1,
            dense,
            of[of_key],
        )
