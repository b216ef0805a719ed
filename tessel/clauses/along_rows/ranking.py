"""What places in order become as ranks; the same for rows in memory and for a stream of them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessel.lazy import dataclass

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

    def ranks_in_order(
        self, new_key: NDArray[np.bool_] | None, new_value: NDArray[np.bool_]
    ) -> NDArray[Any]:
        """Return the ranks of values in order, given where keys and values begin.

        Equal values have one rank, which is computed once.

        Parameters
        ----------
        new_key, new_value
            Shape ``(rows,)``; a new key is a new value, and the first row is both. None where there
            is one key.

        Returns
        -------
        numpy.ndarray
            Shape ``(rows,)``, as of :meth:`ranks`.
        """
        rows = len(new_value)
        firsts = np.flatnonzero(new_value)
        if new_key is None:
            return self._ranks_of_one_key(firsts, rows)
        ends = np.append(firsts, rows)[1:]
        begins = new_key[firsts]
        # Runs of equal values, and of each the first run of its key.
        runs, key = np.flatnonzero(begins), np.cumsum(begins) - 1
        start = firsts[runs][key]
        dense = np.arange(len(firsts)) - runs[key] + 1
        total = len(firsts) if self.method == "dense" else rows
        many = np.diff(runs if self.method == "dense" else firsts[runs], append=total)
        places = Places(firsts - start + 1, firsts - start + 1, ends - start, dense, many[key])
        if self.method != "ordinal":
            return np.repeat(self.ranks(places), ends - firsts)
        own: NDArray[Any] = np.arange(1, rows + 1) - np.repeat(start, ends - firsts)
        return own / np.repeat(places.of, ends - firsts) if self.pct else own

    def _ranks_of_one_key(self, firsts: Integers, rows: int) -> NDArray[Any]:
        """Return the ranks of rows in order; no more is made than the method asks for."""
        found: NDArray[Any]
        of = rows
        if self.method == "ordinal":
            found = np.arange(1, rows + 1)
        else:
            counts = np.diff(firsts, append=rows)
            if self.method == "dense":
                found, of = np.arange(1, len(firsts) + 1), len(firsts)
            elif self.method == "average":
                found = (2 * firsts + counts + 1) / 2
            else:
                found = firsts + (1 if self.method == "min" else counts)
            found = np.repeat(found, counts)
        return found / of if self.pct else found
