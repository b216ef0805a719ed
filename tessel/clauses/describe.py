"""describe: one row of figures for each column; value_counts: how often each value occurs.

Short words: the planner writes the first as an aggregation of everything, whose one row is turned,
the other as a groupby, a sort and a division.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.registry import find_aggregate
from tessel.clauses.aggregation import Aggregation
from tessel.clauses.base import (
    Clause,
    ClauseInfo,
    IndexEffect,
    ShortClause,
    StreamClause,
    Structure,
)
from tessel.clauses.partition import Partition
from tessel.clauses.registry import register
from tessel.clauses.results import NamedAggregate
from tessel.clauses.sort import Sort
from tessel.clauses.spill.spill_buffer import BufferedUnit
from tessel.clauses.spill.workspace import workspace_of
from tessel.clauses.values import NUMBERS, is_hashable, is_text_or_binary, plain_type
from tessel.ecs import ProcessingUnit
from tessel.errors import PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

_FIGURES: tuple[tuple[str, pa.DataType], ...] = (
    ("column", pa.string()),
    ("type", pa.string()),
    ("count", pa.int64()),
    ("missing", pa.int64()),
    ("mean", pa.float64()),
    ("std", pa.float64()),
    ("min", pa.string()),
    ("p25", pa.float64()),
    ("median", pa.float64()),
    ("p75", pa.float64()),
    ("max", pa.string()),
)
_QUANTILES = {"p25": 0.25, "median": 0.5, "p75": 0.75}
_ROWS = "rows"


@register
@dataclass(frozen=True)
class Describe(ShortClause):
    """One row for each column: its type, how many values it has, and figures about them.

    Attributes
    ----------
    quantiles
        Whether quartiles and the median are among the figures: they need all values, the others
        only sums.

    Notes
    -----
    The columns of the answer are ``column``, ``type``, ``count`` (values), ``missing`` (null or
    NaN), ``mean``, ``std`` (of a sample), ``min``, ``p25``, ``median``, ``p75`` and ``max``. Means,
    deviations and quantiles are float64, and missing for what is no number; ``min`` and ``max`` are
    text, so that one column holds those of all types and none loses digits.
    """

    name: ClassVar[str] = "describe"
    quantiles: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.quantiles, bool):
            raise PlanError(f"describe: quantiles is true or false, not {self.quantiles!r}")

    structure = ClauseInfo(Structure.ALL, keeps_order=False, index=IndexEffect.DROP)

    def lower(self, schema: TableSchema) -> tuple[Clause, ...]:
        """Return the clauses that the word is short for, on a table of a schema."""
        figures = [NamedAggregate(_ROWS, None, find_aggregate("size"))]
        for at, field in enumerate(schema.arrow):
            for figure, how in self._wanted(plain_type(field.type)).items():
                figures.append(NamedAggregate(_output(at, figure), field.name, how))
        turn = TurnFigures(schema)
        return (Partition(()), Aggregation((), tuple(figures)), turn)

    def _wanted(self, kind: pa.DataType) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if not is_hashable(kind):
            return found
        found["count"] = find_aggregate("count")
        if not pa.types.is_null(kind) and not (
            is_text_or_binary(kind) and not pa.types.is_string(kind)
        ):
            found |= {"min": find_aggregate("min"), "max": find_aggregate("max")}
        if not pa.types.is_null(kind) and (kind.id in NUMBERS or pa.types.is_decimal128(kind)):
            found |= {"mean": find_aggregate("mean"), "std": find_aggregate("std")}
            if self.quantiles:
                found |= {name: find_aggregate("quantile", q=q) for name, q in _QUANTILES.items()}
        return found


@register
@dataclass(frozen=True)
class TurnFigures(Clause):
    """Turn one row of figures about all columns into one row for each column."""

    name: ClassVar[str] = "turn_figures"
    internal: ClassVar[bool] = True
    source: TableSchema

    structure = ClauseInfo(Structure.ALL, keeps_order=False, index=IndexEffect.DROP, reduced=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns of figures."""
        return TableSchema(pa.schema(list(_FIGURES)))

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Put the figures in their rows."""
        held = unit.table
        (rows,) = held.column(_ROWS).to_pylist()
        outputs = dict(zip(held.column_names, held.columns, strict=True))
        columns: dict[str, list[Any]] = {name: [] for name, _ in _FIGURES}
        for at, field in enumerate(self.source.arrow):
            figures: dict[str, Any] = {"column": field.name, "type": str(field.type)}
            for name, kind in _FIGURES[2:]:
                output = _output(at, name)
                if output in outputs:
                    figures[name] = outputs[output].cast(kind)[0].as_py()
            if "count" in figures:
                figures["missing"] = rows - figures["count"]
            for name, values in columns.items():
                values.append(figures.get(name))
        schema = self.output_schema(unit.schema).arrow
        arrays = [arrow_array(columns[field.name], field.type) for field in schema]
        return unit.replace(pa.table(arrays, schema=schema))


def _output(at: int, figure: str) -> str:
    return f"{at}\0{figure}"


@register
@dataclass(frozen=True)
class ValueCounts(ShortClause):
    """One row for each value of a column, or of several together, and how often it occurs.

    Attributes
    ----------
    columns
        What is counted.
    sort
        Whether the most frequent come first, values of one frequency in their order; otherwise in
        order of first appearance.
    normalise
        Whether the count is given as a part of all rows counted, float64.
    drop_missing
        Whether rows that miss a value are left out; otherwise missing is a value like others.
    output
        Name of the column of counts; None is ``count``, and ``proportion`` of parts.
    """

    name: ClassVar[str] = "value_counts"
    columns: tuple[str, ...]
    sort: bool = True
    normalise: bool = False
    drop_missing: bool = True
    output: str | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise PlanError("value_counts needs a column", hint='value_counts("venue")')
        self.lower(TableSchema(pa.schema([])))  # what the clauses refuse is refused here

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out."""
        return ClauseInfo(
            Structure.ALL,
            columns=frozenset(self.columns),
            adds=frozenset([self._output]),
            keeps_order=False,
            index=IndexEffect.DROP,
        )

    @property
    def _output(self) -> str:
        return self.output or ("proportion" if self.normalise else "count")

    def lower(self, schema: TableSchema) -> tuple[Clause, ...]:
        """Return the clauses that the word is short for, whatever the table is."""
        counted = NamedAggregate(self._output, None, find_aggregate("size"))
        clauses: list[Clause] = [
            Partition(self.columns, self.drop_missing),
            Aggregation(self.columns, (counted,), self.sort),
        ]
        if self.sort:
            clauses.append(Sort((self._output,), (True,)))
        if self.normalise:
            clauses.append(Shares(self._output))
        return tuple(clauses)


@register
@dataclass(frozen=True)
class Shares(StreamClause):
    """A column of counts as parts of their sum."""

    name: ClassVar[str] = "shares"
    internal: ClassVar[bool] = True
    column: str

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out, every row once."""
        return ClauseInfo(
            Structure.ALL,
            columns=frozenset([self.column]),
            adds=frozenset([self.column]),
            keeps_count=True,
            reduced=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with float64 for the counts."""
        input_schema.require([self.column])
        return input_schema.with_column(self.column, pa.float64())

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Add up the counts of everything within the byte budget, then divide by the sum."""
        with workspace_of(units) as workspace, workspace.spill_buffer() as buffer:
            aside: list[BufferedUnit] = []
            total = 0
            for unit in units:
                total += int(numpy_array(unit.column(self.column)).sum())
                aside.append(BufferedUnit(unit, buffer))
            for each in aside:
                unit = each.unit()
                # Both are whole numbers below 2**53, so that the quotient is rounded once.
                shares = numpy_array(unit.column(self.column)) / np.float64(max(1, total))
                yield unit.with_column(self.column, arrow_array(shares))
