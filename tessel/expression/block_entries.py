"""The entries of a dictionary that a column is kept by, and what is known of them.

Columns of a program (:mod:`tessel.expression.block_columns`) enter here where a column is kept as
codes and its numbers are wanted, or the order of its texts: both are looked up by code.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import fill_null, numpy_array
from tessel.cached import cached
from tessel.expression.block_steps import GREATEST

_MOST_SHARED_BYTES = 1 << 16
"""Larger dictionaries are seldom those of two segments, and take long to compare."""

_MOST_MEMOS = 16
"""Of each dictionary; they stay while its segment stays open."""

Memo = TypeVar("Memo")


class Entries:
    """The entries of a dictionary.

    What is known of them is found out when it is first asked for, and kept with them: segments with
    the same dictionary have one object while one of them stays open.

    Attributes
    ----------
    are_shared
        Whether other segments with the same dictionary have this object.
    """

    def __init__(self, values: pa.Array, *, are_shared: bool = False) -> None:
        self.values = values
        self.are_shared = are_shared
        self._memos: dict[Hashable, Any] = {}

    @classmethod
    def shared(cls, values: pa.Array) -> Entries:
        """Return the entries that others have, too, who hold the same small dictionary."""
        buffers = values.buffers()
        if sum(each.size for each in buffers if each is not None) > _MOST_SHARED_BYTES:
            return cls(values)
        # Bytes, not values: two zeros are equal.
        held = (each if each is None else each.to_pybytes() for each in buffers)
        key = values.type, len(values), values.offset, *held
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = cls(values, are_shared=True)
        return found

    def computed(
        self, function: bytes, make: Callable[[pa.Array], pa.Array | None]
    ) -> Computed | None:
        """Return what a function is of each entry, and of null; the last few are kept.

        Parameters
        ----------
        make
            Computes it of values; None where it cannot be.
        """

        def computed() -> Computed | None:
            values = make(pa.concat_arrays([self.values, pa.nulls(1, self.values.type)]))
            return None if values is None else Computed(Entries(values[:-1]), values[-1])

        return self.memo(function, computed)

    def memo(self, key: Hashable, make: Callable[[], Memo]) -> Memo:
        """Return what was made of the entries under a key, made now if it is not among the last."""
        found: Memo | None = self._memos.get(key)
        if found is None:
            found = self._memos[key] = make()
            for oldest in list(self._memos)[:-_MOST_MEMOS]:
                self._memos.pop(oldest, None)
        return found

    def __len__(self) -> int:
        return len(self.values)

    @cached
    def known(self) -> npt.NDArray[np.bool_] | None:
        """Which entries are values, neither null nor NaN; None where all are."""
        is_float = pa.types.is_floating(self.values.type)
        if not self.values.null_count and not is_float:
            return None
        known = numpy_array(self.values.is_valid())
        if is_float:
            known = known & ~np.isnan(numpy_array(self.values))
        return None if known.all() else known

    @cached
    def numbers(self) -> tuple[npt.NDArray[Any], Any, Any] | None:
        """The entries as numbers, with the least and the greatest of those that are values.

        float64 of floats, int64 of integers and of what counts a unit; 0 in the place of what is no
        value. None for other types, for integers past 63 bits, and where there is no entry.
        """
        entries = self.values
        kind = entries.type
        if not len(entries):
            return None
        if pa.types.is_floating(kind):
            held = numpy_array(entries)
            # Widening a signalling NaN would warn: what is no value goes first.
            held = held if self.known is None else np.where(self.known, held, held.dtype.type(0))
            numbers = held.astype(np.float64)
        elif pa.types.is_integer(kind):
            held = numpy_array(fill_null(entries, 0))
            if held.dtype == np.uint64 and int(held.max()) > GREATEST:
                return None
            numbers = held.astype(np.int64)
        elif pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
            width = pa.int32() if kind.bit_width == 32 else pa.int64()
            numbers = numpy_array(fill_null(entries.view(width), 0)).astype(np.int64)
        else:
            return None
        if self.known is not None:
            numbers = np.where(self.known, numbers, numbers.dtype.type(0))
        values = numbers if self.known is None else numbers[self.known]
        if not len(values):
            return numbers, numbers.dtype.type(0).item(), numbers.dtype.type(0).item()
        return numbers, values.min().item(), values.max().item()

    @cached
    def order(self) -> npt.NDArray[np.int64] | None:
        """The codes in the order of their texts; None for other types and without an entry."""
        kind = self.values.type
        if not len(self) or not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
            return None
        return numpy_array(pc.sort_indices(self.values)).astype(np.int64)

    @cached
    def are_distinct(self) -> bool:
        """Whether every entry is a value, and none stands twice.

        False of floats, whose zeros are one value.
        """
        if self.values.null_count or pa.types.is_floating(self.values.type):
            return False
        return len(pc.unique(self.values)) == len(self)


_shared: weakref.WeakValueDictionary[Hashable, Entries] = weakref.WeakValueDictionary()


class Computed(NamedTuple):
    """What a function is of the entries of a dictionary, and of null."""

    entries: Entries
    of_null: pa.Scalar
