"""Where text stays as the store keeps it: in front of clauses that take dictionaries.

:class:`LeaveCodes` says it of columns; the rules here say which columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from tessel.clauses.aggregation import PartialAggregation
from tessel.clauses.base import Clause, drops_rows
from tessel.clauses.filter import Filter
from tessel.clauses.leave_codes import LeaveCodes
from tessel.clauses.select import Select
from tessel.expression.schema import TableSchema
from tessel.pipeline.plan import Plan, SourcePlan, continued


def codes_of(names: Iterable[str], schema: TableSchema) -> tuple[LeaveCodes, ...]:
    """Return the clause that leaves the columns among ``names`` that are text as codes, if any."""
    texts = tuple(dict.fromkeys(name for name in names if _is_text(schema.type_of(name))))
    return (LeaveCodes(texts),) if texts else ()


def codes_taken(clauses: Sequence[Clause], schema: TableSchema) -> frozenset[str]:
    """Return the text columns that the first aggregation takes as codes.

    None where something before it does more than choose rows and columns.
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
