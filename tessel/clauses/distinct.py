"""distinct: one row of those that are equal, and the forms it is run in.

The planner runs it as one :class:`PartialDistinct` per unit, hash buckets in which the rows of one
key are together, one :class:`DistinctBucket` each, and the rows brought back in their order. All of
it stays in the byte budget, and runs alike on Spark.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.grouped.grouping import check_key_type, group_codes
from tessel.clauses.grouped.scanned_first_rows import SeenKeys, scanned_first_rows
from tessel.clauses.registry import register
from tessel.clauses.running.bound_unit import is_bound
from tessel.ecs import ProcessingUnit
from tessel.errors import DuplicateColumnError, PlanError, repeated
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.selected_rows import SelectedRows

__all__ = ["Distinct", "DistinctBucket", "PartialDistinct"]

Keep = Literal["first", "last", "none"]
Rows = NDArray[np.int64]


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
            Structure.ALL,
            Structure.ROW_SLICE,
            columns=None if self.columns is None else frozenset(self.columns),
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
        return _kept(unit, _distinct_rows(unit.table, self.keys(unit.schema), self.keep))


@register
@dataclass(frozen=True)
class PartialDistinct(Clause):
    """Drop rows of a unit that have no say in what is kept of all units.

    They are chosen from the columns that make rows equal; the others are read for what is left.
    """

    name: ClassVar[str] = "partial_distinct"
    internal: ClassVar[bool] = True
    columns: tuple[str, ...]
    keep: Keep = "first"

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order kept."""
        return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE, columns=frozenset(self.columns))

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's schema."""
        return input_schema

    def begun(self) -> Clause:
        """Return the clause for one run, whose units tell each other which keys they have."""
        return _SharedDistinct.of(self)

    def choose(self, rows: Batch) -> Rows | None:
        """Choose rows from codes and narrow integers as they are stored."""
        return self._first(rows, SeenKeys())

    def _first(self, rows: Batch, seen: SeenKeys) -> Rows | None:
        return scanned_first_rows(rows, self.columns, seen) if self.keep == "first" else None

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Keep the first or last rows; of ``"none"`` two, which say that there are several."""
        if is_bound(unit):
            found = unit.chosen_by(self.choose) or unit.narrowed_by(self._keep)
            if found is not None:
                return found
        return _kept(unit, self._rows(unit.table))

    def _keep(self, rows: SelectedRows) -> None:
        rows.keep(rows.places()[self._rows(rows.values(self.columns))])

    def _rows(self, table: pa.Table) -> Rows:
        if self.keep == "none":
            return _first_two(table, self.columns)
        return _distinct_rows(table, self.columns, self.keep)


class _SharedDistinct(PartialDistinct):
    """The clause in one run in one process."""

    _seen: SeenKeys

    @classmethod
    def of(cls, clause: PartialDistinct) -> _SharedDistinct:
        found = cls(clause.columns, clause.keep)
        # No field: it says nothing of what the clause is.
        object.__setattr__(found, "_seen", SeenKeys())
        return found

    def choose(self, rows: Batch) -> Rows | None:
        return self._first(rows, self._seen)


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
        return _kept(unit, _distinct_rows(unit.table, self.columns, self.keep))


def _kept(unit: ProcessingUnit, rows: Rows) -> ProcessingUnit:
    return unit if len(rows) == unit.num_rows else unit.take(rows)


def _distinct_rows(table: pa.Table, keys: tuple[str, ...], keep: Keep) -> Rows:
    """Return which rows are kept, ascending. int64."""
    found = group_codes([table.column(name) for name in keys], drop_missing=False)
    if keep == "first":
        return found.first_row
    if keep == "last":
        last = np.zeros(len(found), np.int64)
        last[found.codes] = np.arange(len(found.codes))  # the last to be written stays
        return np.sort(last)
    counts = np.bincount(found.codes, minlength=len(found))
    alone: Rows = found.first_row[counts == 1]
    return alone


def _first_two(table: pa.Table, keys: tuple[str, ...]) -> Rows:
    found = group_codes([table.column(name) for name in keys], drop_missing=False)
    rest = np.ones(len(found.codes), np.bool_)
    rest[found.first_row] = False
    later = np.flatnonzero(rest)
    _, at = np.unique(found.codes[later], return_index=True)
    return np.sort(np.concatenate([found.first_row, later[at]]))
