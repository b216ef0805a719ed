"""The entries of a dictionary that a column is kept by, and what is known of them.

Columns of a program (:mod:`tessel.expression.block_columns`) enter here where a column is kept as
codes and its numbers are wanted, or the order of its texts: both are looked up by code.

What ``is_in`` and ``lookup`` look up is here too. Of a set the values are those that the column's
type can hold, as the integers that a page has of them; those outside of the bounds of the column
are left out, and what is left chooses the step: one range, the truths of a span, or a hash set.
What a table has beside integers is found by a table of their span or by a hash table, and comes out
as codes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import fill_null, numpy_array
from tessel.cached import cached
from tessel.expression.block_steps import GREATEST, LEAST, BlockSteps
from tessel.expression.leaves import ValueSet
from tessel.kernels.program import Op
from tessel.kernels.word_numbers import word_slots
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.expression.operators.membership import Lookup


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


_MOST_SPAN = 1 << 20
"""Truths of a span of integers that stay in the second-level cache as bits, found without a branch:
2,000 of 2 M rows are found in 3 ms, by a hash set of the keys in 25."""

_MOST_PLACES = 1 << 16
"""Places beside a span of integers that stay in that cache."""

_MOST_MEMBERS = 1 << 16
"""Larger sets cost a unit more to hand over than they save."""


@dataclass(frozen=True, eq=False)
class Members:
    """The values of a set as integers.

    Attributes
    ----------
    integers
        int64, ascending, each once.
    has_missing
        Whether the set holds a missing value: then no row is known to be outside.
    """

    integers: npt.NDArray[np.int64]
    has_missing: bool

    @classmethod
    def of(cls, values: ValueSet, kind: pa.DataType) -> Self | None:
        """Return a set beside a column of a type; None where pages hold no integers of it."""
        if not 0 < len(values) <= _MOST_MEMBERS:
            return None
        held: dict[pa.DataType, Self | None] = values.__dict__.setdefault("_block_members", {})
        if kind not in held:  # each unit asks
            held[kind] = cls._made(values, kind)
        return held[kind]

    @classmethod
    def _made(cls, values: ValueSet, kind: pa.DataType) -> Self | None:
        from tessel.expression.operators.membership import members

        if _words(pa.nulls(0, kind)) is None:
            return None
        found, has_missing = members(values, kind)
        words = _words(found)
        assert words is not None
        return cls(np.unique(words[words <= GREATEST].astype(np.int64)), has_missing)

    def steps(self, steps: BlockSteps, register: int, low: Any, high: Any) -> int:
        """Return the truth register of which integers of a register, within bounds, are members."""
        start = np.searchsorted(self.integers, max(int(low), LEAST), "left")
        stop = np.searchsorted(self.integers, min(int(high), GREATEST), "right")
        left = self.integers[start:stop]
        if not len(left):
            return steps.always(False)
        least, most = int(left[0]), int(left[-1])
        if most - least + 1 == len(left):
            return steps.range(register, (least, most))
        if most - least < _MOST_SPAN:
            truths = np.zeros(most - least + 1, np.uint8)
            truths[left - least] = 1
            return steps.span(register, least, truths)
        return steps.member(register, *self._slots)

    @cached
    def _slots(self) -> tuple[npt.NDArray[np.int64], int]:
        return word_slots(self.integers)


@dataclass(frozen=True, eq=False)
class Beside:
    """The table of a look-up by integers.

    Attributes
    ----------
    entries
        The values beside its keys, each once.
    least
        The least key, where keys lie close together; otherwise None.
    table
        The place of the value of each integer from the least key on, -1 of those that are no keys;
        otherwise the hash table of keys, with the place of the value of each.
    """

    entries: Entries
    least: int | None
    table: npt.NDArray[np.int64]

    @classmethod
    def of(cls, node: Lookup) -> Self | None:
        """Return the table of a look-up; None where pages hold no integers of its keys."""
        held: dict[str, Self | None] = node.__dict__.setdefault("_block_table", {})
        if not held:  # each unit asks
            held[""] = cls._made(*node.columns_of_table)
        return held[""]

    @classmethod
    def _made(cls, keys: pa.Array, values: pa.Array) -> Self | None:
        words = _words(keys)
        if words is None or not 0 < len(words) <= _MOST_MEMBERS or words.max() > GREATEST:
            return None
        words = words.astype(np.int64)
        coded = values.dictionary_encode(null_encoding="encode")
        entries, numbers = Entries(coded.dictionary), numpy_array(coded.indices).astype(np.int64)
        least, most = int(words.min()), int(words.max())
        if most - least < _MOST_PLACES:
            places = np.full(most - least + 1, -1, np.int64)
            places[words - least] = numbers
            return cls(entries, least, places)
        slots, _ = word_slots(words)
        taken = slots[:, 1] >= 0
        slots[taken, 1] = numbers[slots[taken, 1]]
        return cls(entries, None, slots)

    def steps(self, steps: BlockSteps, register: int) -> tuple[int, int]:
        """Return the registers of places in ``entries``, and of the integers that have one."""
        if self.least is None:
            found = steps.number_of(register, self.table, len(self.table).bit_length() - 1)
            return found, steps.range(found, (0, len(self.entries) - 1))
        found = steps.numbers_of_span(register, self.least, self.table)
        inside = steps.range(register, (self.least, self.least + len(self.table) - 1))
        is_key = steps.range(found, (0, len(self.entries) - 1))
        return found, steps.step(Op.AND, inside, is_key)


def _words(values: pa.Array) -> npt.NDArray[Any] | None:
    """Return values as the integers that pages have of them; None for those that are none."""
    kind = values.type
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return numpy_array(values.view(pa.int64() if kind.bit_width == 64 else pa.int32()))
    return numpy_array(values) if pa.types.is_integer(kind) else None
