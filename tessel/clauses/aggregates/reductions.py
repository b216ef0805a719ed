"""Reductions: what the states of aggregates are made of, held as arrays of one entry a group.

A reduction (a count, an exact sum, an extreme, the first value) is computed from values here, or
from stored integers by kernels (:mod:`tessel.clauses.grouped.kernel_reductions`); either way its
state is the same kind of thing, merges with that of other rows, and becomes Arrow columns only
where it leaves the process. Aggregates say which reductions they need and what follows from them
(:class:`~tessel.clauses.aggregates.FromReductions`).
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import arrow_array, arrow_scalar, numpy_array
from tessel.clauses.aggregates.kernels.ordered_numbers import OrderedNumbers
from tessel.clauses.aggregates.kernels.sums import (
    products_of,
    state_arrays,
    state_fields,
    sums_from,
    sums_of,
)
from tessel.clauses.aggregates.present_rows import PresentRows
from tessel.clauses.values import BoolArray, is_temporal, is_text_or_binary, plain, plain_type
from tessel.kernels.exact_adding import add_by_group
from tessel.kernels.exact_sums import ExactSums
from tessel.lazy import dataclass

Codes = NDArray[np.int64]

_BLOCK_ROWS = 1 << 16
_SIGN = 63

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Extremes:
    """The least or the greatest numbers of groups.

    Attributes
    ----------
    numbers
        int64 or float64, shape ``(groups,)``; anything for a group without a value.
    some
        Bool, shape ``(groups,)``: the groups with a value.
    """

    numbers: NDArray[Any]
    some: BoolArray
    kind: pa.DataType

    @property
    def values(self) -> pa.Array:
        """The values, null for a group without one."""
        some = self.some
        # The initial value of a search may not fit the type.
        held = self.numbers if some.all() else np.where(some, self.numbers, 0)
        return of_some(typed_values(arrow_array(held), self.kind), some)


class Reduction(ABC):
    """A reduction of the values of each group to one state.

    A state holds arrays of one entry a group, and nothing changes it.

    Attributes
    ----------
    compact
        Whether the state of a group is small however many rows it has.
    """

    compact: bool = True

    @abstractmethod
    def fields(self) -> list[pa.Field]:
        """Return names, unique within the reduction, and types of the state as Arrow columns."""

    @abstractmethod
    def reduce(self, rows: PresentRows, groups: int) -> Any:
        """Return the state of some rows."""

    @abstractmethod
    def merge(self, states: Sequence[Any], codes: Codes, groups: int) -> Any:
        """Return the state of several parts of the rows.

        Parameters
        ----------
        states
            In order of their rows.
        codes
            int64: the final group of each group of each state, of one state after another.
        """

    @abstractmethod
    def take(self, state: Any, groups: Codes) -> Any:
        """Return the state of some of the groups."""

    def lines(self, state: Any) -> Iterable[Any]:
        """Return the arrays that a state holds: by default it is one."""
        return (state,)

    @abstractmethod
    def arrays(self, state: Any) -> list[pa.Array]:
        """Return a state as columns of :meth:`fields`."""

    @abstractmethod
    def state(self, arrays: Sequence[pa.Array]) -> Any:
        """Return the state of plain columns of :meth:`fields`."""

    def result(self, state: Any) -> Any:
        """Return what aggregates are given of a state."""
        return state

    def compacted(self, state: Any) -> Any:
        """Return a state with what grows with the rows written together."""
        return state


def reduction_of(which: str, kinds: Sequence[pa.DataType]) -> Reduction:
    """Return the reduction of a name.

    Parameters
    ----------
    which
        As :class:`~tessel.clauses.aggregates.FromReductions` lists them.
    """
    if which == "count":
        return _Count()
    if which in SUMS:
        return _Sum(which)
    return (_Extreme if which in _BETTER else _End)(which, plain_type(kinds[0]))


class ReductionSet(Generic[_Key]):
    """Reductions whose states are made, merged and written down together.

    Parameters
    ----------
    reductions
        By name. States are mappings from these names.
    """

    def __init__(self, reductions: dict[_Key, Reduction]) -> None:
        self.reductions = reductions

    def reduce(self, rows: Callable[[_Key], PresentRows], groups: int) -> dict[_Key, Any]:
        """Return the states of the rows that each reduction is of."""
        return {key: each.reduce(rows(key), groups) for key, each in self.reductions.items()}

    def merge(
        self, parts: Sequence[Mapping[_Key, Any]], codes: Codes, groups: int
    ) -> dict[_Key, Any]:
        """Return the states of several parts of the rows; see :meth:`Reduction.merge`."""
        return {
            key: each.merge([part[key] for part in parts], codes, groups)
            for key, each in self.reductions.items()
        }

    def results(self, states: Mapping[_Key, Any]) -> dict[_Key, Any]:
        """Return what aggregates are given of states."""
        return {key: each.result(states[key]) for key, each in self.reductions.items()}

    def arrays(self, states: Mapping[_Key, Any]) -> list[pa.Array]:
        """Return states as columns."""
        return [
            array for key, each in self.reductions.items() for array in each.arrays(states[key])
        ]

    def of_columns(self, columns: Sequence[Any]) -> dict[_Key, Any]:
        """Return the states that columns hold, in the order of :meth:`arrays`."""
        left = map(plain, columns)
        return {
            key: each.state(list(itertools.islice(left, len(each.fields()))))
            for key, each in self.reductions.items()
        }

    def compacted(self, states: Mapping[_Key, Any]) -> dict[_Key, Any]:
        """Return states with what grows with the rows written together."""
        return {key: each.compacted(states[key]) for key, each in self.reductions.items()}


class _Count(Reduction):
    """How many rows have a value; int64."""

    def fields(self) -> list[pa.Field]:
        return [pa.field("rows", pa.int64())]

    def reduce(self, rows: PresentRows, groups: int) -> Codes:
        if groups == 1:
            return np.array([len(rows.codes)])
        return np.bincount(rows.codes, minlength=groups).astype(np.int64, copy=False)

    def merge(self, states: Sequence[Codes], codes: Codes, groups: int) -> Codes:
        sums = np.zeros(groups, np.int64)
        add_by_group(sums, codes, np.concatenate([sums[:0], *states]))
        return sums

    def take(self, state: Codes, groups: Codes) -> Codes:
        return state[groups]

    def arrays(self, state: Codes) -> list[pa.Array]:
        return [arrow_array(state)]

    def state(self, arrays: Sequence[pa.Array]) -> Codes:
        return numpy_array(arrays[0])


SUMS: dict[str, Callable[[Sequence[pa.Array], Codes, int], ExactSums]] = {
    "sum": lambda columns, codes, groups: sums_of(columns[0], codes, groups),
    "weights": lambda columns, codes, groups: sums_of(columns[1], codes, groups),
    "products": lambda columns, *groups: products_of(columns[0], columns[-1], *groups),
}
"""The sums by name, each of columns and of the group of each row, below so many."""


class _Sum(Reduction):
    """An exact sum."""

    def __init__(self, which: str) -> None:
        self._sums = SUMS[which]

    def fields(self) -> list[pa.Field]:
        return state_fields()

    def reduce(self, rows: PresentRows, groups: int) -> ExactSums:
        return self._sums(rows.columns, rows.codes, groups)

    def merge(self, states: Sequence[ExactSums], codes: Codes, groups: int) -> ExactSums:
        return ExactSums.total(states, codes, groups)

    def take(self, state: ExactSums, groups: Codes) -> ExactSums:
        return state.take(groups)

    def lines(self, state: ExactSums) -> Iterable[Any]:
        return state.lines

    def arrays(self, state: ExactSums) -> list[pa.Array]:
        return state_arrays(state)

    def state(self, arrays: Sequence[pa.Array]) -> ExactSums:
        return sums_from(arrays)


class _Selected(Reduction):
    """One of the values of a group; null for a group without one.

    Selecting among the values selected from parts selects among all values.
    """

    def __init__(self, which: str, kind: pa.DataType) -> None:
        self._which, self._kind = which, kind

    def fields(self) -> list[pa.Field]:
        return [pa.field("value", self._kind)]

    def merge(self, states: Sequence[Any], codes: Codes, groups: int) -> Any:
        values = [self.result(each) for each in states] or [pa.nulls(0, self._kind)]
        return self.reduce(PresentRows(pa.concat_arrays(values), codes), groups)

    def take(self, state: Any, groups: Codes) -> Any:
        return state.take(arrow_array(groups))

    def arrays(self, state: Any) -> list[pa.Array]:
        return [self.result(state)]

    def state(self, arrays: Sequence[pa.Array]) -> pa.Array:
        return arrays[0]


_BETTER = {"greatest": np.maximum, "least": np.minimum}


class _Extreme(_Selected):
    """The least or the greatest value: `Extremes` as long as kernels alone made it, else an array.

    A zero is +0.0, whichever zeros there are; text is ordered by code point, binary by byte.
    """

    def reduce(self, rows: PresentRows, groups: int) -> pa.Array:
        if is_text_or_binary(self._kind):
            from tessel.expression.text_bytes import texts_of
            from tessel.kernels.best_rows import best_texts

            texts, greatest = texts_of(rows.columns[0]), self._which == "greatest"
            return rows.taken(best_texts(texts, rows.codes, groups, greatest=greatest))
        held = OrderedNumbers.of_values(rows.columns[0])
        best, some = self._best(held.numbers, rows.codes, groups)
        return held.values(best, ~some)

    def merge(self, states: Sequence[Any], codes: Codes, groups: int) -> Any:
        dtypes = {each.numbers.dtype if isinstance(each, Extremes) else None for each in states}
        if len(dtypes) != 1 or None in dtypes:
            return super().merge(states, codes, groups)
        numbers = np.concatenate([each.numbers for each in states])
        some = np.concatenate([each.some for each in states])
        if not some.all():
            numbers, codes = numbers[some], codes[some]
        return Extremes(*self._best(numbers, codes, groups), self._kind)

    def take(self, state: Any, groups: Codes) -> Any:
        if not isinstance(state, Extremes):
            return super().take(state, groups)
        return Extremes(state.numbers[groups], state.some[groups], state.kind)

    def lines(self, state: Any) -> Iterable[Any]:
        return (state.numbers, state.some) if isinstance(state, Extremes) else (state,)

    def result(self, state: Any) -> pa.Array:
        return state.values if isinstance(state, Extremes) else state

    def _best(
        self, numbers: NDArray[Any], codes: Codes, groups: int
    ) -> tuple[NDArray[Any], BoolArray]:
        """Return the best number of each group, and the groups that have one."""
        if groups == 1 and len(numbers):
            return _BETTER[self._which].reduce(numbers, keepdims=True), np.ones(1, np.bool_)
        best, some = np.zeros(groups, numbers.dtype), np.zeros(groups, np.bool_)
        best[codes], some[codes] = numbers, True  # any of a group's own, to begin with
        _BETTER[self._which].at(best, codes, numbers)
        return best, some


class _End(_Selected):
    """The first or the last value in order of rows, with the bits that are stored."""

    def reduce(self, rows: PresentRows, groups: int) -> pa.Array:
        if self._which == "first":
            return rows.taken(_first_rows(rows.codes, groups))
        found = _first_rows(rows.codes[::-1], groups)
        return rows.taken(np.where(found < 0, -1, len(rows.codes) - 1 - found))


def _first_rows(codes: Codes, groups: int) -> Codes:
    """Return the first row of every group; -1 for a group without rows."""
    found = np.full(groups, len(codes), np.int64)
    # Blocks stop the search as soon as every group has been seen, mostly in the first one.
    block_rows = max(_BLOCK_ROWS, groups)
    for start in range(0, len(codes), block_rows):
        block = codes[start : start + block_rows]
        new = np.flatnonzero(found[block] == len(codes))[::-1]
        if len(new):
            # Of an index that occurs twice numpy keeps the last value: here the first row.
            found[block[new]] = new + start
            if found.max() < len(codes):
                break
    found[found == len(codes)] = -1
    return found


def of_some(values: pa.Array, some: BoolArray) -> pa.Array:
    """Return the results of groups or rows, null for those without a value."""
    if some.all():
        return values
    if not pa.types.is_primitive(values.type) or values.offset:
        return pc.if_else(arrow_array(some), values, arrow_scalar(None, values.type))
    valid = some & numpy_array(values.is_valid()) if values.null_count else some
    buffers = [arrow_array(valid).buffers()[1], values.buffers()[1]]
    return pa.Array.from_buffers(values.type, len(values), buffers)


def typed_values(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return stored integers as values of a type."""
    if values.type == kind:
        return values
    if pa.types.is_decimal(kind):
        words = np.empty((len(values), 2), np.int64)
        words[:, 0] = numpy_array(values)
        words[:, 1] = words[:, 0] >> _SIGN
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(words)])
    if is_temporal(kind):
        return values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return values.cast(kind)
