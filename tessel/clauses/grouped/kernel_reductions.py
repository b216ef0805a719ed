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

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.reductions import of_some, typed_values
from tessel.clauses.grouped.group_states import StateKey, States
from tessel.clauses.grouped.reductions import (
    WORST,
    KernelReduction,
    ReducedColumns,
    plan_reduction,
)
from tessel.clauses.results import NamedAggregate
from tessel.clauses.values import plain_type
from tessel.expression.encoded import BlockProgram
from tessel.expression.schema import TableSchema
from tessel.kernels.fields import FieldKind, FieldResult, SumField
from tessel.kernels.group_sums import GroupSums
from tessel.lazy import dataclass
from tessel.store.manifest.lazy_columns import OpenedBatch

_ENDS_OF_ROWS = {"first": FieldKind.LEAST, "last": FieldKind.GREATEST}

Integers = NDArray[np.int64]


def all_reducible(aggregates: Sequence[NamedAggregate]) -> bool:
    """Return whether the states of all aggregates can be made of stored integers."""
    return all(
        isinstance(each.aggregate, FromReductions) and not each.computed for each in aggregates
    )


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
    """

    fields: tuple[SumField, ...]
    needs_last: bool
    needs_ends: bool
    _keys: Sequence[StateKey]
    _reductions: Mapping[StateKey, KernelReduction]
    _columns: Mapping[tuple[str, ...], ReducedColumns]
    _ends: Mapping[StateKey, SumField]
    _rows: Mapping[str, tuple[int, pa.DataType]]

    def found(self, opened: OpenedBatch[Any], sums: GroupSums) -> States:
        """Return the states of some groups of a segment, from what kernels found of them."""
        by_field = dict(zip(self.fields, sums.results, strict=True))
        known = {
            names: sums.counts if columns.count is None else _numbers_of(by_field[columns.count])
            for names, columns in self._columns.items()
        }
        states: dict[StateKey, Any] = {}
        for key in self._keys:
            inputs, which = key
            if which == "count":
                states[key] = known[inputs]
            elif key in self._reductions:
                planned = self._reductions[key]
                results = [by_field[field] for field in planned.fields]
                states[key] = planned.to_state(results, known[inputs])
            else:
                rows = sums.first_row if which == "first" else sums.last_row
                if key in self._ends:
                    rows = cast(Integers, by_field[self._ends[key]])
                assert rows is not None  # it was planned for
                place, kind = self._rows[inputs[0]]
                values = typed_values(opened.values_at(place, rows), kind)
                states[key] = of_some(values, known[inputs] > 0)
        return states


def plan_reductions(
    program: BlockProgram,
    keys: Sequence[StateKey],
    schema: TableSchema,
) -> KernelReductions | None:
    """Plan reductions; None where kernels cannot do them.

    Parameters
    ----------
    program
        Has all input columns.
    keys
        The reductions.
    schema
        Types of the columns.
    """
    planned: dict[StateKey, KernelReduction] = {}
    columns: dict[tuple[str, ...], ReducedColumns] = {}
    ends: dict[StateKey, SumField] = {}
    rows_of: dict[str, tuple[int, pa.DataType]] = {}
    needs_last = needs_ends = False
    for key in keys:
        inputs, which = key
        if inputs not in columns:
            if not all(program.has_integers(name) for name in inputs):
                return None
            columns[inputs] = _columns(program, inputs)
        own = columns[inputs]
        if which in _ENDS_OF_ROWS:
            place = program.place(inputs[0])
            if place is None:
                return None  # single rows have to be decoded
            rows_of[inputs[0]] = place, plain_type(schema.type_of(inputs[0]))
            needs_ends |= own.known is None
            needs_last |= own.known is None and which == "last"
            if own.known is not None:
                ends[key] = _end(program, own.known, _ENDS_OF_ROWS[which])
        elif which != "count":
            found = plan_reduction(which, program, own, schema)
            if found is None:
                return None
            planned[key] = found
    fields = dict.fromkeys(field for each in planned.values() for field in each.fields)
    fields |= dict.fromkeys(each.count for each in columns.values() if each.count is not None)
    fields |= dict.fromkeys(ends.values())
    return KernelReductions(
        tuple(fields), needs_last, needs_ends, keys, planned, columns, ends, rows_of
    )


def _columns(program: BlockProgram, names: tuple[str, ...]) -> ReducedColumns:
    known = program.known(names)
    count = None if known is None else SumField.of_integers(program.ones(known), 1)
    return ReducedColumns(names, known, count)


def _end(program: BlockProgram, known: int, kind: FieldKind) -> SumField:
    """Return the field that finds the first or the last row with a value."""
    return SumField(kind, program.chosen(program.rows(), known, WORST[kind]))


def _numbers_of(sums: FieldResult) -> Integers:
    """Return small sums, which are given by bit position, as numbers."""
    assert isinstance(sums, dict)
    return np.asarray(sum(held << place for place, held in sums.items()), np.int64)
