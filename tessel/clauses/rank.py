"""rank: the place of each value among all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.ordered_numbers import OrderedNumbers
from tessel.clauses.along_rows.key_order import codes_of_parts
from tessel.clauses.along_rows.ordered import OrderedColumns
from tessel.clauses.base import ClauseInfo, Structure
from tessel.clauses.registry import register
from tessel.clauses.values import is_hashable, missing_rows, plain
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError, UnsupportedTypeError
from tessel.expression.schema import TableSchema

__all__ = ["Rank", "RankMethod"]

RankMethod = Literal["average", "min", "max", "dense", "ordinal"]
_METHODS: tuple[RankMethod, ...] = ("average", "min", "max", "dense", "ordinal")


@register
@dataclass(frozen=True)
class Rank(OrderedColumns):
    """The place of each value among the values of its key, from 1 on; missing of a missing value.

    Attributes
    ----------
    columns, by
        As for every ordered clause: pairs of result and column, and keys.
    method
        What equal values get: the ``"average"``, the ``"min"`` or the ``"max"`` of their places;
        ``"dense"`` counts distinct values; ``"ordinal"`` goes by the order of rows. Average gives
        float64, the others int64.
    descending
        Whether the greatest value is the first; rows of equal values keep their order.

    Notes
    -----
    Values are ordered as by ``sort``: text by code point, both zeros one value. It needs everything
    at once.
    """

    name: ClassVar[str] = "rank"
    method: RankMethod = "average"
    descending: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in _METHODS:
            raise PlanError(
                f"rank: the method is {self.method!r}", hint=f"it is one of {list(_METHODS)}"
            )

    @property
    def carries(self) -> None:
        """Return None: all rows are in one unit."""
        return

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out, order and count kept."""
        info = super().structure
        return ClauseInfo(
            Structure.ALL,
            Structure.ROW_SLICE,
            columns=info.columns,
            adds=info.adds,
            keeps_count=True,
        )

    def result_type(self, column: str, kind: pa.DataType) -> pa.DataType:
        """Return float64 or int64; refuse types without an order."""
        if not is_hashable(kind):
            raise UnsupportedTypeError(
                f"rank: values of column {column!r} of type {kind} have no order",
                hint="rank numbers, text, dates, times or durations; take a part with apply first",
                column=column,
                type=str(kind),
            )
        return pa.float64() if self.method == "average" else pa.int64()

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return no columns: nothing is carried."""
        return pa.schema([])

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Rank the rows of a unit that is everything."""
        ((codes,), _) = codes_of_parts([[unit.column(name) for name in self.by]], [unit.num_rows])
        results = {
            name: self._ranked(plain(unit.column(name)), codes, self.result_type(name, kind))
            for name, kind in ((name, unit.schema.type_of(name)) for name in self.inputs)
        }
        made = unit
        for output, column in self.columns:
            made = made.with_column(output, results[column])
        return made

    def _ranked(self, values: pa.Array, codes: np.ndarray, kind: pa.DataType) -> pa.Array:
        missing = missing_rows(values)
        rows = np.arange(len(values)) if missing is None else np.flatnonzero(~missing)
        numbers = OrderedNumbers.of_values(values).numbers[rows]
        # Places among distinct values can be turned around without leaving their type.
        _, numbers = np.unique(numbers, return_inverse=True)
        numbers = -numbers if self.descending else numbers
        order = np.lexsort((numbers, codes[rows]))  # stable: equal values keep their order
        ranks = self._ranks(codes[rows][order], numbers[order])
        found = np.zeros(len(values), ranks.dtype)
        found[rows[order]] = ranks
        return pa.array(found, kind, mask=missing)

    def _ranks(self, keys: np.ndarray, numbers: np.ndarray) -> NDArray[Any]:
        """Return the ranks of values in order, those of each key by themselves."""
        places = np.arange(len(keys))
        new_key = np.diff(keys, prepend=-1) != 0
        new_value = new_key | (np.diff(numbers, prepend=0) != 0)
        of_key, of_value = np.cumsum(new_key) - 1, np.cumsum(new_value) - 1
        start = np.flatnonzero(new_key)[of_key]
        first = np.flatnonzero(new_value)
        last = np.append(first[1:], len(keys)) - 1
        ranks: NDArray[Any]
        if self.method == "ordinal":
            ranks = places - start + 1
        elif self.method == "dense":
            ranks = of_value - of_value[start] + 1
        else:
            low, high = first[of_value] - start + 1, last[of_value] - start + 1
            ranks = {"min": low, "max": high, "average": (low + high) / 2}[self.method]
        return ranks
