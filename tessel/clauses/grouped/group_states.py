"""The states of the aggregates of groups: made, merged, finished and written down for all alike.

A state is that of a reduction (:mod:`tessel.clauses.aggregates.reductions`). What several
aggregates need is there once. An aggregate that is not made of reductions, such as one of somebody
else, enters as one of its own, whose state is its Arrow columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import MergeableAggregate
from tessel.clauses.aggregates.from_reductions import FromReductions
from tessel.clauses.aggregates.present_rows import PresentRows
from tessel.clauses.aggregates.reductions import Reduction, ReductionSet
from tessel.clauses.results import NamedAggregate
from tessel.expression.schema import TableSchema

Codes = NDArray[np.int64]

StateKey = tuple[tuple[str, ...], str]
"""Input columns, and the name of a reduction of them."""

States = Mapping[StateKey, Any]
"""The states of groups, by reduction."""


class StatePlan(ReductionSet[StateKey]):
    """The reductions that some mergeable aggregates need, each once.

    Parameters
    ----------
    aggregates
        The aggregates.
    source
        Schema of the rows.

    Attributes
    ----------
    reductions
        By input columns and name.
    """

    def __init__(self, aggregates: Sequence[NamedAggregate], source: TableSchema) -> None:
        self._aggregates: list[tuple[NamedAggregate, pa.DataType | None, dict[str, StateKey]]] = []
        super().__init__({})
        for each, kind in ((each, each.input_type(source)) for each in aggregates):
            needed = (
                each.aggregate.reductions_of(kind)
                if isinstance(each.aggregate, FromReductions)
                else {f"\0{each.output}": _Own(_mergeable(each), kind)}
            )
            keys = {which: (each.inputs, which) for which in needed}
            self._aggregates.append((each, kind, keys))
            self.reductions |= {keys[which]: reduction for which, reduction in needed.items()}

    @property
    def is_compact(self) -> bool:
        """Whether the states of a group are small however many rows it has."""
        return all(reduction.compact for reduction in self.reductions.values())

    def fields(self) -> list[pa.Field]:
        """Return names and types of states as Arrow columns."""
        return [
            field.with_name(name)
            for key, reduction in self.reductions.items()
            for name, field in zip(self.names(key), reduction.fields(), strict=True)
        ]

    def of_rows(self, columns: Mapping[str, Any], codes: Codes, groups: int) -> States:
        """Return the states of some rows.

        Parameters
        ----------
        columns
            The inputs by name, in order of rows.
        codes
            int64, shape ``(rows,)``: the group of each row.
        groups
            How many groups there are.
        """
        rows: dict[tuple[str, ...], PresentRows] = {}
        for each, _, _ in self._aggregates:
            if each.inputs not in rows:
                several = len(each.inputs) > 1
                rows[each.inputs] = PresentRows(each.values(columns), codes, several=several)
        return self.reduce(lambda key: rows[key[0]], groups)

    def finish(self, states: States) -> dict[str, pa.Array]:
        """Return the result of each aggregate by its output, one value a group.

        Raises
        ------
        IntegerOverflowError
            Where a result does not fit its type.
        """
        results = self.results(states)
        found: dict[str, pa.Array] = {}
        for each, kind, keys in self._aggregates:
            reduced = {which: results[key] for which, key in keys.items()}
            if isinstance(each.aggregate, FromReductions):
                found[each.output] = each.aggregate.of_reductions(reduced, kind, each.column)
            else:
                (own,) = reduced.values()
                found[each.output] = _mergeable(each).finish(own, kind, each.column)
        return found

    def take(self, states: States, groups: Codes) -> States:
        """Return the states of some groups."""
        return {key: each.take(states[key], groups) for key, each in self.reductions.items()}

    def nbytes(self, states: States) -> int:
        """Return the bytes of states."""
        once: dict[int, int] = {}  # counts are of several
        for key, each in self.reductions.items():
            for line in each.lines(states[key]):
                once[id(line)] = int(line.nbytes)
        return sum(once.values())

    def names(self, key: StateKey) -> list[str]:
        """Return the names of the columns of one of the states."""
        inputs, which = key
        return ["\0".join([*inputs, which, f.name]) for f in self.reductions[key].fields()]


def _mergeable(each: NamedAggregate) -> MergeableAggregate:
    assert isinstance(each.aggregate, MergeableAggregate)  # the planner makes states of no other
    return each.aggregate


class _Own(Reduction):
    """The state of an aggregate that is not made of reductions: its columns."""

    def __init__(self, aggregate: MergeableAggregate, kind: pa.DataType | None) -> None:
        self._aggregate, self._kind = aggregate, kind
        self.compact = aggregate.compact

    def fields(self) -> list[pa.Field]:
        return self._aggregate.partial_fields(self._kind)

    def reduce(self, rows: PresentRows, groups: int) -> list[pa.Array]:
        return self._aggregate.partial(rows.values, rows.all_codes, groups)

    def merge(self, states: Sequence[Any], codes: Codes, groups: int) -> list[pa.Array]:
        columns = [pa.chunked_array(list(parts)) for parts in zip(*states, strict=True)]
        return self._aggregate.merge(columns, codes, groups, self._kind)

    def take(self, state: list[pa.Array], groups: Codes) -> list[pa.Array]:
        rows = arrow_array(groups)
        return [array.take(rows) for array in state]

    def lines(self, state: list[pa.Array]) -> Iterable[pa.Array]:
        return state

    def arrays(self, state: list[pa.Array]) -> list[pa.Array]:
        return state

    def state(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        return list(arrays)
