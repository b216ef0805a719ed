"""distinct: one row of those that are equal, and the forms it is run in.

The planner runs it as one :class:`PartialDistinct` per unit, hash buckets in which the rows of one
key are together, one :class:`DistinctBucket` each, and the rows brought back in their order. All of
it stays in the byte budget, and runs alike on Spark.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.capabilities import DynamicFilter
from tessel.clauses.grouped.grouping import check_key_type
from tessel.clauses.registry import register
from tessel.clauses.seen_keys import Keep, SeenKeys, distinct_rows, partly_distinct_rows
from tessel.ecs import ProcessingUnit
from tessel.errors import DuplicateColumnError, PlanError, repeated
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Distinct(Clause):
    """Keep one row of those with equal values in some columns; the rows kept stay in order.

    Attributes
    ----------
    columns
        What makes rows equal: bool, numbers, decimals, text, binary, dates, times, timestamps,
        durations, and dictionaries of these. None is all columns.
    keep
        The ``"first"`` or the ``"last"`` of equal rows, or ``"none"`` of them: only rows that have
        no equal.

    Notes
    -----
    Missing equals missing, and null and NaN are one; −0.0 equals 0.0. A kept row comes out as it is
    stored.
    """

    name: ClassVar[str] = "distinct"
    columns: tuple[str, ...] | None = None
    keep: Keep = "first"

    def __post_init__(self) -> None:
        if self.columns is not None and not self.columns:
            raise PlanError("distinct of no columns", hint="leave the columns out to mean all")
        name = repeated(self.columns or ())
        if name is not None:
            raise DuplicateColumnError(f"distinct names {name!r} twice", column=name)
        if self.keep not in ("first", "last", "none"):
            raise PlanError(
                f"distinct: keep is {self.keep!r}",
                hint="it is first, last or none",
                clause="distinct",
            )

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out, order kept."""
        return ClauseInfo(
            Structure.ALL, columns=None if self.columns is None else frozenset(self.columns)
        )

    def keys(self, schema: TableSchema) -> tuple[str, ...]:
        """Return the columns that make rows equal."""
        return tuple(schema.names) if self.columns is None else self.columns

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's schema; columns whose values have no equality are refused."""
        keys = self.keys(input_schema)
        input_schema.require(keys)
        for name in keys:
            check_key_type(name, input_schema.type_of(name))
        return input_schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Keep the rows of everything."""
        return _kept(unit, distinct_rows(unit.table, self.keys(unit.schema), self.keep))


@register
@dataclass(frozen=True)
class PartialDistinct(Clause):
    """Drop rows of a unit that have no say in what is kept of all units.

    Those of units that are not read are dropped by :class:`SeenKeys`.
    """

    name: ClassVar[str] = "partial_distinct"
    internal: ClassVar[bool] = True
    columns: tuple[str, ...]
    keep: Keep = "first"

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order kept."""
        return ClauseInfo(columns=frozenset(self.columns))

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's schema."""
        return input_schema

    def open_filter(self) -> DynamicFilter:
        """Return the keys that units of one run have seen: none yet."""
        return SeenKeys(self.columns, self.keep)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Keep the first or last rows; of ``"none"`` two, which say that there are several."""
        return _kept(unit, partly_distinct_rows(unit.table, self.columns, self.keep))


@register
@dataclass(frozen=True)
class DistinctBucket(Clause):
    """Keep the rows of one hash bucket, in which all rows of a key are."""

    name: ClassVar[str] = "distinct_bucket"
    internal: ClassVar[bool] = True
    columns: tuple[str, ...]
    keep: Keep = "first"

    @property
    def structure(self) -> ClauseInfo:
        """Hash buckets in, hash buckets out."""
        return ClauseInfo(
            Structure.HASH_BUCKETED,
            Structure.HASH_BUCKETED,
            columns=frozenset(self.columns),
            keeps_order=False,
            index=IndexEffect.DROP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's columns."""
        return TableSchema(input_schema.arrow)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Keep the rows of the bucket."""
        return _kept(unit, distinct_rows(unit.table, self.columns, self.keep))


def _kept(unit: ProcessingUnit, rows: NDArray[np.int64]) -> ProcessingUnit:
    return unit if len(rows) == unit.num_rows else unit.take(rows)
