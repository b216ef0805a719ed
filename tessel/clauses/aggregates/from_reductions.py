"""Aggregates whose states are made of reductions: partials, merging and Arrow forms of them all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from tessel.clauses.aggregates.base import Codes, MergeableAggregate, Values
from tessel.clauses.aggregates.present_rows import PresentRows
from tessel.clauses.aggregates.reductions import Reduction, ReductionSet, reduction_of


class FromReductions(MergeableAggregate):
    """A mergeable aggregate whose state is made of reductions of its columns.

    What several aggregates of the same columns need is computed once, and where columns are stored
    as integers, from these, without decoding a value. Rows in which a column is missing do not
    count.

    Class attributes
    ----------------
    reductions
        Which it needs, of these: ``"count"`` (int64); ``"sum"``, ``"products"`` (of the first
        column and the last: with one column of squares) and ``"weights"`` (the sum of the second
        column), all `ExactSums`; ``"least"``, ``"greatest"``, ``"first"``, ``"last"`` (arrays,
        null where there is no value).
    """

    reductions: ClassVar[tuple[str, ...]]

    @abstractmethod
    def of_reductions(
        self, reduced: Mapping[str, Any], value_type: pa.DataType | None, column: str | None = None
    ) -> pa.Array:
        """Return one value a group, exactly of :meth:`result_type`.

        Raises IntegerOverflowError when an exact integer result does not fit its type; names
        aggregate and column.

        Parameters
        ----------
        value_type
            Type of the column; structs of several.
        """

    def reductions_of(self, value_type: pa.DataType | None) -> dict[str, Reduction]:
        """Return the reductions that it needs, by name."""
        kinds = [] if value_type is None else [value_type]
        if self.further:
            kinds = [field.type for field in kinds[0]]
        return {which: reduction_of(which, kinds) for which in self.reductions}

    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:  # noqa: D102
        return [
            field.with_name(f"{which}_{field.name}")
            for which, reduction in self.reductions_of(value_type).items()
            for field in reduction.fields()
        ]

    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:  # noqa: D102
        held, _, states = self._reduced(values, codes, groups)
        return held.arrays(states)

    def merge(  # noqa: D102
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        held = ReductionSet(self.reductions_of(value_type))
        return held.arrays(held.merge([held.of_columns(states)], codes, groups))

    def finish(  # noqa: D102
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        held = ReductionSet(self.reductions_of(value_type))
        return self.of_reductions(held.results(held.of_columns(states)), value_type, column)

    def compute(  # noqa: D102
        self, values: Values, codes: Codes, groups: int, column: str | None = None
    ) -> pa.Array:
        held, kind, states = self._reduced(values, codes, groups)
        return self.of_reductions(held.results(states), kind, column)

    def _reduced(
        self, values: Values, codes: Codes, groups: int
    ) -> tuple[ReductionSet[str], pa.DataType | None, dict[str, Any]]:
        kind = values.type if self.reads_values else None
        rows = PresentRows(values if self.reads_values else None, codes, several=bool(self.further))
        held = ReductionSet(self.reductions_of(kind))
        return held, kind, held.reduce(lambda _: rows, groups)
