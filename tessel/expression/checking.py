"""Type checking: one pass over a context, operands first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from tessel.errors import ColumnNotFoundError
from tessel.expression.context import ExpressionContext
from tessel.expression.leaves import Column, Literal
from tessel.expression.schema import TableSchema
from tessel.expression.types import Operand, Signature, plain_type
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.expression.node import Expression


@dataclass(frozen=True, slots=True)
class NodeType:
    """What is known of a node for a schema.

    Attributes
    ----------
    result
        The exact type of its values; a column keeps its dictionary.
    signature
        The operator's type rule for its operands; None for a column.
    operands
        The operands as the rule saw them, literals fitted.
    """

    result: pa.DataType
    signature: Signature | None
    operands: tuple[Operand, ...]


def check_types(expression: Expression, schema: TableSchema) -> pa.DataType:
    """Return the result type of an expression for a schema; misuse raises."""
    context = ExpressionContext.of(expression)
    return node_types(context, schema)[context.root].result


_MOST_MEMOS = 8
"""Types of columns for which a context keeps those of its nodes: inputs of a query may differ."""


def node_types(context: ExpressionContext, schema: TableSchema) -> Mapping[str, NodeType]:
    """Return the type of every node of a context by its name.

    They are kept beside the context: a query asks again in each pass of the planner and for every
    unit.

    Raises ColumnNotFoundError for the first column, in written order, that the schema does not
    have; ExpressionTypeError for the first operator whose operands do not go together.
    """
    places = [schema.arrow.get_field_index(name) for name in context.columns.values()]
    if min(places, default=0) < 0:
        return _node_types(context, schema)
    key = tuple(schema.arrow.field(place).type for place in places)
    found: Mapping[str, NodeType] | None = context.type_memo.get(key)
    if found is None:
        if len(context.type_memo) >= _MOST_MEMOS:
            context.type_memo.clear()
        found = context.type_memo[key] = _node_types(context, schema)
    return found


def _node_types(context: ExpressionContext, schema: TableSchema) -> Mapping[str, NodeType]:
    found: dict[str, NodeType] = {}
    for name in context.order:
        node = context.expression(name)
        if isinstance(node, Column):
            found[name] = NodeType(_column_type(node, schema), None, ())
            continue
        operands = node.fitted(
            tuple(_operand(context, child, found) for child in context.children(name))
        )
        signature = node.signature(operands)
        found[name] = NodeType(signature.result, signature, operands)
    return found


def _column_type(node: Column, schema: TableSchema) -> pa.DataType:
    if node.source is None or node.column in schema:
        return schema.type_of(node.column)
    text, place = node.source
    start = text.rfind("\n", 0, place) + 1
    line = text[start:].split("\n", 1)[0]
    raise ColumnNotFoundError.for_name(node.column, schema.names, source=line, column=place - start)


def _operand(context: ExpressionContext, name: str, found: Mapping[str, NodeType]) -> Operand:
    node = context.expression(name)
    literal = node if isinstance(node, Literal) else None
    return Operand(plain_type(found[name].result), node, literal)
