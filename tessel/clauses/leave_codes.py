"""Text as the store keeps it: a dictionary of the values, and for each row its place there.

A join looks a value up once a dictionary, not once a row, and makes text of no row that finds
nothing; a sort copies codes, and makes text of rows once they are in order. The planner puts
:class:`LeaveCodes` at the end of what a symbol's units go through before they come to such a
clause.
"""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.base import Clause, ClauseInfo
from tessel.clauses.registry import register
from tessel.clauses.units.bound_unit import is_bound
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class LeaveCodes(Clause):
    """Leave text columns as they were read: dictionaries where these are stored.

    Attributes
    ----------
    columns
        Those that may come out as dictionaries of their type, for a clause that stands behind.
    """

    name: ClassVar[str] = "leave_codes"
    internal: ClassVar[bool] = True
    columns: tuple[str, ...]

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(columns=frozenset(self.columns), keeps_count=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema of the input."""
        input_schema.require(self.columns)
        return input_schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Let columns that are not read yet be read as codes."""
        return unit.as_codes(frozenset(self.columns)) if is_bound(unit) else unit
