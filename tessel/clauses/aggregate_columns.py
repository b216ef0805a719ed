"""aggregate_columns: one aggregate of all columns that it can be computed of.

Which columns these are is known where the clause meets a table: it is short for an aggregation, or
a resample, that names each of them.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tessel.clauses.aggregates.registry import find_aggregate
from tessel.clauses.aggregation import Aggregation
from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, ShortClause, Structure
from tessel.clauses.computed import key_names
from tessel.clauses.partition import Partition
from tessel.clauses.registry import register
from tessel.clauses.resample import Resample
from tessel.clauses.results import NamedAggregate
from tessel.errors import AggregateError, TesselError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class AggregateColumns(ShortClause):
    """An aggregate of each column that is no key and that it can be computed of, by its name.

    Attributes
    ----------
    how
        The name of the aggregate, such as ``"mean"``.
    grouping
        What groups the rows, without aggregates.
    drop_missing
        Whether rows with a missing key are left out.
    """

    name: ClassVar[str] = "aggregate_columns"
    how: str
    grouping: Aggregation | Resample
    drop_missing: bool = True

    def __post_init__(self) -> None:
        aggregate = find_aggregate(self.how)
        if aggregate.further:
            others = ", ".join(f'"{each}"' for each in aggregate.further)
            raise AggregateError(
                f"{self.how!r} is of more columns than one",
                hint=f'agg(x=("column", "{self.how}", {others}))',
                aggregate=self.how,
            )
        if not aggregate.reads_values:
            raise AggregateError(
                f"{self.how!r} counts rows, and is of no column", hint='agg(rows="count")'
            )

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out; of a resample the label is the index."""
        grouped = isinstance(self.grouping, Aggregation)
        return ClauseInfo(
            Structure.ALL,
            Structure.ROW_SLICE,
            keeps_order=not grouped,
            uses_index=not grouped,
            index=IndexEffect.DROP if grouped else IndexEffect.REPLACE,
        )

    def lower(self, schema: TableSchema) -> tuple[Clause, ...]:
        """Return the aggregation of each column of a schema that the aggregate takes."""
        grouped = isinstance(self.grouping, Aggregation)
        keys = self.grouping.keys if isinstance(self.grouping, Aggregation) else self.grouping.by
        aggregate, found = find_aggregate(self.how), list[NamedAggregate]()
        for name in schema.names:
            if name == schema.index or name in key_names(keys):
                continue
            each = NamedAggregate(name, name, aggregate)
            try:
                each.result_type(schema)
            except TesselError:  # of a type that it is not computed of
                continue
            found.append(each)
        if not found:
            raise AggregateError(
                f"there is no column to compute {self.how!r} of",
                hint=f"columns: {', '.join(f'{f.name} ({f.type})' for f in schema.arrow)}",
                aggregate=self.how,
            )
        clause = dataclasses.replace(self.grouping, aggregates=tuple(found))
        return (Partition(keys, self.drop_missing), clause) if grouped else (clause,)
