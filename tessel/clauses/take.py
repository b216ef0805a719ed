"""take: rows by their positions, in the order given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables
from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.positional import check_count
from tessel.clauses.registry import register
from tessel.clauses.units.reduced import unit_of_table
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Take(Clause):
    """Keep the rows at some positions, in their order; one may come more than once.

    Attributes
    ----------
    rows
        Positions from 0 on; negative ones count from the end.
    before
        How many rows were cut off before, for errors.
    """

    name: ClassVar[str] = "take"
    rows: tuple[int, ...]
    before: int = 0

    def __post_init__(self) -> None:
        for row in self.rows:
            check_count(self.name, row)

    @property
    def structure(self) -> ClauseInfo:
        """Everything in order in, row slices out; only ascending positions keep the index."""
        ascends = all(a <= b for a, b in zip(self.rows, self.rows[1:], strict=False))
        ascends = ascends and len({row < 0 for row in self.rows}) < 2
        return ClauseInfo(
            Structure.ALL,
            columns=frozenset(),
            keeps_order=ascends,
            positional=True,
            index=IndexEffect.KEEP if ascends else IndexEffect.DROP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns; rows out of order have no time index."""
        kept = self.structure.index is IndexEffect.KEEP
        return input_schema if kept else TableSchema(input_schema.arrow)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Take the rows of a unit that holds everything."""
        return next(iter(self.consume([unit], unit.schema)))

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Keep the rows of each unit that may be asked for; order them when all are known."""
        found, numbers, total = [schema.empty()], [np.zeros(0, np.int64)], 0
        from_start = np.array([row for row in self.rows if row >= 0], np.int64)
        from_end = -min(self.rows, default=0)
        for unit in units:
            here = np.arange(total, total + unit.num_rows)
            total += unit.num_rows
            if from_end > 0:  # any row may be among the last: those that no longer can go
                found, numbers = _last(found, numbers, from_start, total, from_end)
                wanted = np.arange(unit.num_rows)
            else:
                wanted = np.flatnonzero(np.isin(here, from_start))
            if len(wanted):
                found.append(unit.take(wanted).table)
                numbers.append(here[wanted])
        asked = np.array([row + total if row < 0 else row for row in self.rows], np.int64)
        for row, position in zip(self.rows, asked.tolist(), strict=True):
            if not 0 <= position < total:
                raise PlanError(
                    f"take: there is no row {row + self.before if row >= 0 else row}",
                    hint="the query has "
                    + (f"{total + self.before:,}" if total else f"at most {self.before:,}")
                    + " rows here",
                    row=row + self.before,
                )
        table = concat_tables(found)
        places = np.searchsorted(np.concatenate(numbers), asked)
        index = self.output_schema(schema).index
        yield unit_of_table(0, 0, table.take(arrow_array(places)), index)


def _last(
    found: list[pa.Table],
    numbers: list[np.ndarray],
    from_start: np.ndarray,
    total: int,
    from_end: int,
) -> tuple[list[pa.Table], list[np.ndarray]]:
    """Return the rows held, less those that neither end asks for any more."""
    tables, kept = found[:1], numbers[:1]
    for table, here in zip(found[1:], numbers[1:], strict=True):
        wanted = (here >= total - from_end) | np.isin(here, from_start)
        if wanted.any():
            tables.append(table.filter(arrow_array(wanted)))
            kept.append(here[wanted])
    return tables, kept
