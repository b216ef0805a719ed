"""distinct: one row of those that are equal, and the forms it is run in.

The planner runs it as one :class:`PartialDistinct` per unit, hash buckets in which the rows of one
key are together, one :class:`DistinctBucket` each, and the rows brought back in their order. All of
it stays in the byte budget, and runs alike on Spark.

Of batches that are not read yet, a dynamic filter has the keys of earlier rows. Where keys are
codes or integers as they are stored and few are possible, a kernel stops as soon as it has seen
all of them; where many are, rows are numbered by their integers. Rows with keys that earlier rows
have are dropped, unless a batch has many keys. Other keys are read, and each batch knows only
itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.capabilities import DynamicFilter
from tessel.clauses.grouped.grouping import check_key_type, group_codes
from tessel.clauses.grouped.numbered_keys import key_values
from tessel.clauses.grouped.stored_keys import PlannedGroups, planned_groups
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.errors import DuplicateColumnError, PlanError, repeated
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.expression.schema import TableSchema
from tessel.kernels.best_rows import first_of_groups
from tessel.kernels.blocks import outside_of_bounds
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch

Keep = Literal["first", "last", "none"]
Rows = NDArray[np.int64]

_Plan = tuple[PlannedGroups, UnboundProgram, int, UnboundProgram]
"""How rows are numbered, what computes that, the register of rows, and what computes both."""

_MOST_SEEN = 1 << 16
_MOST_CHECKED = 1 << 12
"""More keys of a unit than this are not checked: a hash table drops them later, and faster."""


class SeenKeys:
    """The keys seen in one run, and the earliest row of each.

    A row is dropped only where an earlier one with the same key was seen, which its own unit keeps,
    or drops for one that is earlier still.
    """

    spares_in_sequence = False

    def __init__(self, keys: tuple[str, ...], keep: Keep) -> None:
        self._columns = keys
        self._keep = keep
        self._rows: dict[tuple[object, ...], int] = {}
        self._lock = threading.Lock()

    def narrow(self, batches: Sequence[Batch], units: Sequence[int]) -> Iterator[Batch | None]:
        """Drop rows that have no say in what is kept of all units."""
        for batch, unit in zip(batches, units, strict=True):
            places = self._stored(batch) if self._keep == "first" else None
            if places is None:
                names = [batch.columns[name] for name in self._columns]
                rows = batch.rows_left(names, unit)
                if rows is None:
                    yield None
                    continue
                table = rows.values(names)
                places = rows.places_of(partly_distinct_rows(table, names, self._keep))
            yield batch.keep(places)

    def still_needed(self, batch: Batch) -> Batch:
        """Keep all rows: their keys were seen in no earlier row, so far."""
        return batch

    # --- inside -----------------------------------------------------------------------------------

    def _stored(self, batch: Batch) -> Rows | None:
        """Return the first row of each key, but of keys that were seen in earlier rows.

        None where the groups need values.
        """

        def plan(program: BlockProgram, select: int | None) -> _Plan | None:
            planned = planned_groups(
                program, select, self._columns, batch.schema, drop_missing=False
            )
            by_key = program.program()
            return None if planned is None else (planned, by_key, program.rows(), program.program())

        exact = not batch.bindings.are_stored(self._columns)
        opened = batch.open(self._columns, "first rows", plan, exact=exact)
        grouped = None if opened is None else opened.plan[0].bound(opened)
        if opened is None or grouped is None:
            return None
        _, by_key, register, with_rows = opened.plan
        if grouped.are_few:
            assert grouped.register is not None  # there are keys
            first = first_of_groups(
                opened.spans,
                opened.bound(by_key),
                select=grouped.select,
                group=grouped.register,
                groups=grouped.groups,
            )
            cells = np.flatnonzero(first >= 0)
            cells = cells[np.argsort(first[cells])]
            rows = first[cells]
        else:
            found = grouped.by_appearance(opened.spans, opened.bound(with_rows), register)
            if found is None:
                raise outside_of_bounds()
            cells, _, (rows,) = found
        # Kernels count from the first row of the segment.
        places: Rows = rows - (opened.spans[0].start - batch.first_place)
        if len(places) > _MOST_CHECKED:
            return places
        return places[self._are_new(key_values(grouped.keys, cells), batch.first_row + places)]

    def _are_new(self, keys: Sequence[pa.Array], rows: Rows) -> NDArray[np.bool_]:
        """Return a mask: which rows come before all seen rows of their key. These are then seen.

        Parameters
        ----------
        rows
            Their numbers in the symbol, int64.
        """
        new = np.ones(len(rows), np.bool_)
        if not all(map(_is_hashable, keys)):
            return new
        values = list(zip(*(each.to_pylist() for each in keys), strict=True))
        with self._lock:
            seen = self._rows
            for place, (value, row) in enumerate(zip(values, rows.tolist(), strict=True)):
                before = seen.get(value)
                if before is not None and before < row:
                    new[place] = False
                elif before is not None or len(seen) < _MOST_SEEN:
                    seen[value] = row
        return new


def _is_hashable(values: pa.Array) -> bool:
    """Return whether Python compares values of a type as Arrow does, and makes them quickly."""
    kind = values.type
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def distinct_rows(table: pa.Table, keys: Sequence[str], keep: Keep) -> Rows:
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


def partly_distinct_rows(table: pa.Table, keys: Sequence[str], keep: Keep) -> Rows:
    """Return which rows of a part are kept, ascending, int64.

    Where none of several is kept, two of them say in other parts that there are several.
    """
    if keep != "none":
        return distinct_rows(table, keys, keep)
    found = group_codes([table.column(name) for name in keys], drop_missing=False)
    rest = np.ones(len(found.codes), np.bool_)
    rest[found.first_row] = False
    later = np.flatnonzero(rest)
    _, at = np.unique(found.codes[later], return_index=True)
    return np.sort(np.concatenate([found.first_row, later[at]]))


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
