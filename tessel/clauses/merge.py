"""merge: rows in time order, of several symbols, or of the segments of one whose times overlap."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import numpy_array
from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.combining import (
    CombinedInput,
    Combining,
    Lowered,
    PlanLimits,
    SubQuery,
    common_schema,
)
from tessel.clauses.index_values import index_of
from tessel.clauses.joining.steps import bucket_count
from tessel.clauses.registry import register
from tessel.clauses.spill.workspace import workspace_of
from tessel.clauses.units.reduced import unit_of_table, units_of_tables
from tessel.ecs import ProcessingUnit
from tessel.errors import IndexColumnError, PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.index_column import (
    check_index_type,
    checked_order,
    index_integers,
    sorted_by,
)


@register
@dataclass(frozen=True)
class Merge(Combining):
    """The rows of this query and of the others in time order.

    Attributes
    ----------
    others
        The other symbols, each ordered by time. Without any, the rows of this query are ordered,
        whose segments may overlap in time: those of a ``concat`` for instance.
    on
        The column to order by, which becomes the time index. By default the time index, which all
        then have under one name.
    join
        ``"outer"`` keeps every column, in order of first appearance; one that a symbol does not
        have is missing in its rows. ``"inner"`` keeps the columns that all have.

    Notes
    -----
    Rows of equal times keep the order of the symbols, and within a symbol their own. Columns of one
    name get the narrowest type that holds all of theirs without loss, as in ``concat``.

    Symbols are merged as they stream in: of each about one unit is held. A symbol whose column
    ``on`` goes back is refused. Without others, rows that have no time index yet are all held.
    """

    name: ClassVar[str] = "merge"
    chains: ClassVar[bool] = True
    others: tuple[SubQuery, ...] = ()
    on: str | None = None
    join: Literal["outer", "inner"] = "outer"

    def __post_init__(self) -> None:
        if self.join not in ("outer", "inner"):
            raise PlanError(f"merge: join is {self.join!r}", hint="it is outer or inner")
        if self.on is not None and not isinstance(self.on, str):
            raise PlanError(f"merge: on is the name of a column, not {self.on!r}")

    @property
    def structure(self) -> ClauseInfo:
        """Units of several symbols, or everything in, row slices out; all rows, in time order."""
        return ClauseInfo(
            Structure.MULTI_SYMBOL if self.others else Structure.ALL,
            columns=None if self.others else frozenset(() if self.on is None else (self.on,)),
            uses_index=self.on is None,
            keeps_order=False,
            keeps_count=not self.others,
        )

    def combined_schema(self, schemas: Sequence[TableSchema]) -> TableSchema:
        """Return the schema of the result from those of all inputs."""
        for schema in schemas:
            self._check_times(schema)
        index = self.on or schemas[0].index
        for schema in schemas:
            if self.on is None and schema.index != index:
                raise IndexColumnError(
                    f"merge: the time index is {index!r} in one symbol and {schema.index!r} in "
                    "another",
                    hint=f'rename one of them first: rename({{"{schema.index}": "{index}"}})',
                    index=schema.index,
                )
        columns = common_schema("merge", schemas, self.join)
        assert index is not None
        check_index_type(columns, index)
        return TableSchema(columns, index)

    def reads(
        self, columns: frozenset[str], schemas: Sequence[TableSchema]
    ) -> list[frozenset[str]]:
        """Return the columns of those names, and what the rows are ordered by."""
        indexes = [self.on or schema.index for schema in schemas]
        return [
            (columns | frozenset([index] if index else [])) & frozenset(schema.names)
            for index, schema in zip(indexes, schemas, strict=True)
        ]

    def lowered(
        self, inputs: Sequence[CombinedInput], combined: TableSchema, limits: PlanLimits
    ) -> Lowered:
        """Return what takes from all inputs in turn, or, side by side elsewhere, ranges of times.

        An input whose index is another column is first seen to be in order.
        """
        from tessel.clauses.joining.asof_steps import InOrder
        from tessel.store.index_column import OUT_OF_ORDER

        index = combined.index or ""
        before: list[tuple[Clause, ...]] = [
            () if each.schema.index == index else (InOrder(index, each.name, OUT_OF_ORDER),)
            for each in inputs
        ]
        cuts = () if limits.is_here else _cuts(inputs, combined, limits)
        if cuts:
            parted = TimePartition(combined, cuts)
            merged = MergeRange(combined, len(cuts) + 1)
            return Lowered((merged,), tuple((*first, parted) for first in before))
        return Lowered((MergeInputs(combined, tuple(each.name for each in inputs)),), tuple(before))

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with its time index; that of several symbols only a store knows."""
        if self.others:
            return super().output_schema(input_schema)
        self._check_times(input_schema)
        return TableSchema(input_schema.arrow, self.on or input_schema.index)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Order everything."""
        if self.others:
            return unit
        index = index_of(self.output_schema(unit.schema))
        if unit.schema.index == index:
            return unit
        return unit_of_table(unit.ordinal, 0, sorted_by(unit.table, index), index)

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Give the units as they come where they are in order; else order them all."""
        from tessel.clauses.ordering import Ordering
        from tessel.clauses.spill.sorting import ExternalSort

        index = index_of(self.output_schema(schema))
        if schema.index == index:
            yield from units
            return
        ordering = Ordering((index,), (False,))
        with (
            workspace_of(units) as workspace,
            ExternalSort(ordering, schema.arrow, workspace) as rows,
        ):
            row = 0
            for unit in units:
                table = unit.table
                index_integers(table.column(index), index, row)  # refuses missing values
                row += table.num_rows
                rows.add(table)
            yield from units_of_tables(rows.sorted(), index, workspace)

    def _check_times(self, schema: TableSchema) -> None:
        if self.on is not None:
            schema.require([self.on], where="what is merged")
            try:
                check_index_type(schema.arrow, self.on)
            except IndexColumnError as error:
                error.hint = (
                    f'join("other", "{self.on}") puts columns beside each other; merge puts '
                    "rows in the order of times, or of integers"
                )
                raise
        elif schema.index is None:
            raise IndexColumnError(
                "merge: what is merged has no time index",
                hint='name the column to order by: merge(…, on="column")',
            )


def _cuts(
    inputs: Sequence[CombinedInput], combined: TableSchema, limits: PlanLimits
) -> tuple[int, ...]:
    """Return times between ranges of about as many stored bytes; any are right.

    They come of what is stored under the name of the index, or else in that of the symbol.
    """
    index, times, sizes = index_of(combined), [], []
    for source in itertools.chain.from_iterable(each.sources for each in inputs):
        first, own = source.slice_first_time, index
        if own not in source.schema:
            own = source.schema.index or own
        kind = source.schema.type_of(own) if own in source.schema else None
        if kind != combined.type_of(index):
            continue
        stored = np.bincount(source.slice_number, source.bytes, source.slices)
        if own != source.schema.index or first is None:
            least = source.statistics.facts(own).minimum
            known = pc.is_valid(least)
            first = index_integers(pa.chunked_array([least.filter(known)]), own)
            stored = stored[numpy_array(known)]
        times.append(first)
        sizes.append(stored)
    if not times:
        return ()
    firsts, nbytes = np.concatenate(times), np.concatenate(sizes)
    order = np.argsort(firsts, kind="stable")
    ends = np.cumsum(nbytes[order])
    shares = np.linspace(0, ends[-1], bucket_count(inputs, limits) + 1)[1:-1]
    found = np.unique(firsts[order][np.searchsorted(ends, shares)])
    return tuple(found[found > firsts[order[0]]].tolist())


class _Merging(Clause):
    """A step over ordered rows of several symbols, in one schema, which has an index."""

    internal: ClassVar[bool] = True
    schema: TableSchema

    @property
    def index(self) -> str:
        """The name of the index."""
        return index_of(self.schema)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the common columns, in the order of their index."""
        return self.schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Order one unit that holds everything; those of one time come symbol by symbol already."""
        table = sorted_by(self.aligned(unit), self.index)
        return unit_of_table(unit.ordinal, 0, table, self.index)

    def aligned(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows of a unit in the common schema."""
        from tessel.clauses.concat import brought_to

        return brought_to(unit.table, self.schema.arrow, "merge")


@register
@dataclass(frozen=True)
class TimePartition(_Merging):
    """Split ordered rows of one of several symbols into ranges of times, in one schema.

    Attributes
    ----------
    cuts
        Where ranges begin but for the first, as integers in the unit of the index, ascending.
    """

    name: ClassVar[str] = "time_partition"
    schema: TableSchema
    cuts: tuple[int, ...]

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, buckets of times out."""
        return ClauseInfo(
            Structure.ROW_SLICE,
            Structure.HASH_BUCKETED,
            adds=frozenset(self.schema.names),
            uses_index=True,
            keeps_order=False,
            keeps_count=True,
            index=IndexEffect.DROP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the common columns without their order."""
        return TableSchema(self.schema.arrow)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Cut one unit; rows of one time stay together."""
        (table,) = checked_order([self.aligned(unit)], self.index)
        times = index_integers(table.column(self.index), self.index)
        stops = [0, *np.searchsorted(times, self.cuts).tolist(), len(times)]
        pieces = [
            piece
            for bucket, (start, stop) in enumerate(itertools.pairwise(stops))
            if start < stop
            for piece in unit.replace(table.slice(start, stop - start), bucket=bucket).pieces
        ]
        return unit.with_pieces(pieces, self.output_schema(unit.schema))

    def describe(self) -> str:
        """Return one line for people."""
        return f"{self.name}({len(self.cuts) + 1} ranges)"


@register
@dataclass(frozen=True)
class MergeRange(_Merging):
    """Bring the rows of several symbols that are in one range of times into their order."""

    name: ClassVar[str] = "merge_range"
    schema: TableSchema
    buckets: int

    @property
    def structure(self) -> ClauseInfo:
        """Buckets of times in, row slices out."""
        return ClauseInfo(
            Structure.HASH_BUCKETED,
            Structure.ROW_SLICE,
            adds=frozenset(self.schema.names),
            keeps_order=False,
            keeps_count=True,
            index=IndexEffect.REPLACE,
            apart=True,
        )

    def describe(self) -> str:
        """Return one line for people."""
        return f"{self.name}({', '.join(self.schema.names)})"


@register
@dataclass(frozen=True)
class MergeInputs(_Merging):
    """Bring units of several symbols to one schema, and their rows into time order."""

    name: ClassVar[str] = "merge_inputs"
    schema: TableSchema
    inputs: tuple[str, ...]

    @property
    def structure(self) -> ClauseInfo:
        """Units of several symbols in, row slices out."""
        return ClauseInfo(
            Structure.MULTI_SYMBOL,
            adds=frozenset(self.schema.names),
            keeps_order=False,
            keeps_count=True,
        )

    def interleave(self, inputs: Sequence[Iterator[ProcessingUnit]]) -> Iterator[ProcessingUnit]:
        """Merge ordered inputs as they stream in."""
        from tessel.store.index_column import Run, merge_ordered

        runs = [
            Run(map(self.aligned, units), f"symbol {name!r}")
            for name, units in zip(self.inputs, inputs, strict=True)
        ]
        merged = merge_ordered(runs, self.schema.arrow, self.index)
        yield from units_of_tables(merged, self.index)
