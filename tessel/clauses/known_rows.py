"""known_rows: literal rows in the plan (SQL's VALUES), behind the rows that are read.

The planner adds it: partial states of segments that statistics answer are such rows. Its class has
the name that plans as JSON and ``explain`` show.

no_rows: what a query starts with of which no row can come out; made by the planner.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Iterator
from typing import ClassVar

import pyarrow as pa

from tessel.clauses.base import ClauseInfo, IndexEffect, StreamClause, Structure
from tessel.clauses.registry import register
from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.piece import ColRange, RowRange
from tessel.errors import PlanFormatError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class KnownRows(StreamClause):
    """Appends literal rows, which are in the plan itself, to its input.

    Attributes
    ----------
    rows
        The rows as an Arrow IPC stream in base64, with the columns of the input.
    """

    name: ClassVar[str] = "known_rows"
    internal: ClassVar[bool] = True
    rows: str

    @classmethod
    def of(cls, table: pa.Table) -> KnownRows:
        """Return the clause that appends the rows of a table."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return cls(base64.b64encode(sink.getvalue()).decode())

    @property
    def table(self) -> pa.Table:
        """The rows."""
        try:
            with pa.ipc.open_stream(base64.b64decode(self.rows, validate=True)) as reader:
                return reader.read_all()
        except (ValueError, OSError, pa.ArrowException) as error:
            raise PlanFormatError(f"{self.name} holds no rows: {error}") from error

    structure = ClauseInfo(Structure.ALL, reduced=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema of the input, which the literal rows must have."""
        if self.table.schema != input_schema.arrow:
            raise PlanFormatError(f"{self.name} holds other columns than those that come in")
        return input_schema

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Give the units that come in, and then one of the literal rows."""
        ordinals = itertools.count()
        for unit in units:
            next(ordinals)
            yield unit
        table = self.table
        piece = Piece(table, RowRange(0, 0), ColRange(0, table.num_columns))
        yield ProcessingUnit(next(ordinals), schema, [piece])

    def describe(self) -> str:
        """Return the name, and how many rows there are."""
        return f"{self.name}({self.table.num_rows})"


@register
@dataclass(frozen=True)
class NoRows(StreamClause):
    """No rows of a schema, whatever comes in, of which nothing is read."""

    name: ClassVar[str] = "no_rows"
    internal: ClassVar[bool] = True
    schema: TableSchema
    reason: str = ""

    @property
    def structure(self) -> ClauseInfo:
        """Everything in, row slices out; no column is read."""
        return ClauseInfo(
            Structure.ALL,
            columns=frozenset(),
            adds=frozenset(self.schema.names),
            index=IndexEffect.REPLACE,
            reduced=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the columns that come out."""
        return self.schema

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Give nothing, and take nothing: what stands before does not run."""
        yield from ()

    def describe(self) -> str:
        """Return the name, and what keeps nothing."""
        return f"{self.name}({self.reason})"
