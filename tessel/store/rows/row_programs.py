"""Row programs: expressions as steps that kernels run on rows where they lie.

A pipeline enters here once for its schema. What has no step that gives the very answer of the
values domain (texts that are ordered, casts, big-endian structs, integers of 64 bits beside floats
of a column) is refused with None, and computed on columns. Integers that may pass 64 bits end a
program while it runs; then the columns say whether they do.
"""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa

from tessel.expression.checking import NodeType, node_types
from tessel.expression.context import ExpressionContext
from tessel.expression.kernels.membership import members
from tessel.expression.kernels.values import literal_value
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression
from tessel.expression.operators.arithmetic import Add, Divide, Multiply, Negative, Subtract
from tessel.expression.operators.boolean import And, Not, Or, Xor
from tessel.expression.operators.comparison import (
    FLIPPED,
    Comparison,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    NotEqual,
)
from tessel.expression.operators.membership import IsIn, IsMissing
from tessel.expression.schema import TableSchema
from tessel.expression.types import UNIT_NANOSECONDS
from tessel.kernels.row_program import RowOp, RowProgram
from tessel.store.rows.row_registers import (
    FLOATS,
    INTEGERS,
    TRUTHS,
    Known,
    RowRegisters,
    Text,
    Value,
    whole_range,
)
from tessel.store.rows.schema import RowSchema

__all__ = ["RowCompiler"]

_MOST_STEPS = 128
"""More steps cost more than kernels on whole columns."""
_MOST_MEMBERS = 32

_COMPARISONS: dict[type[Comparison], tuple[int, int]] = {
    Less: (RowOp.LESS, RowOp.FLOAT_LESS),
    LessEqual: (RowOp.LESS_EQUAL, RowOp.FLOAT_LESS_EQUAL),
    Equal: (RowOp.EQUAL, RowOp.FLOAT_EQUAL),
}
_ARITHMETIC: dict[type[Expression], tuple[int | None, int]] = {
    Add: (RowOp.ADD, RowOp.FLOAT_ADD),
    Subtract: (RowOp.SUBTRACT, RowOp.FLOAT_SUBTRACT),
    Multiply: (RowOp.MULTIPLY, RowOp.FLOAT_MULTIPLY),
    Divide: (None, RowOp.FLOAT_DIVIDE),
}


class RowCompiler(RowRegisters):
    """Makes one program of a condition and the columns that are computed of what is kept.

    Parameters
    ----------
    schema
        Of the rows.
    """

    def __init__(self, schema: RowSchema) -> None:
        super().__init__(schema)
        self._table = TableSchema(schema.arrow)
        self._conditions = 0
        self._truth = -1
        self._outputs: list[Value] = []

    # --- questions --------------------------------------------------------------------------------

    def keep(self, condition: ExpressionContext) -> bool:
        """Keep the rows where a condition is true; False where it has to be left to columns."""
        found = self._compiled(condition)
        if found is None or found.kind != TRUTHS:
            return False
        self._truth = found.register
        self._conditions = len(self._steps)
        return True

    def output(self, expression: ExpressionContext) -> bool:
        """Compute an expression for the rows that are kept; False where it is left to columns."""
        before = len(self._steps), dict(self._made), list(self._registers)
        found = self._compiled(expression)
        if found is None:
            del self._steps[before[0] :]
            self._made, self._registers = before[1:]
            return False
        self._outputs.append(found)
        return True

    @property
    def keeps(self) -> bool:
        """Whether there is a condition."""
        return self._truth >= 0

    @property
    def shifted(self) -> list[bool]:
        """Whether each output is off by 2**63."""
        return [value.shifted for value in self._outputs]

    def program(self) -> RowProgram:
        """Return the program for all that was asked."""
        return self._program(self._conditions, self._truth, self._outputs)

    # --- nodes ------------------------------------------------------------------------------------

    def _compiled(self, context: ExpressionContext) -> Value | None:
        """Compile every node, operands first; what cannot be is None, and so is what needs it."""
        types = node_types(context, self._table)
        found: dict[str, Known] = {}
        for name in context.order:
            node = context.expression(name)
            operands = [found[child] for child in context.children(name)]
            found[name] = self._node(node, types[name], operands)
            if len(self._steps) > _MOST_STEPS:
                return None
        root = found[context.root]
        if isinstance(root, Literal):
            return self._literal(root, types[context.root].result)
        return root if isinstance(root, Value) else None

    def _node(self, node: Expression, kind: NodeType, operands: list[Known]) -> Known:
        if isinstance(node, Column):
            return self._field(self._schema.field(node.column))
        if isinstance(node, Literal):
            return node
        if isinstance(node, Comparison):
            return self._comparison(node, kind, operands)
        if isinstance(node, And | Or | Xor | Not):
            return self._boolean(node, kind, operands)
        if isinstance(node, IsMissing):
            return self._missing(operands[0])
        if isinstance(node, IsIn):
            return self._member(node, operands[0])
        if isinstance(node, Negative) and pa.types.is_integer(kind.result):
            zero = Value(INTEGERS, self._step(RowOp.INTEGER, INTEGERS, 0), kind.result)
            return self._integers(RowOp.SUBTRACT, kind.result, [zero, operands[0]])
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, kind, operands)
        return None

    # --- truth ------------------------------------------------------------------------------------

    def _boolean(self, node: Expression, kind: NodeType, operands: list[Known]) -> Value | None:
        truths = []
        for operand in operands:
            value = self._literal(operand, pa.bool_()) if isinstance(operand, Literal) else operand
            if not isinstance(value, Value) or value.kind != TRUTHS:
                return None
            truths.append(value.register)
        if isinstance(node, Not):
            return self._truth_of(RowOp.NOT, truths[0])
        op = RowOp.AND if isinstance(node, And) else RowOp.OR if isinstance(node, Or) else RowOp.XOR
        joined = truths[0]
        for truth in truths[1:]:
            joined = self._step(op, TRUTHS, joined, truth)
        return Value(TRUTHS, joined, kind.result)

    def _missing(self, operand: Known) -> Value | None:
        if isinstance(operand, Text):
            present = self._step(RowOp.PRESENT, TRUTHS, 0, 0, 0, self._null_place(operand.field))
            return self._truth_of(RowOp.NOT, present)
        if not isinstance(operand, Value):
            return None
        ops = RowOp.INTEGER_MISSING, RowOp.FLOAT_MISSING, RowOp.TRUTH_MISSING
        return self._truth_of(ops[operand.kind], operand.register)

    def _member(self, node: IsIn, operand: Known) -> Value | None:
        if not 0 < len(node.values) <= _MOST_MEMBERS:
            return None
        if isinstance(operand, Text):
            found, unknown = members(node.values, operand.field.type.arrow)
            equal = [self._text_equal(operand.field, each.as_py()) for each in found]
        elif isinstance(operand, Value) and operand.kind == INTEGERS:
            found, unknown = members(node.values, operand.type)
            whole = pa.int64() if found.type.bit_width == 64 else pa.int32()
            held = found if pa.types.is_integer(found.type) else found.view(whole)
            equal = [self._in_range(operand, (each, each)) for each in held.to_pylist()]
        elif isinstance(operand, Value) and operand.kind == FLOATS:
            found, unknown = members(node.values, operand.type)
            constants = [self._constant(each) for each in found.to_pylist()]
            equal = [
                self._truth_of(RowOp.FLOAT_EQUAL, operand.register, each)
                for each in constants
                if each is not None
            ]
        else:
            return None
        if not equal:
            return None
        joined = equal[0].register
        for each in equal[1:]:
            joined = self._step(RowOp.OR, TRUTHS, joined, each.register)
        if unknown:
            return self._truth_of(RowOp.TRUE_OR_UNKNOWN, joined)
        return Value(TRUTHS, joined, pa.bool_())

    # --- comparison -------------------------------------------------------------------------------

    def _comparison(self, node: Comparison, kind: NodeType, operands: list[Known]) -> Value | None:
        assert kind.signature is not None
        left, right = operands
        inputs = kind.signature.inputs
        asked: type[Comparison] = type(node)
        fitted = [operand.literal for operand in kind.operands]
        if fitted[0] is not None:
            left, right, inputs = right, left, (inputs[1], inputs[0])
            fitted, asked = [fitted[1], fitted[0]], FLIPPED[asked]
        if fitted[0] is not None or isinstance(left, Literal | None):
            return None
        negated = asked is NotEqual
        asked = Equal if negated else asked
        if fitted[1] is not None:
            found = self._with_literal(asked, left, fitted[1], inputs)
        elif isinstance(left, Value) and isinstance(right, Value):
            found = self._with_value(asked, left, right, inputs)
        else:
            return None
        return self._truth_of(RowOp.NOT, found.register) if found and negated else found

    def _with_literal(
        self,
        asked: type[Comparison],
        left: Value | Text,
        literal: Literal,
        inputs: tuple[pa.DataType, ...],
    ) -> Value | None:
        if literal.is_missing_value:
            return None
        if isinstance(left, Text):
            if asked is not Equal or not isinstance(literal.value, str | bytes):
                return None
            return self._text_equal(left.field, literal.value)
        if left.kind == TRUTHS:
            if asked is not Equal or not isinstance(literal.value, bool):
                return None
            return left if literal.value else self._truth_of(RowOp.NOT, left.register)
        if pa.types.is_float64(inputs[0]) or pa.types.is_float32(inputs[0]):
            if not pa.types.is_floating(inputs[1]):
                return None
            bound = literal_value(literal, inputs[1]).as_py()
            return self._float_comparison(asked, self._as_float(left), self._constant(bound))
        bound = _bound(literal, left.type, inputs)
        return None if bound is None else self._in_range(left, whole_range(asked, bound))

    def _with_value(
        self,
        asked: type[Comparison],
        left: Value,
        right: Value,
        inputs: tuple[pa.DataType, ...],
    ) -> Value | None:
        if inputs[0] != inputs[1] or TRUTHS in (left.kind, right.kind):
            return None
        if pa.types.is_floating(inputs[0]):
            if left.shifted or right.shifted:
                return None
            return self._float_comparison(asked, self._as_float(left), self._as_float(right))
        if left.kind != INTEGERS or right.kind != INTEGERS or left.shifted != right.shifted:
            return None
        if not all(_compared_as_kept(each.type, inputs[0]) for each in (left, right)):
            return None
        one, two = left.register, right.register
        if asked in (Greater, GreaterEqual):
            one, two, asked = two, one, FLIPPED[asked]
        return self._truth_of(_COMPARISONS[asked][0], one, two)

    def _float_comparison(
        self, asked: type[Comparison], one: int | None, two: int | None
    ) -> Value | None:
        if one is None or two is None:
            return None
        if asked in (Greater, GreaterEqual):
            one, two, asked = two, one, FLIPPED[asked]
        return self._truth_of(_COMPARISONS[asked][1], one, two)

    # --- arithmetic -------------------------------------------------------------------------------

    def _arithmetic(self, node: Expression, kind: NodeType, operands: list[Known]) -> Value | None:
        assert kind.signature is not None
        inputs = kind.signature.inputs
        integer_op, float_op = _ARITHMETIC[type(node)]
        values: list[Known] = [
            value if operand.literal is None else self._literal(operand.literal, target)
            for value, operand, target in zip(operands, kind.operands, inputs, strict=True)
        ]
        if pa.types.is_float64(kind.result) and set(inputs) == {pa.float64()}:
            one, two = (self._as_float(value) for value in values)
            if one is None or two is None:
                return None
            return Value(FLOATS, self._step(float_op, FLOATS, one, two), kind.result)
        if integer_op is None or not pa.types.is_signed_integer(kind.result):
            return None
        return self._integers(integer_op, kind.result, values)

    def _integers(self, op: int, result: pa.DataType, values: list[Known]) -> Value | None:
        registers = [
            value.register
            for value in values
            if isinstance(value, Value)
            and value.kind == INTEGERS
            and not value.shifted
            and pa.types.is_integer(value.type)
        ]
        if len(registers) != len(values) or result == pa.uint64():
            return None
        return Value(INTEGERS, self._step(op, INTEGERS, *registers), result)

    def _as_float(self, value: Known) -> int | None:
        if not isinstance(value, Value) or value.kind == TRUTHS or value.shifted:
            return None
        if value.kind == FLOATS:
            return value.register
        if not pa.types.is_integer(value.type):
            return None
        return self._step(RowOp.TO_FLOAT, FLOATS, value.register)


def _compared_as_kept(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a type are compared as the integers that they are."""
    if kind == wanted or (pa.types.is_integer(kind) and pa.types.is_integer(wanted)):
        return True
    both_instants = pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted)
    return bool(both_instants and kind.unit == wanted.unit)


def _bound(
    literal: Literal, kind: pa.DataType, inputs: tuple[pa.DataType, ...]
) -> int | float | Fraction | None:
    """Return a literal in the units of what it is compared with; None where there is no number."""
    if pa.types.is_integer(kind):
        value = literal.value
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if not _compared_as_kept(kind, inputs[0]):
        return None
    scalar = literal_value(literal, inputs[1])
    if pa.types.is_date(kind):
        return int(scalar.value) if scalar.type == kind else None
    own = getattr(kind, "unit", None)
    other = getattr(scalar.type, "unit", None)
    if own is None or other is None:
        return None
    return Fraction(scalar.value * UNIT_NANOSECONDS[other], UNIT_NANOSECONDS[own])
