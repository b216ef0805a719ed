"""The reductions of a query: what kernels compute by group or by run, and the partial states of it.

Hash and ordered aggregates that run on stored integers enter here with their aggregates. Each
aggregate names the reductions that its state is made of
(:class:`~tessel.clauses.aggregates.FromReductions`): sums, extremes, and single rows of columns
whose integers are at hand. :mod:`~tessel.clauses.grouped.reductions` plans them one by one; what
several aggregates need is computed once.

A row with a missing value adds nothing to a sum and is worse than every extreme. The number of
values is a sum too, of ones and zeros; the first value is that of the least row number.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import Aggregate, FromReductions, MergeableAggregate
from tessel.clauses.grouped.group_reductions import (
    GroupReductions,
    ReducedParts,
    ReductionKey,
    merged_reductions,
)
from tessel.clauses.grouped.reductions import (
    MAKERS,
    WORST,
    ReducedColumns,
    Reduction,
    is_reducible,
    of_some,
    typed_values,
)
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.values import plain_type
from tessel.expression.encoded import BlockProgram
from tessel.expression.schema import TableSchema
from tessel.kernels.fields import FieldKind, FieldResult, SumField
from tessel.lazy import dataclass
from tessel.store.manifest.opened_batch import OpenedBatch

__all__ = ["KernelReductions", "all_reducible", "numbers_of", "plan_reductions"]

_ENDS_OF_ROWS = {"first": FieldKind.LEAST, "last": FieldKind.GREATEST}
_ENDS = frozenset(_ENDS_OF_ROWS)
_COUNT = "count"
"""The number of values, which is always computed."""

Integers = NDArray[np.int64]


def all_reducible(aggregates: Sequence[NamedAggregate]) -> bool:
    """Return whether the states of all aggregates can be made of reductions of stored integers."""
    return all(_is_reducible(type(each.aggregate)) and not each.computed for each in aggregates)


@functools.cache
def _is_reducible(kind: type[Aggregate]) -> bool:
    # Whether a class satisfies a protocol takes 40 µs to say.
    reductions = getattr(kind, "reductions", None)
    return issubclass(kind, MergeableAggregate) and reductions is not None


def _reducible(each: NamedAggregate) -> FromReductions:
    return cast(FromReductions, each.aggregate)  # the caller has looked


@dataclass(frozen=True, eq=False)
class KernelReductions:
    """The reductions that some aggregates need, for all segments that share a program.

    Attributes
    ----------
    fields
        What kernels reduce, each once.
    needs_last
        Whether the last row of each group is needed.
    needs_ends
        Whether the first or the last row of each group is needed.
    rows
        The field that counts the rows of a group, where kernels run over unselected rows as well.
    """

    fields: tuple[SumField, ...]
    needs_last: bool
    needs_ends: bool
    rows: SumField | None
    _reductions: Mapping[ReductionKey, Reduction]
    _columns: Mapping[tuple[str, ...], ReducedColumns]
    _ends: Mapping[ReductionKey, SumField]
    _aggregates: Sequence[NamedAggregate]
    _rows: Mapping[str, tuple[int, pa.DataType]]

    def found(
        self,
        opened: OpenedBatch[Any],
        found: Sequence[FieldResult],
        counts: Integers,
        first: Integers,
        last: Integers | None,
    ) -> GroupReductions:
        """Return the reductions of some groups.

        Parameters
        ----------
        opened
            The segment.
        found
            The result of each field, one entry a group.
        counts
            Rows of each group.
        first, last
            The first and the last row of each group, counted in the segment.
        """
        by_field = dict(zip(self.fields, found, strict=True))
        parts = {
            key: planned.to_parts([by_field[field] for field in planned.fields])
            for key, planned in self._reductions.items()
            if planned.entries is None
        }
        for names, columns in self._columns.items():
            own: ReducedParts = {0: counts}
            if columns.count is not None:
                own = cast(Mapping[int, Integers], by_field[columns.count])
            parts[names, _COUNT] = own
        ends: dict[ReductionKey, pa.Array] = {}
        for key, planned in self._reductions.items():
            if planned.entries is not None:
                some = numbers_of(parts[key[0], _COUNT])
                # A group without a value has no place in it: the field holds its initial value.
                places = np.where(some > 0, cast(Integers, by_field[planned.fields[0]]), 0)
                ends[key] = of_some(planned.entries.take(arrow_array(places)), some)
        for each in self._aggregates:
            for which in _ENDS.intersection(_reducible(each).reductions):
                key, rows = (each.inputs, which), first if which == "first" else last
                if key in self._ends:
                    rows = cast(Integers, by_field[self._ends[key]])
                assert rows is not None  # it was planned for
                place, kind = self._rows[each.inputs[0]]
                values = typed_values(opened.values_at(place, rows), kind)
                ends[key] = of_some(values, numbers_of(parts[each.inputs, _COUNT]))
        return GroupReductions(counts, parts, ends)

    def joined(self, found: Sequence[GroupReductions], codes: Integers) -> GroupReductions:
        """Merge the reductions of several segments; see `merged_reductions`."""
        extremes = {
            key: planned.better
            for key, planned in self._reductions.items()
            if planned.better is not None
        }
        return merged_reductions(found, codes, extremes)

    def states(self, found: GroupReductions) -> list[pa.Array]:
        """Return the partial states of all aggregates: their columns, one entry a group."""
        counts = {
            names: numbers_of(parts)
            for (names, which), parts in found.parts.items()
            if which == _COUNT
        }
        made: dict[ReductionKey, Any] = dict(found.ends)
        for key in found.parts.keys() & self._reductions.keys():
            planned = self._reductions[key]
            made[key] = planned.finish(found.parts[key], counts[key[0]])
        states: list[pa.Array] = []
        for each in self._aggregates:
            reductions = {which: made[each.inputs, which] for which in _reducible(each).reductions}
            states += _reducible(each).partial_of_reductions(counts[each.inputs], reductions)
        return states


def plan_reductions(
    program: BlockProgram,
    aggregates: Sequence[NamedAggregate],
    schema: TableSchema,
    among: int | None = None,
) -> KernelReductions | None:
    """Plan the reductions of some aggregates; None where kernels cannot do them.

    Parameters
    ----------
    program
        Has all columns of the aggregates.
    aggregates
        All of them reducible.
    schema
        Types of the columns.
    among
        The truth register of the selected rows, for kernels that run over all rows; None where all
        are selected.
    """
    planned: dict[ReductionKey, Reduction] = {}
    columns: dict[tuple[str, ...], ReducedColumns] = {}
    ends: dict[ReductionKey, SumField] = {}
    rows_of: dict[str, tuple[int, pa.DataType]] = {}
    needs_last = needs_ends = False
    if among is not None:
        columns[()] = _columns(program, (), among)
    for each in aggregates:
        if not all(program.has_integers(name) for name in each.inputs):
            return None
        if each.inputs not in columns:
            columns[each.inputs] = _columns(program, each.inputs, among)
        own = columns[each.inputs]
        for which in _reducible(each).reductions:
            key = each.inputs, which
            if which in _ENDS:
                place = program.place(each.inputs[0])
                if place is None:
                    return None  # single rows have to be decoded
                rows_of[each.inputs[0]] = place, plain_type(schema.type_of(each.inputs[0]))
                needs_ends |= own.known is None
                needs_last |= own.known is None and which == "last"
                if own.known is not None:
                    ends[key] = _end(program, own.known, _ENDS_OF_ROWS[which])
                continue
            if key in planned:
                continue
            kinds = [plain_type(schema.type_of(name)) for name in each.inputs]
            if not all(is_reducible(which, kind) for kind in kinds):
                return None
            found = MAKERS[which](program, own, schema)
            if found is None:
                return None
            planned[key] = found
    fields = dict.fromkeys(field for each in planned.values() for field in each.fields)
    fields |= dict.fromkeys(each.count for each in columns.values() if each.count is not None)
    fields |= dict.fromkeys(ends.values())
    rows = None if among is None else columns[()].count
    return KernelReductions(
        tuple(fields),
        needs_last,
        needs_ends,
        rows,
        planned,
        columns,
        ends,
        aggregates,
        rows_of,
    )


def _columns(program: BlockProgram, names: tuple[str, ...], among: int | None) -> ReducedColumns:
    known = program.both(among, program.known(names))
    count = None if known is None else SumField.of_integers(program.ones(known), 1)
    return ReducedColumns(names, known, count)


def _end(program: BlockProgram, known: int, kind: FieldKind) -> SumField:
    """Return the field that finds the first or the last row with a value."""
    return SumField(kind, program.chosen(program.rows(), known, WORST[kind]))


def numbers_of(parts: ReducedParts) -> Integers:
    """Return small sums, which are given by bit position, as numbers."""
    assert isinstance(parts, Mapping)
    return np.asarray(sum(held << place for place, held in parts.items()), np.int64)
