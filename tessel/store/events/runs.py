"""Runs: numbers of the rows of a chunk, at a byte or two a row at most times.

When a live store took each event: events arrive in batches, and all of a batch at once. Those of a
chunk lie in the order of their ids: what one producer sent lies in runs, what several sent at a
time is mixed. So the times are kept as runs, or as a list of those that occur with a small number a
row, whichever is smaller. The counters of ids, less their rows, are runs as well: those that a
producer counted one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessel.errors import InvalidInputError
from tessel.lazy import dataclass

Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]

_RUN_BYTES = 16


@dataclass(frozen=True, eq=False)
class Runs:
    """A number for each of some rows.

    Attributes
    ----------
    values
        One a run, or where there are codes each that occurs, once. int64, or uint64.
    starts
        The row at which each run begins, ascending, the first is 0; None where there are codes.
    codes
        Of each row the place of its number in ``values``; None where there are runs.
    """

    values: npt.NDArray[Any]
    starts: Rows | None
    codes: npt.NDArray[np.unsignedinteger[Any]] | None = None

    @classmethod
    def at_once(cls, number: int) -> Runs:
        """Return one number for any number of rows."""
        return cls(np.array([number], np.int64), np.zeros(1, np.int64))

    @classmethod
    def of(cls, numbers: npt.NDArray[Any], *, coded: bool = True) -> Runs:
        """Take the numbers of rows, one each, apart; ``coded`` says whether to try codes."""
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
        if coded and len(starts) * _RUN_BYTES > len(numbers):  # a number a row may be smaller
            values, places = np.unique(numbers, return_inverse=True)
            codes = places.astype(np.min_scalar_type(max(0, len(values) - 1)))
            if codes.nbytes + values.nbytes < len(starts) * _RUN_BYTES:
                return cls(values, None, codes)
        return cls(numbers[starts], starts)

    def at(self, rows: Rows) -> npt.NDArray[Any]:
        """Return the numbers of some rows."""
        if len(self.values) == 1:
            return np.full(len(rows), self.values[0])
        if self.codes is not None:
            places = self.codes[rows].astype(np.int64)
        else:
            assert self.starts is not None
            places = np.searchsorted(self.starts, rows, side="right") - 1
        return self.values[places]

    def one(self, row: int) -> int:
        """Return the number of one row."""
        if len(self.values) == 1:
            return int(self.values[0])
        return int(self.at(np.array([row]))[0])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = self.values.nbytes
        return held + sum(each.nbytes for each in (self.starts, self.codes) if each is not None)


def to_text(times: Times) -> str:
    """Return the times of rows as text: ``rows@time`` for each run, blanks between."""
    starts = np.flatnonzero(np.diff(times, prepend=times[:1] - 1))
    lengths = np.diff(np.append(starts, len(times)))
    runs = zip(lengths.tolist(), times[starts].tolist(), strict=True)
    return " ".join(f"{length}@{arrived}" for length, arrived in runs)


def from_text(text: str, rows: int) -> Times:
    """Read what :func:`to_text` made of the times of so many rows.

    Raises
    ------
    InvalidInputError
        For a text that is none, or of another number of rows.
    """
    try:
        runs = [(int(length), int(at)) for length, at in (r.split("@") for r in text.split())]
        times = np.array([at for _, at in runs], np.int64)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"times of arrival that are none: {text[:80]!r}") from error
    lengths = [length for length, _ in runs]
    if min(lengths, default=1) < 1 or sum(lengths) != rows:
        raise InvalidInputError(f"times of arrival of other rows than {rows}: {text[:80]!r}")
    return np.repeat(times, lengths)
