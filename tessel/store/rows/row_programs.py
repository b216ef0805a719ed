"""Row programs: expressions as steps that kernels run on rows where they lie.

A pipeline enters here once for its schema. What has no step that gives the very answer of the
values domain (texts that are ordered, casts, big-endian structs, integers of 64 bits beside floats
of a column) is refused with None, and computed on columns. Integers that may pass 64 bits end a
program while it runs; then the columns say whether they do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.expression import ExpressionContext
from tessel.expression.checking import NodeType, node_types
from tessel.expression.kernels.membership import members
from tessel.expression.kernels.values import literal_value
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression
from tessel.expression.operators.arithmetic import Add, Divide, Multiply, Negative, Subtract
from tessel.expression.operators.boolean import And, Not, Or, Xor
from tessel.expression.operators.comparison import (
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
from tessel.kernels import RowOp, RowProgram, field_load
from tessel.store.rows.schema import FieldLayout, RowSchema

__all__ = ["RowCompiler"]

_MOST_STEPS = 128
"""More steps cost more than kernels on whole columns."""
_MOST_MEMBERS = 32
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1

_FLIPPED: dict[type[Comparison], type[Comparison]] = {
    Less: Greater,
    LessEqual: GreaterEqual,
    Greater: Less,
    GreaterEqual: LessEqual,
    Equal: Equal,
    NotEqual: NotEqual,
}
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
_INTEGERS, _FLOATS, _TRUTHS = 0, 1, 2


@dataclass(frozen=True, slots=True)
class _Value:
    """A register: its kind, its number, the type of its values; ``shifted`` by 2**63."""

    kind: int
    register: int
    type: pa.DataType
    shifted: bool = False


@dataclass(frozen=True, slots=True)
class _Text:
    """A field of text or bytes, which can be compared and is no number."""

    field: FieldLayout


_Known = _Value | _Text | Literal | None


class RowCompiler:
    """Makes one program of a condition and the columns that are computed of what is kept.

    Parameters
    ----------
    schema
        Of the rows.
    """

    def __init__(self, schema: RowSchema) -> None:
        self._schema = schema
        self._table = TableSchema(schema.arrow)
        self._steps: list[tuple[int, ...]] = []
        self._made: dict[tuple[int, ...], int] = {}
        self._registers = [0, 0, 0]
        self._constants: list[float] = []
        self._texts: list[bytes] = []
        self._conditions = 0
        self._truth = -1
        self._outputs: list[_Value] = []

    # --- questions --------------------------------------------------------------------------------

    def keep(self, condition: ExpressionContext) -> bool:
        """Keep the rows where a condition is true; False where it has to be left to columns."""
        found = self._compiled(condition)
        if found is None or found.kind != _TRUTHS:
            return False
        self._truth = found.register
        self._conditions = len(self._steps)
        return True

    def output(self, expression: ExpressionContext) -> bool:
        """Compute an expression for the rows that are kept; False where it is left to columns."""
        before = len(self._steps), dict(self._made)
        found = self._compiled(expression)
        if found is None:
            del self._steps[before[0] :]
            self._made = before[1]
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
        starts = np.cumsum([0, *map(len, self._texts)])
        return RowProgram(
            np.array(self._steps, np.int64).reshape(-1, 6),
            self._conditions,
            self._truth,
            np.array(self._constants, np.float64),
            np.frombuffer(b"".join(self._texts), np.uint8),
            starts.astype(np.int64),
            np.array([(v.kind, v.register) for v in self._outputs], np.int64).reshape(-1, 2),
            np.array(self._registers, np.int64),
        )

    # --- nodes ------------------------------------------------------------------------------------

    def _compiled(self, context: ExpressionContext) -> _Value | None:
        """Compile every node, operands first; what cannot be is None, and so is what needs it."""
        types = node_types(context, self._table)
        found: dict[str, _Known] = {}
        for name in context.order:
            node = context.expression(name)
            operands = [found[child] for child in context.children(name)]
            found[name] = self._node(node, types[name], operands)
            if len(self._steps) > _MOST_STEPS:
                return None
        root = found[context.root]
        if isinstance(root, Literal):
            return self._literal(root, types[context.root].result)
        return root if isinstance(root, _Value) else None

    def _node(self, node: Expression, kind: NodeType, operands: list[_Known]) -> _Known:
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
            zero = _Value(_INTEGERS, self._step(RowOp.INTEGER, _INTEGERS, 0), kind.result)
            return self._integers(RowOp.SUBTRACT, kind.result, [zero, operands[0]])
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, kind, operands)
        return None

    def _field(self, field: FieldLayout) -> _Known:
        if self._schema.byte_order != "little":
            return None
        if field.is_variable:
            return _Text(field)
        kind, getter = field.type.arrow, field.type.getter
        null = self._null_place(field)
        a, b, c = field_load(field.offset, field.size, self._schema.fixed_size)
        if getter == "bool":
            register = self._step(RowOp.TRUTH, _TRUTHS, field.offset, 0, 0, null)
            return _Value(_TRUTHS, register, kind)
        if getter in ("f32", "f64"):
            op = RowOp.DOUBLE if getter == "f64" else RowOp.SINGLE
            return _Value(_FLOATS, self._step(op, _FLOATS, a, b, c, null), kind)
        if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
            return None
        if kind == pa.uint64():
            register = self._step(RowOp.ORDERED, _INTEGERS, a, b, c, null)
            return _Value(_INTEGERS, register, kind, shifted=True)
        op = RowOp.UNSIGNED if pa.types.is_unsigned_integer(kind) else RowOp.SIGNED
        return _Value(_INTEGERS, self._step(op, _INTEGERS, a, b, c, null), kind)

    def _null_place(self, field: FieldLayout) -> int:
        if not self._schema.null_bitmap_size:
            return -1
        return self._schema.null_bitmap_offset * 8 + field.null_bit

    def _literal(self, literal: Literal, target: pa.DataType) -> _Value | None:
        """Return a literal in a register of its own."""
        if literal.is_missing_value:
            return None
        if pa.types.is_boolean(target):
            register = self._step(RowOp.FIXED_TRUTH, _TRUTHS, int(literal.value))
            return _Value(_TRUTHS, register, target)
        if pa.types.is_floating(target):
            number = literal_value(literal, target).as_py()
            if number != number:
                return None
            self._constants.append(number)
            register = self._step(RowOp.FLOAT, _FLOATS, len(self._constants) - 1)
            return _Value(_FLOATS, register, target)
        if pa.types.is_integer(target) and _LEAST <= literal.value <= _GREATEST:
            number = literal_value(literal, target).as_py()
            return _Value(_INTEGERS, self._step(RowOp.INTEGER, _INTEGERS, number), target)
        return None

    # --- truth ------------------------------------------------------------------------------------

    def _boolean(self, node: Expression, kind: NodeType, operands: list[_Known]) -> _Value | None:
        truths = []
        for operand in operands:
            value = self._literal(operand, pa.bool_()) if isinstance(operand, Literal) else operand
            if not isinstance(value, _Value) or value.kind != _TRUTHS:
                return None
            truths.append(value.register)
        if isinstance(node, Not):
            return self._truth_of(RowOp.NOT, truths[0])
        op = RowOp.AND if isinstance(node, And) else RowOp.OR if isinstance(node, Or) else RowOp.XOR
        joined = truths[0]
        for truth in truths[1:]:
            joined = self._step(op, _TRUTHS, joined, truth)
        return _Value(_TRUTHS, joined, kind.result)

    def _truth_of(self, op: int, a: int, b: int = 0, c: int = 0, d: int = 0) -> _Value:
        return _Value(_TRUTHS, self._step(op, _TRUTHS, a, b, c, d), pa.bool_())

    def _missing(self, operand: _Known) -> _Value | None:
        if isinstance(operand, _Text):
            present = self._step(RowOp.PRESENT, _TRUTHS, 0, 0, 0, self._null_place(operand.field))
            return self._truth_of(RowOp.NOT, present)
        if not isinstance(operand, _Value):
            return None
        ops = RowOp.INTEGER_MISSING, RowOp.FLOAT_MISSING, RowOp.TRUTH_MISSING
        return self._truth_of(ops[operand.kind], operand.register)

    def _member(self, node: IsIn, operand: _Known) -> _Value | None:
        if not 0 < len(node.values.values) <= _MOST_MEMBERS:
            return None
        if isinstance(operand, _Text):
            found, unknown = members(node.values, operand.field.type.arrow)
            equal = [self._text_equal(operand.field, each.as_py()) for each in found]
        elif isinstance(operand, _Value) and operand.kind == _INTEGERS:
            found, unknown = members(node.values, operand.type)
            whole = pa.int64() if found.type.bit_width == 64 else pa.int32()
            held = found if pa.types.is_integer(found.type) else found.view(whole)
            equal = [self._in_range(operand, (each, each)) for each in held.to_pylist()]
        elif isinstance(operand, _Value) and operand.kind == _FLOATS:
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
            joined = self._step(RowOp.OR, _TRUTHS, joined, each.register)
        if unknown:
            return self._truth_of(RowOp.TRUE_OR_UNKNOWN, joined)
        return _Value(_TRUTHS, joined, pa.bool_())

    def _text_equal(self, field: FieldLayout, text: str | bytes) -> _Value:
        data = text.encode() if isinstance(text, str) else text
        if data not in self._texts:
            self._texts.append(data)
        number = self._texts.index(data)
        return self._truth_of(RowOp.TEXT_EQUAL, field.offset, 0, number, self._null_place(field))

    # --- comparison -------------------------------------------------------------------------------

    def _comparison(
        self, node: Comparison, kind: NodeType, operands: list[_Known]
    ) -> _Value | None:
        assert kind.signature is not None
        left, right = operands
        inputs = kind.signature.inputs
        asked: type[Comparison] = type(node)
        fitted = [operand.literal for operand in kind.operands]
        if fitted[0] is not None:
            left, right, inputs = right, left, (inputs[1], inputs[0])
            fitted, asked = [fitted[1], fitted[0]], _FLIPPED[asked]
        if fitted[0] is not None or isinstance(left, Literal | None):
            return None
        negated = asked is NotEqual
        asked = Equal if negated else asked
        if fitted[1] is not None:
            found = self._with_literal(asked, left, fitted[1], inputs)
        elif isinstance(left, _Value) and isinstance(right, _Value):
            found = self._with_value(asked, left, right, inputs)
        else:
            return None
        return self._truth_of(RowOp.NOT, found.register) if found and negated else found

    def _with_literal(
        self,
        asked: type[Comparison],
        left: _Value | _Text,
        literal: Literal,
        inputs: tuple[pa.DataType, ...],
    ) -> _Value | None:
        if literal.is_missing_value:
            return None
        if isinstance(left, _Text):
            if asked is not Equal or not isinstance(literal.value, str | bytes):
                return None
            return self._text_equal(left.field, literal.value)
        if left.kind == _TRUTHS:
            if asked is not Equal or not isinstance(literal.value, bool):
                return None
            return left if literal.value else self._truth_of(RowOp.NOT, left.register)
        if pa.types.is_float64(inputs[0]) or pa.types.is_float32(inputs[0]):
            if not pa.types.is_floating(inputs[1]):
                return None
            bound = literal_value(literal, inputs[1]).as_py()
            return self._float_comparison(asked, self._as_float(left), self._constant(bound))
        bound = _bound(literal, left.type, inputs)
        return None if bound is None else self._in_range(left, _whole_range(asked, bound))

    def _with_value(
        self,
        asked: type[Comparison],
        left: _Value,
        right: _Value,
        inputs: tuple[pa.DataType, ...],
    ) -> _Value | None:
        if inputs[0] != inputs[1] or _TRUTHS in (left.kind, right.kind):
            return None
        if pa.types.is_floating(inputs[0]):
            if left.shifted or right.shifted:
                return None
            return self._float_comparison(asked, self._as_float(left), self._as_float(right))
        if left.kind != _INTEGERS or right.kind != _INTEGERS or left.shifted != right.shifted:
            return None
        if not all(_compared_as_kept(each.type, inputs[0]) for each in (left, right)):
            return None
        one, two = left.register, right.register
        if asked in (Greater, GreaterEqual):
            one, two, asked = two, one, _FLIPPED[asked]
        return self._truth_of(_COMPARISONS[asked][0], one, two)

    def _float_comparison(
        self, asked: type[Comparison], one: int | None, two: int | None
    ) -> _Value | None:
        if one is None or two is None:
            return None
        if asked in (Greater, GreaterEqual):
            one, two, asked = two, one, _FLIPPED[asked]
        return self._truth_of(_COMPARISONS[asked][1], one, two)

    def _in_range(self, value: _Value, bounds: tuple[int | None, int | None]) -> _Value:
        """Ask whether integers lie between two bounds, both included; None for no bound."""
        by = -_LEAST if value.shifted else 0
        low = _LEAST if bounds[0] is None else bounds[0] - by
        high = _GREATEST if bounds[1] is None else bounds[1] - by
        if low > _GREATEST or high < _LEAST:
            low, high = 1, 0
        low, high = max(low, _LEAST), min(high, _GREATEST)
        return self._truth_of(RowOp.RANGE, value.register, low, high)

    # --- arithmetic -------------------------------------------------------------------------------

    def _arithmetic(
        self, node: Expression, kind: NodeType, operands: list[_Known]
    ) -> _Value | None:
        assert kind.signature is not None
        inputs = kind.signature.inputs
        integer_op, float_op = _ARITHMETIC[type(node)]
        values: list[_Known] = [
            value if operand.literal is None else self._literal(operand.literal, target)
            for value, operand, target in zip(operands, kind.operands, inputs, strict=True)
        ]
        if pa.types.is_float64(kind.result) and set(inputs) == {pa.float64()}:
            one, two = (self._as_float(value) for value in values)
            if one is None or two is None:
                return None
            return _Value(_FLOATS, self._step(float_op, _FLOATS, one, two), kind.result)
        if integer_op is None or not pa.types.is_signed_integer(kind.result):
            return None
        return self._integers(integer_op, kind.result, values)

    def _integers(self, op: int, result: pa.DataType, values: list[_Known]) -> _Value | None:
        registers = [
            value.register
            for value in values
            if isinstance(value, _Value)
            and value.kind == _INTEGERS
            and not value.shifted
            and pa.types.is_integer(value.type)
        ]
        if len(registers) != len(values) or result == pa.uint64():
            return None
        return _Value(_INTEGERS, self._step(op, _INTEGERS, *registers), result)

    def _as_float(self, value: _Known) -> int | None:
        if not isinstance(value, _Value) or value.kind == _TRUTHS or value.shifted:
            return None
        if value.kind == _FLOATS:
            return value.register
        if not pa.types.is_integer(value.type):
            return None
        return self._step(RowOp.TO_FLOAT, _FLOATS, value.register)

    # --- registers --------------------------------------------------------------------------------

    def _constant(self, number: float) -> int | None:
        if number != number:
            return None
        self._constants.append(number)
        return self._step(RowOp.FLOAT, _FLOATS, len(self._constants) - 1)

    def _step(self, op: int, kind: int, a: int, b: int = 0, c: int = 0, d: int = 0) -> int:
        """Add a step, or find the one that does the same; return its register."""
        key = op, a, b, c, d
        if key not in self._made:
            register = self._registers[kind]
            self._registers[kind] += 1
            self._steps.append((op, register, a, b, c, d))
            self._made[key] = register
        return self._made[key]


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


def _whole_range(asked: type[Comparison], bound: Any) -> tuple[int | None, int | None]:
    """Return which integers compare so with a number, both ends included; None for no end."""
    if isinstance(bound, float) and math.isinf(bound):
        below = asked in (Less, LessEqual)
        return (None, None) if below == (bound > 0) and asked is not Equal else (1, 0)
    exact = Fraction(bound)
    floor, ceiling = math.floor(exact), math.ceil(exact)
    if asked is Less:
        return None, ceiling - 1
    if asked is LessEqual:
        return None, floor
    if asked is Greater:
        return floor + 1, None
    if asked is GreaterEqual:
        return ceiling, None
    return (floor, floor) if floor == ceiling else (1, 0)
