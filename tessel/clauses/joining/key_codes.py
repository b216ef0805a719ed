"""Text keys as the store keeps them: a dictionary of the values, and for each row its place there.

A join looks a value up once a dictionary, not once a row, and makes text of no row that finds
nothing. :func:`with_key_codes` puts the step that asks for codes at the end of what a symbol's
units go through before they are joined.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tessel.clauses.base import Clause, ClauseInfo, Structure, drops_rows
from tessel.clauses.plan import Plan, SourcePlan, Stage
from tessel.clauses.registry import register
from tessel.clauses.running.bound_unit import is_bound
from tessel.clauses.select import Select
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema

__all__ = ["KeyCodes", "with_key_codes"]


@register
@dataclass(frozen=True)
class KeyCodes(Clause):
    """Keep columns, and leave text among them as it was read: dictionaries where these are stored.

    Attributes
    ----------
    columns
        What is kept, in this order.
    keys
        Those that may come out as dictionaries of their type, for a join that stands behind.
    """

    name: ClassVar[str] = "key_codes"
    internal: ClassVar[bool] = True
    leaves_codes: ClassVar[bool] = True
    columns: tuple[str, ...]
    keys: tuple[str, ...]

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
        """Return the schema of these columns."""
        return input_schema.select(self.columns)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Keep the columns."""
        coded = unit.as_codes(frozenset(self.keys)) if is_bound(unit) else unit
        return coded.select(self.columns)


def with_key_codes(plan: Plan, keys: Sequence[str]) -> Plan:
    """Return a plan whose units may have dictionaries for those of its keys that are text.

    The plan as it is, where text is not handed on as it was read: of one symbol nothing but rows
    must have been chosen, and columns.
    """
    if len(plan.inputs) != 1 or not isinstance(plan.inputs[0], SourcePlan) or len(plan.stages) > 1:
        return plan
    (stage,) = plan.stages
    choosing = list(itertools.takewhile(drops_rows, stage.clauses))
    rest = stage.clauses[len(choosing) :]
    texts = tuple(dict.fromkeys(name for name in keys if _is_text(plan.schema.type_of(name))))
    if not texts or plan.question is not None or any(type(each) is not Select for each in rest):
        return plan
    schemas = (*stage.schemas[: len(choosing) + 1], plan.schema)
    clauses = (*choosing, KeyCodes(tuple(plan.schema.names), texts))
    return Plan(plan.inputs, (Stage(clauses, schemas),), plan.schema, plan.changes)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
