"""explode: one row for each item of a list."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import arrow_array, fill_null, numpy_array, one_array
from tessel.clauses.base import Clause, ClauseInfo
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.errors import (
    DuplicateColumnError,
    ExecutionError,
    PlanError,
    UnsupportedTypeError,
    repeated,
)
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.promotion import is_list


@register
@dataclass(frozen=True)
class Explode(Clause):
    """One row for each item of a list, in the list's order; the other columns are repeated.

    Attributes
    ----------
    columns
        List columns (lists, large lists, lists of a fixed size). Of several the items go side by
        side, so that their lists have one length in each row.
    keep_empty
        Whether a row whose list is empty or missing stays, with a missing item. Otherwise it
        falls away.

    Notes
    -----
    One level is taken off: a list of lists gives lists. Items that are missing are rows. Rows with
    empty and missing lists stay in pandas, as here; DuckDB's ``unnest`` drops them, as
    ``keep_empty=False`` does; Polars takes an argument for each of the two. A time index stays one:
    its times are repeated.
    """

    name: ClassVar[str] = "explode"
    columns: tuple[str, ...]
    keep_empty: bool = True

    def __post_init__(self) -> None:
        if not self.columns:
            raise PlanError("explode needs a list column", hint='explode("prices")')
        name = repeated(self.columns)
        if name is not None:
            raise DuplicateColumnError(f"explode names {name!r} twice", column=name)

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order kept."""
        return ClauseInfo(columns=frozenset(self.columns), adds=frozenset(self.columns))

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with items instead of lists; other columns are refused."""
        schema = input_schema
        for name in self.columns:
            kind = input_schema.type_of(name)
            if not is_list(kind):
                raise UnsupportedTypeError(
                    f"column {name!r} of type {kind} has no items",
                    hint="explode takes columns of lists",
                    column=name,
                    type=str(kind),
                )
            schema = schema.with_column(name, kind.value_type)
        return schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Repeat the rows, and put items in the place of lists."""
        lists = {name: _Lists.of(unit.column(name)) for name in self.columns}
        lengths = self._lengths(lists)
        repeats = np.maximum(lengths, 1) if self.keep_empty else lengths
        rows = np.repeat(np.arange(len(lengths)), repeats)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        empty = lengths[rows] == 0
        result = unit.take(rows)
        for name, each in lists.items():
            at = arrow_array(each.starts[rows] + place, pa.int64(), mask=empty)
            result = result.with_column(name, each.items.take(at))
        return result

    def _lengths(self, lists: dict[str, _Lists]) -> NDArray[np.int64]:
        first = self.columns[0]
        lengths = lists[first].lengths
        for name in self.columns[1:]:
            differing = np.flatnonzero(lists[name].lengths != lengths)
            if len(differing):
                one, other = lengths[differing[0]], lists[name].lengths[differing[0]]
                raise ExecutionError(
                    f"explode: a row has {one} items in {first!r} and {other} in {name!r}",
                    hint="explode them one after the other for all pairs of items",
                    column=name,
                )
        return lengths


@dataclass(frozen=True)
class _Lists:
    """Where the items of each row lie; a missing list has none."""

    items: pa.Array
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _Lists:
        array = one_array(column)
        lengths = numpy_array(fill_null(pc.list_value_length(array), 0)).astype(np.int64)
        return cls(array.flatten(), np.cumsum(lengths) - lengths, lengths)
