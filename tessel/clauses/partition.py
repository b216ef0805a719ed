"""partition: split rows into hash buckets of their keys (the first half of groupby)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.computed import columns_of_keys, key_fields, key_names, stored_names
from tessel.clauses.grouped.group_states import POSITION
from tessel.clauses.grouped.grouping import missing_rows
from tessel.clauses.grouped.hashing import bucket_of
from tessel.clauses.registry import register
from tessel.clauses.units.reduced import unit_in_buckets
from tessel.ecs import ProcessingUnit
from tessel.errors import DuplicateColumnError, PlanError, repeated
from tessel.expression.named import ComputedColumn
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Partition(Clause):
    """Split rows into buckets so that all rows of one key are in one bucket.

    Attributes
    ----------
    keys
        The key columns, or expressions with names for them; none puts all rows in one bucket.
    drop_missing
        Whether rows with a missing key are dropped; otherwise missing is a key like others.
    buckets
        How many buckets; the planner sets it from the bytes to come. No answer depends on it.
    positions
        Whether a hidden column tells each row's place in plan order, for order of appearance.
    """

    name: ClassVar[str] = "partition"
    keys: tuple[str | ComputedColumn, ...]
    drop_missing: bool = True
    buckets: int = 1
    positions: bool = False

    def __post_init__(self) -> None:
        key = repeated(key_names(self.keys))
        if key is not None:
            raise DuplicateColumnError(
                f"groupby names {key!r} twice",
                hint="give one of the keys another name: groupby(other=...)",
                column=key,
            )
        if self.buckets < 1:
            raise PlanError(f"partition needs at least one bucket, not {self.buckets}")

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, hash buckets out."""
        return ClauseInfo(
            Structure.ROW_SLICE,
            Structure.HASH_BUCKETED,
            columns=columns_of_keys(self.keys),
            adds=frozenset([POSITION] if self.positions else []),
            keeps_order=False,
            keeps_count=not self.drop_missing,
            index=IndexEffect.DROP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the input's columns without a time index; unusable keys are refused."""
        key_fields(self.keys, input_schema)
        unordered = TableSchema(input_schema.arrow)
        return unordered.with_column(POSITION, pa.int64()) if self.positions else unordered

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Give each row its bucket; pieces come out by bucket, rows of each in order."""
        schema = self.output_schema(unit.schema)
        if not unit.num_rows:
            return unit.with_pieces([], schema)
        table = unit.table
        if self.positions:
            place = np.arange(table.num_rows, dtype=np.int64) + (unit.ordinal << 32)
            table = table.append_column(POSITION, arrow_array(place))
        keys = [table.column(key) for key in stored_names(self.keys)]
        bucket = bucket_of(keys, self.buckets) if keys else np.zeros(table.num_rows, np.int64)
        missing = missing_rows(keys) if self.drop_missing and keys else None
        present = None
        if missing is not None and missing.any():
            present = np.flatnonzero(~missing)
            bucket = bucket[present]
        return unit_in_buckets(unit, table, schema, bucket, self.buckets, present)
