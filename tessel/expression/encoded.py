"""The encoded domain: an expression on the integers that are stored, block by block.

What reads segments enters here with columns whose pages are integers, and gets a
:class:`~tessel.kernels.Program` for what it asks. A threshold on decimals is translated into the
integers that they are kept as; a predicate on a dictionary is computed on its entries once, by the
values domain, and looked up by code. Where values are missing, a register says in which rows there
are some, and truths are three-valued: of a predicate, the rows where it is true and those where it
is false are computed apart, each only where it is asked for. What cannot be shown to give the very
answer of the values domain (integers that might overflow, an operator without a step) is refused
with None: nothing is ever approximated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.errors import TesselError
from tessel.expression.block_columns import BlockColumns, Number, Scaled, Stored
from tessel.expression.checking import NodeType, node_types
from tessel.expression.context import ExpressionContext
from tessel.expression.evaluate import evaluate
from tessel.expression.kernels.values import literal_value
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression
from tessel.expression.operators.arithmetic import Add, Multiply, Subtract
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
from tessel.expression.operators.conditional import Coalesce
from tessel.expression.operators.membership import IsMissing
from tessel.expression.protocols import ArithmeticColumn
from tessel.expression.schema import TableSchema
from tessel.expression.stored_ranges import EXACT, GREATEST, LEAST, integer_range, scaled_range
from tessel.kernels import DecimalBounds, Op

__all__ = ["BlockProgram", "Number"]

_NO_OVERFLOW = 1 << 62
_MOST_ENTRIES = 1 << 16
_SLACK = 1 + 2.0**-50
_MOST_STEPS = 256
"""More steps a block cost more than kernels on whole columns."""
_LARGEST_FLOAT = 2.0**1000
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_ARITHMETIC: dict[type[Expression], tuple[int, int]] = {
    Add: (Op.ADD, Op.INTEGER_ADD),
    Subtract: (Op.SUBTRACT, Op.INTEGER_SUBTRACT),
    Multiply: (Op.MULTIPLY, Op.INTEGER_MULTIPLY),
}


@dataclass(frozen=True, slots=True)
class _Truth:
    """The truth registers of where a condition is true, and false; None where nobody asked."""

    true: int | None
    false: int | None = None


_Value = Number | Stored | _Truth | Literal | None
_Wanted = frozenset[bool]
_TRUE: _Wanted = frozenset([True])


class BlockProgram(BlockColumns):
    """Makes one program for several questions about the same rows.

    Parameters
    ----------
    columns
        The columns at hand, by name, in the order of their number.
    schema
        Names and types that expressions see; the columns at hand are among them.
    pages
        How many pages each column has.
    """

    def __init__(
        self, columns: Mapping[str, ArithmeticColumn], schema: TableSchema, pages: int
    ) -> None:
        super().__init__(columns, pages)
        self._schema = schema
        self._looked_up: dict[tuple[str, bytes], npt.NDArray[np.int8]] = {}

    # --- questions --------------------------------------------------------------------------------

    def truth(self, predicate: Expression) -> int | None:
        """Return the truth register of the rows where a predicate is true; None where it is left.

        What is left has to be computed on values.
        """
        found = self._compiled(predicate)
        return found.true if isinstance(found, _Truth) else None

    def define(self, name: str, expression: Expression) -> bool:
        """Let later questions see an expression as a column; False where it has to be left."""
        found = self._compiled(expression)
        if not isinstance(found, Number | Stored):
            return False
        kind = expression.result_type(self._schema)
        self._values[name] = found
        self._schema = self._schema.with_column(name, kind)
        return True

    # --- nodes ------------------------------------------------------------------------------------

    def _compiled(self, expression: Expression) -> _Value:
        """Compile every node, operands first; what cannot be is None, and so is what needs it."""
        context = ExpressionContext.of(expression)
        types = node_types(context, self._schema)
        whole = not any(self._has_missing(self._values.get(name)) for name in expression.columns())
        wanted = None if whole else _wanted_truths(context)
        found: dict[str, _Value] = {}
        for name in context.order:
            node = context.expression(name)
            operands = [found[child] for child in context.children(name)]
            asked = _TRUE if wanted is None else wanted[name]
            found[name] = self._node(node, types[name], operands, asked, whole)
            if len(self._steps) > _MOST_STEPS:
                return None
        return found[context.root]

    def _node(
        self,
        node: Expression,
        kind: NodeType,
        operands: list[_Value],
        wanted: _Wanted,
        whole: bool,
    ) -> _Value:
        if isinstance(node, Column):
            value = self._values.get(node.column)
            if isinstance(value, Stored) and pa.types.is_boolean(value.column.type):
                return self._flag(value, wanted)
            return value
        if isinstance(node, Literal):
            return node
        if pa.types.is_boolean(kind.result):
            looked_up = self._on_dictionary(node, wanted, whole)
            if looked_up is not None:
                return looked_up
        if isinstance(node, And | Or | Xor | Not):
            return self._boolean(node, operands, wanted, whole)
        if isinstance(node, Comparison):
            return self._comparison(node, kind, operands, wanted)
        if isinstance(node, IsMissing):
            asked = node.operand
            held = self._values.get(asked.column) if isinstance(asked, Column) else operands[0]
            return self._is_missing(held, wanted)
        if isinstance(node, Coalesce):
            return self._first_known(kind, operands)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, kind, operands)
        return None

    # --- truths -----------------------------------------------------------------------------------

    def _flag(self, stored: Stored, wanted: _Wanted) -> _Truth:
        """Return where a column of truths is true, and false."""
        known = self._known(stored)
        sides = {
            side: self.both(self._column_range(stored.name, (int(side), int(side))), known)
            for side in wanted
        }
        return _Truth(sides.get(True), sides.get(False))

    def _on_dictionary(self, node: Expression, wanted: _Wanted, whole: bool) -> _Truth | None:
        """Compute a predicate on the entries of the one dictionary that it reads."""
        names = node.columns()
        if len(names) != 1:
            return None
        (name,) = names
        value = self._values.get(name)
        if not isinstance(value, Stored) or value.column.dictionary is None:
            return None
        entries = value.column.dictionary
        kind = self._schema.type_of(name)
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not 0 < len(entries) <= _MOST_ENTRIES or entries.type != kind:
            return None
        answers = self._answers(node, name, entries)
        if answers is None or (whole and (answers[:-1] < 0).any()):
            return None
        sides = {side: self._looked_up_side(value, answers, side) for side in wanted}
        return _Truth(sides.get(True), sides.get(False))

    def _answers(
        self, node: Expression, name: str, entries: pa.Array
    ) -> npt.NDArray[np.int8] | None:
        """Return what a predicate is for each entry, and then for null: 1, 0, or −1 if missing."""
        key = name, node.digest
        if key not in self._looked_up:
            asked = pa.concat_arrays([entries, pa.nulls(1, entries.type)])
            try:
                answers = evaluate(node, pa.table({name: asked}))
            except TesselError:
                return None  # maybe of an entry that no row has
            if not pa.types.is_boolean(answers.type):
                return None
            numbers = pc.fill_null(answers.cast(pa.int8()), -1)
            self._looked_up[key] = np.array(numbers.to_numpy(zero_copy_only=False), np.int8)
        return self._looked_up[key]

    def _looked_up_side(self, stored: Stored, answers: npt.NDArray[np.int8], side: bool) -> int:
        table = (answers[:-1] == side).astype(np.uint8)
        true = np.flatnonzero(table)
        if len(true) == 0 or true[-1] - true[0] + 1 == len(true):
            # One run of codes, as one text is: a range, which takes no look-up a row.
            pair = (int(true[0]), int(true[-1])) if len(true) else (1, 0)
            found = self._steps.column_range(self._names.index(stored.name), pair)
        else:
            found = self._steps.table(self._integers(stored.name), table)
        known = self._known(stored)
        if known is None:
            return found
        if answers[-1] == side:  # also where there is no value
            return self._steps.step(Op.OR, found, self._steps.step(Op.NOT, known))
        return self._steps.step(Op.AND, found, known)

    def _boolean(
        self, node: Expression, operands: list[_Value], wanted: _Wanted, whole: bool
    ) -> _Truth | None:
        truths = [operand for operand in operands if isinstance(operand, _Truth)]
        if len(truths) != len(operands) or not truths:
            return None
        steps = self._steps
        if whole:
            held = [truth.true for truth in truths]
            if isinstance(node, Not):
                return _Truth(steps.step(Op.NOT, _there(held[0])))
            op = Op.AND if isinstance(node, And) else Op.OR if isinstance(node, Or) else Op.XOR
            return _Truth(steps.joined(op, [_there(each) for each in held]))
        if isinstance(node, Not):
            return _Truth(truths[0].false, truths[0].true)
        sides: dict[bool, int] = {}
        for side in wanted:
            if isinstance(node, Xor):
                sides[side] = self._exclusive(truths, side)
                continue
            own = [_there(truth.true if side else truth.false) for truth in truths]
            # Kleene: an "and" is false where one of its operands is, an "or" where all are.
            sides[side] = steps.joined(Op.AND if isinstance(node, And) == side else Op.OR, own)
        return _Truth(sides.get(True), sides.get(False))

    def _exclusive(self, truths: list[_Truth], side: bool) -> int:
        """Return where an odd number of truths is true, or an even one, and all are known."""
        steps = self._steps
        odd, even = _there(truths[0].true), _there(truths[0].false)
        for truth in truths[1:]:
            true, false = _there(truth.true), _there(truth.false)
            mixed = steps.step(Op.AND, odd, false), steps.step(Op.AND, even, true)
            alike = steps.step(Op.AND, odd, true), steps.step(Op.AND, even, false)
            odd, even = steps.step(Op.OR, *mixed), steps.step(Op.OR, *alike)
        return odd if side else even

    def _is_missing(self, operand: _Value, wanted: _Wanted) -> _Truth | None:
        if isinstance(operand, Stored):
            if operand.column.dictionary is not None:
                return None  # an entry may be missing too
        elif not isinstance(operand, Number):
            return None
        known = self._known(operand)
        sides: dict[bool, int] = {}
        for side in wanted:
            if known is None:
                sides[side] = self._steps.always(not side)
            else:
                sides[side] = self._steps.step(Op.NOT, known) if side else known
        return _Truth(sides.get(True), sides.get(False))

    # --- comparison -------------------------------------------------------------------------------

    def _comparison(
        self, node: Comparison, kind: NodeType, operands: list[_Value], wanted: _Wanted
    ) -> _Truth | None:
        assert kind.signature is not None
        ratio = _finer_unit(kind) if _changes_unit(kind) else 1
        if ratio is None:
            return None
        left, right = operands
        inputs = kind.signature.inputs
        asked: type[Comparison] = type(node)
        fitted = [operand.literal for operand in kind.operands]
        if fitted[0] is not None:
            left, right, inputs = right, left, (inputs[1], inputs[0])
            fitted, asked = [fitted[1], fitted[0]], FLIPPED[asked]
        if fitted[0] is not None or not isinstance(left, Number | Stored):
            return None
        negated = asked is NotEqual
        if fitted[1] is not None:
            compared = Equal if negated else asked
            found = self._with_literal(compared, left, inputs, fitted[1], ratio)
        elif isinstance(right, Number | Stored):
            found = self._with_number(Equal if negated else asked, left, right, inputs)
        else:
            return None
        if found is None:
            return None
        known = self.both(self._known(left), self._known(right))
        sides: dict[bool, int | None] = {}
        for side in wanted:
            own = found if side != negated else self._steps.step(Op.NOT, found)
            sides[side] = self.both(own, known)
        return _Truth(sides.get(True), sides.get(False))

    def _with_literal(
        self,
        asked: type[Comparison],
        left: Number | Stored,
        inputs: tuple[pa.DataType, ...],
        literal: Literal,
        ratio: int,
    ) -> int | None:
        """Compare with a literal, which counts ``ratio`` units in one of the column."""
        bound = _plain_bound(literal, inputs[1])
        if bound is None:
            return None
        if isinstance(left, Stored) and pa.types.is_decimal(left.column.type):
            return self._with_decimal(asked, left, inputs[0], bound)
        if isinstance(left, Stored) and left.column.dictionary is not None:
            loaded = self._loaded(left)
            if loaded is None:
                return None
            left = loaded
        is_float = pa.types.is_floating(inputs[0])
        if isinstance(left, Stored) and left.column.exponents is not None:
            exponents = left.column.exponents.tolist()
            if min(exponents) >= 0:
                held = {e: scaled_range(asked, bound, e) for e in set(exponents)}
                return self._column_range(left.name, [held[e] for e in exponents])
        number = self._bounded(left) if isinstance(left, Stored) else left
        if number is None:
            return None
        if not number.is_float:
            if is_float and max(abs(number.low), abs(number.high)) > EXACT:
                return None
            if not LEAST <= number.low * ratio <= number.high * ratio <= GREATEST:
                return None  # a value may have too many of the other unit, and says so
            pair = integer_range(asked, bound if ratio == 1 else Fraction(bound, ratio))
            if isinstance(left, Stored):
                return self._column_range(left.name, pair)
            return self._steps.range(number.register, pair)
        if not math.isfinite(bound) or Fraction(bound) != Fraction(float(bound)):
            return None
        if isinstance(left, Stored):
            number = self._loaded(left)
            assert number is not None  # it has bounds
        return self._float_comparison(asked, number.register, self._steps.constant(float(bound)))

    def _with_decimal(
        self, asked: type[Comparison], left: Stored, compared: pa.DataType, bound: Any
    ) -> int | None:
        """Compare decimals, kept as integers, with a number that they are compared with exactly."""
        kind = left.column.type
        if not pa.types.is_decimal(compared):
            return None
        if compared.precision - compared.scale < kind.precision - kind.scale:
            return None  # a value may not fit, and says so
        scaled = Fraction(bound) * Fraction(10) ** left.column.places
        return self._column_range(left.name, integer_range(asked, scaled))

    def _with_number(
        self,
        asked: type[Comparison],
        left: Number | Stored,
        right: Number | Stored,
        inputs: tuple[pa.DataType, ...],
    ) -> int | None:
        one, two = self._value(left), self._value(right)
        if one is None or two is None or inputs[0] != inputs[1]:
            return None
        if pa.types.is_float32(inputs[0]) and not (one.is_float and two.is_float):
            return None  # an integer may be no single
        if one.is_float or two.is_float:
            registers = [self._float(number, limit=EXACT) for number in (one, two)]
            if None in registers:
                return None
            return self._float_comparison(asked, *registers)  # type: ignore[arg-type]
        difference = _interval(Op.SUBTRACT, one, two)
        if not -_NO_OVERFLOW <= difference[0] <= difference[1] <= _NO_OVERFLOW:
            return None
        register = self._steps.step(Op.INTEGER_SUBTRACT, one.register, two.register)
        return self._steps.range(register, integer_range(asked, 0))

    def _float_comparison(self, asked: type[Comparison], one: int, two: int) -> int:
        if asked in (Greater, GreaterEqual):
            one, two, asked = two, one, FLIPPED[asked]
        op = {Less: Op.LESS, LessEqual: Op.LESS_EQUAL, Equal: Op.EQUAL}[asked]
        return self._steps.step(op, one, two)

    # --- arithmetic -------------------------------------------------------------------------------

    def _arithmetic(
        self, node: Expression, kind: NodeType, operands: list[_Value]
    ) -> Number | None:
        assert kind.signature is not None
        float_op, integer_op = _ARITHMETIC[type(node)]
        numbers: list[Number] = []
        for value, operand, target in zip(
            operands, kind.operands, kind.signature.inputs, strict=True
        ):
            number = self._operand(value, operand.literal, target)
            if number is None:
                return None
            numbers.append(number)
        one, two = numbers
        known = self.both(one.known, two.known)
        low, high = _interval(float_op, one, two)
        if pa.types.is_float64(kind.result):
            registers = [self._float(number) for number in numbers]
            low, high = float(low), float(high)
            low, high = min(low * _SLACK, low / _SLACK), max(high * _SLACK, high / _SLACK)
            if None in registers or not max(abs(low), abs(high)) < _LARGEST_FLOAT:
                return None
            register = self._steps.step(float_op, *registers)  # type: ignore[arg-type]
            scaled = self._scaled_result(float_op, integer_op, operands)
            return Number(True, register, low, high, known, scaled)
        if one.is_float or two.is_float or not pa.types.is_integer(kind.result):
            return None
        if not -_NO_OVERFLOW <= low <= high <= _NO_OVERFLOW:
            return None
        if low < 0 and pa.types.is_unsigned_integer(kind.result):
            return None  # a row below zero has no result: its values say so
        register = self._steps.step(integer_op, one.register, two.register)
        return Number(False, register, low, high, known)

    def _scaled_result(self, float_op: int, op: int, operands: list[_Value]) -> Scaled | None:
        """Return the integers that the result stands for, where its operands are decimals."""
        one, two = (self._scaled_operand(operand) for operand in operands)
        if one is None or two is None or max(one.bounds.largest, two.bounds.largest) > EXACT:
            return None
        bounds: DecimalBounds | None
        if float_op == Op.MULTIPLY:
            bounds = one.bounds.times(two.bounds)
        elif float_op == Op.ADD:
            bounds = one.bounds.plus(two.bounds)
        else:
            bounds = one.bounds.minus(two.bounds)
        if bounds is None or bounds.largest > EXACT:
            return None
        return Scaled(bounds, op=op, operands=(one, two))

    def _scaled_operand(self, operand: _Value) -> Scaled | None:
        if isinstance(operand, Stored):
            return self._scaled(operand)
        if isinstance(operand, Number):
            if operand.is_float:
                return operand.scaled
            bounds = DecimalBounds.of_integers(operand.low, operand.high)
            return Scaled(bounds, register=operand.register)
        if not isinstance(operand, Literal) or not isinstance(operand.value, int | float):
            return None
        value = operand.value
        if isinstance(value, bool) or not abs(value) <= EXACT or value != int(value):
            return None
        return Scaled(DecimalBounds.of_integers(int(value), int(value)), constant=int(value))

    def _first_known(self, kind: NodeType, operands: list[_Value]) -> Number | None:
        """Compile coalesce: the first of some numbers that has a value."""
        assert kind.signature is not None
        is_float = pa.types.is_float64(kind.result)
        if not (is_float or pa.types.is_integer(kind.result) or _is_counted(kind.result)):
            return None
        if _changes_unit(kind):
            return None
        found: Number | None = None
        for value, operand, target in zip(
            operands, kind.operands, kind.signature.inputs, strict=True
        ):
            if found is not None and found.known is None:
                break
            number = self._operand(value, operand.literal, target)
            if number is None:
                return None
            if is_float:
                register = self._float(number, limit=EXACT)
                if register is None:
                    return None
                low, high = float(number.low), float(number.high)
                number = Number(True, register, low, high, number.known)
            elif number.is_float:
                return None
            found = number if found is None else self._either(found, number)
        return found

    def _either(self, one: Number, other: Number) -> Number:
        """Return a number where it has a value, else another of the same form."""
        assert one.known is not None
        op = Op.CHOOSE_OTHER_FLOAT if one.is_float else Op.CHOOSE_OTHER
        known = None
        if other.known is not None:
            known = self._steps.step(Op.OR, one.known, other.known)
        register = self._steps.step(op, one.register, one.known, other.register)
        low, high = min(one.low, other.low), max(one.high, other.high)
        return Number(one.is_float, register, low, high, known)

    def _operand(
        self, value: _Value, literal: Literal | None, target: pa.DataType
    ) -> Number | None:
        if literal is not None:
            bound = _plain_bound(literal, target)
            if bound is None or not math.isfinite(bound):
                return None
            if isinstance(bound, float):
                return Number(True, self._steps.constant(bound), bound, bound)
            if not LEAST <= bound <= GREATEST:
                return None
            return Number(False, self._steps.step(Op.INTEGER, c=bound), bound, bound)
        return self._value(value)

    def _value(self, value: _Value) -> Number | None:
        """Return numbers that are the values; None for others, decimals among them."""
        if isinstance(value, Stored):
            return None if pa.types.is_decimal(value.column.type) else self._loaded(value)
        return value if isinstance(value, Number) else None


def _wanted_truths(context: ExpressionContext) -> dict[str, _Wanted]:
    """Return of each node whether it is asked where it is true, or where it is false."""
    wanted: dict[str, _Wanted] = dict.fromkeys(context.order, frozenset())
    wanted[context.root] = _TRUE
    for name in reversed(context.order):
        node, own = context.expression(name), wanted[name]
        if isinstance(node, Xor):
            own = frozenset([True, False])
        elif isinstance(node, Not):
            own = frozenset(not side for side in own)
        elif not isinstance(node, And | Or):
            continue
        for child in context.children(name):
            wanted[child] |= own
    return wanted


def _there(register: int | None) -> int:
    assert register is not None  # it was asked for
    return register


def _changes_unit(kind: NodeType) -> bool:
    """Return whether times of one unit meet those of another, or are changed into it.

    What is stored counts in the unit of the column.
    """
    assert kind.signature is not None
    own = [operand.type for operand in kind.operands if operand.literal is None]
    met = {*own, *kind.signature.inputs}
    return len(met) > 1 and any(map(_is_counted, met))


def _finer_unit(kind: NodeType) -> int | None:
    """Return how many units of a literal's type are one of the column that is compared with it.

    None where that is no whole number, and where no column is compared with a literal.
    """
    assert kind.signature is not None
    pairs = list(zip(kind.operands, kind.signature.inputs, strict=True))
    own = [operand.type for operand, _ in pairs if operand.literal is None]
    others = [met for operand, met in pairs if operand.literal is not None]
    types = pa.types
    if len(own) != 1 or len(others) != 1:
        return None
    (column,), (met,) = own, others
    alike = types.is_timestamp(column) and types.is_timestamp(met)
    if not alike and not (types.is_duration(column) and types.is_duration(met)):
        return None
    ratio, left = divmod(_PER_SECOND[met.unit], _PER_SECOND[column.unit])
    return ratio if ratio and not left else None


def _is_counted(kind: pa.DataType) -> bool:
    """Return whether values of a type are integers of a unit."""
    types = pa.types
    is_counted = types.is_timestamp(kind) or types.is_duration(kind) or types.is_date32(kind)
    return bool(is_counted or types.is_time(kind))


def _plain_bound(literal: Literal, target: pa.DataType) -> Any:
    """Return the number that a literal is compared as; None for what has none, or is missing."""
    if literal.is_missing_value:
        return None
    if pa.types.is_integer(target) or pa.types.is_float64(target) or pa.types.is_float32(target):
        return literal_value(literal, target).as_py()
    if pa.types.is_decimal(target):
        return Fraction(literal_value(literal, target).as_py())
    if _is_counted(target):
        scalar = literal_value(literal, target)
        return scalar.value if scalar.type == target else None
    return None


def _interval(op: int, one: Number, two: Number) -> tuple[Any, Any]:
    """Return bounds of a sum, a difference or a product."""
    if op == Op.ADD:
        return one.low + two.low, one.high + two.high
    if op == Op.SUBTRACT:
        return one.low - two.high, one.high - two.low
    products = [a * b for a in (one.low, one.high) for b in (two.low, two.high)]
    return min(products), max(products)
