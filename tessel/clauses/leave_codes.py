"""Text as the store keeps it: a dictionary of the values, and for each row its place there.

A join looks a value up once a dictionary, not once a row, and makes text of no row that finds
nothing; a sort copies codes, and makes text of rows once they are in order. The planner puts
:class:`LeaveCodes` at the end of what a symbol's units go through before they come to such a
clause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import pyarrow as pa

from tessel.clauses.aggregation import PartialAggregation
from tessel.clauses.base import Clause, ClauseInfo, Structure, drops_rows
from tessel.clauses.filter import Filter
from tessel.clauses.plan import Plan, SourcePlan, continued
from tessel.clauses.registry import register
from tessel.clauses.running.bound_unit import is_bound
from tessel.clauses.select import Select
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

__all__ = ["LeaveCodes", "codes_of", "codes_taken", "with_key_codes"]


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
        return ClauseInfo(
            Structure.ROW_SLICE,
            Structure.ROW_SLICE,
            columns=frozenset(self.columns),
            keeps_count=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema of the input."""
        input_schema.require(self.columns)
        return input_schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Let columns that are not read yet be read as codes."""
        return unit.as_codes(frozenset(self.columns)) if is_bound(unit) else unit


def codes_of(names: Iterable[str], schema: TableSchema) -> tuple[LeaveCodes, ...]:
    """Return the clause that leaves the columns among ``names`` that are text as codes, if any."""
    texts = tuple(dict.fromkeys(name for name in names if _is_text(schema.type_of(name))))
    return (LeaveCodes(texts),) if texts else ()


def codes_taken(clauses: Sequence[Clause], schema: TableSchema) -> frozenset[str]:
    """Return the text columns that the first aggregation takes as codes.

    None where something before it does more than choose rows and columns.

    Parameters
    ----------
    clauses
        What runs on rows of the schema.
    schema
        The columns.
    """
    for clause in clauses:
        if type(clause) is PartialAggregation:
            return frozenset(key for key in clause.coded_keys if _is_text(schema.type_of(key)))
        if type(clause) not in (Select, Filter):
            break
    return frozenset()


def with_key_codes(plan: Plan, keys: Sequence[str]) -> Plan:
    """Return a plan whose units may have dictionaries for those of its keys that are text.

    The plan as it is, where text is not handed on as it was read: of one symbol nothing but rows
    must have been chosen, and columns.
    """
    if len(plan.inputs) != 1 or not isinstance(plan.inputs[0], SourcePlan) or len(plan.stages) > 1:
        return plan
    clauses = plan.stages[0].clauses
    if plan.question is not None or not all(drops_rows(c) or type(c) is Select for c in clauses):
        return plan
    return continued(plan, codes_of(keys, plan.schema))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
