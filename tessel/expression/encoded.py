"""The encoded domain: an expression on the integers that are stored, block by block.

What reads segments enters here with columns whose pages are arithmetic, and gets a
:class:`~tessel.kernels.Program` for what it asks. A threshold on decimals is translated into the
integers that they are kept as; a predicate on a dictionary is computed on its entries once, by the
values domain, and looked up by code. What cannot be shown to give the very answer of the values
domain (missing values, integers that might overflow, an operator without a step) is refused with
None: nothing is ever approximated.
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

from tessel.errors import TesselError
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
from tessel.expression.protocols import ArithmeticColumn
from tessel.expression.schema import TableSchema
from tessel.expression.stored_ranges import EXACT, GREATEST, LEAST, integer_range, scaled_range
from tessel.kernels import Op, Program

__all__ = ["BlockProgram", "Number"]

_NO_OVERFLOW = 1 << 62
_MOST_ENTRIES = 1 << 16
_SLACK = 1 + 2.0**-50
_MOST_STEPS = 256
"""More steps a block cost more than kernels on whole columns."""
_LARGEST_FLOAT = 2.0**1000

_ARITHMETIC: dict[type[Expression], tuple[int, int]] = {
    Add: (Op.ADD, Op.INTEGER_ADD),
    Subtract: (Op.SUBTRACT, Op.INTEGER_SUBTRACT),
    Multiply: (Op.MULTIPLY, Op.INTEGER_MULTIPLY),
}


@dataclass(frozen=True, slots=True)
class Number:
    """Numbers that a program computes, one a row, none missing.

    Attributes
    ----------
    is_float
        Whether they are float64; otherwise integers.
    register
        Of floats, or of integers.
    low, high
        No number is below or above.
    """

    is_float: bool
    register: int
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class _Stored:
    """A column, of which nothing is loaded before it is known in which form it is wanted."""

    name: str
    column: ArithmeticColumn


@dataclass(frozen=True, slots=True)
class _Truth:
    register: int


_Value = Number | _Stored | _Truth | Literal | None


class BlockProgram:
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
        self._names = list(columns)
        self._schema = schema
        self._pages = pages
        self._values: dict[str, _Value] = {
            name: _Stored(name, column) for name, column in columns.items()
        }
        self._steps: list[tuple[int, int, int, int, int]] = []
        self._made: dict[tuple[Any, ...], int] = {}
        self._registers = [0, 0, 0]
        self._ranges: list[npt.NDArray[np.int64]] = []
        self._constants: list[float] = []
        self._tables: list[npt.NDArray[np.uint8]] = []
        self._table_bytes = 0

    # --- questions --------------------------------------------------------------------------------

    def truth(self, predicate: Expression) -> int | None:
        """Return the truth register of a predicate; None where it has to be left to its values."""
        found = self._compiled(predicate)
        return found.register if isinstance(found, _Truth) else None

    def both(self, one: int | None, other: int) -> int:
        """Return the truth register of what two have in common; None is true everywhere."""
        return other if one is None else self._step(Op.AND, 2, one, other)

    def define(self, name: str, expression: Expression) -> bool:
        """Let later questions see an expression as a column; False where it has to be left."""
        found = self._compiled(expression)
        if not isinstance(found, Number | _Stored):
            return False
        kind = expression.result_type(self._schema)
        self._values[name] = found
        self._schema = self._schema.with_column(name, kind)
        return True

    def number(self, name: str) -> Number | None:
        """Return the numbers of a column; None for what has none."""
        value = self._values.get(name)
        if isinstance(value, _Stored):
            return self._loaded(value)
        return value if isinstance(value, Number) else None

    def is_known(self, name: str) -> bool:
        """Return whether a column has numbers or codes, one for every row."""
        value = self._values.get(name)
        if isinstance(value, _Stored):
            return value.column.dictionary is not None or self._known(value) is not None
        return isinstance(value, Number)

    def place(self, name: str) -> int | None:
        """Return the number of a column that is stored, not computed; None for others."""
        value = self._values.get(name)
        return self._names.index(value.name) if isinstance(value, _Stored) else None

    def integers(self, name: str) -> int:
        """Return the register of what a stored column is kept as."""
        return self._integers(self._stored(name))

    def _stored(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, _Stored)  # who asks knows its place
        return value.name

    def residuals(self, name: str, up: int) -> int:
        """Return the register of what the decimals of a stored column are off, times ``2**up``."""
        place = self._names.index(self._stored(name))
        return self._step(Op.RESIDUAL, 0, self.integers(name), place, up)

    def product(self, one: Number, other: Number) -> tuple[int, int] | None:
        """Return the registers of the product as floats, and of what rounding took from it.

        None where an integer is no float. Exact where no product is below 2**-900 but for zeros.
        """
        registers = [self._float(number, limit=EXACT) for number in (one, other)]
        if registers[0] is None or registers[1] is None:
            return None
        product = self._step(Op.MULTIPLY, 1, registers[0], registers[1])
        return product, self._step(Op.PRODUCT_ERROR, 1, registers[0], registers[1], product)

    def codes(self, name: str) -> tuple[Number, pa.Array] | None:
        """Return the codes of a column and its dictionary; None for what has none."""
        value = self._values.get(name)
        if not isinstance(value, _Stored) or value.column.dictionary is None:
            return None
        entries = value.column.dictionary
        return Number(False, self._integers(value.name), 0, len(entries) - 1), entries

    def combined(self, number: Number, factor: int, other: Number) -> Number:
        """Return ``number * factor + other`` of integers that do not overflow."""
        register = self._step(Op.COMBINE, 0, number.register, other.register, factor)
        low, high = number.low * factor + other.low, number.high * factor + other.high
        return Number(False, register, low, high)

    def shifted(self, number: Number, by: int) -> Number:
        """Return integers with one number added, which do not overflow."""
        if by == 0:
            return number
        constant = self._step(Op.INTEGER, 0, 0, 0, by)
        register = self._step(Op.INTEGER_ADD, 0, number.register, constant)
        return Number(False, register, number.low + by, number.high + by)

    def mirrored(self, number: Number) -> Number:
        """Return how far integers are below the greatest there may be, which does not overflow."""
        constant = self._step(Op.INTEGER, 0, 0, 0, number.high)
        register = self._step(Op.INTEGER_SUBTRACT, 0, constant, number.register)
        return Number(False, register, 0, number.high - number.low)

    def program(self) -> Program:
        """Return the program for all that was asked so far."""
        integers, floats, truths = self._registers
        ranges = np.zeros((len(self._ranges), self._pages, 2), np.int64)
        for place, held in enumerate(self._ranges):
            ranges[place] = held
        return Program(
            np.array(self._steps, np.int64).reshape(-1, 5),
            ranges,
            np.array(self._constants, np.float64),
            np.concatenate([np.zeros(0, np.uint8), *self._tables]),
            integers,
            floats,
            truths,
        )

    # --- nodes ------------------------------------------------------------------------------------

    def _compiled(self, expression: Expression) -> _Value:
        """Compile every node, operands first; what cannot be is None, and so is what needs it."""
        context = ExpressionContext.of(expression)
        types = node_types(context, self._schema)
        found: dict[str, _Value] = {}
        for name in context.order:
            node = context.expression(name)
            operands = [found[child] for child in context.children(name)]
            found[name] = self._node(node, types[name], operands)
            if len(self._steps) > _MOST_STEPS:
                return None
        return found[context.root]

    def _node(self, node: Expression, kind: NodeType, operands: list[_Value]) -> _Value:
        if isinstance(node, Column):
            return self._values.get(node.column)
        if isinstance(node, Literal):
            return node
        if pa.types.is_boolean(kind.result):
            looked_up = self._on_dictionary(node)
            if looked_up is not None:
                return looked_up
        if isinstance(node, And | Or | Xor | Not):
            return self._boolean(node, operands)
        if isinstance(node, Comparison):
            return self._comparison(node, kind, operands)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, kind, operands)
        return None

    def _on_dictionary(self, node: Expression) -> _Truth | None:
        """Compute a predicate on the entries of the one dictionary that it reads."""
        names = node.columns()
        if len(names) != 1:
            return None
        (name,) = names
        value = self._values.get(name)
        if not isinstance(value, _Stored) or value.column.dictionary is None:
            return None
        entries = value.column.dictionary
        if not 0 < len(entries) <= _MOST_ENTRIES or entries.type != self._schema.type_of(name):
            return None
        key = "table", name, node.digest
        if key not in self._made:
            try:
                answers = evaluate(node, pa.table({name: entries}))
            except TesselError:
                return None  # maybe of an entry that no row has
            if answers.null_count or not pa.types.is_boolean(answers.type):
                return None
            table = np.asarray(answers.to_numpy(zero_copy_only=False), np.uint8)
            true = np.flatnonzero(table)
            if len(true) == 0 or true[-1] - true[0] + 1 == len(true):
                # One run of codes, as one text is: a range, which takes no look-up a row.
                pair = (int(true[0]), int(true[-1])) if len(true) else (1, 0)
                ranges = np.broadcast_to(np.array(pair, np.int64), (self._pages, 2))
                self._made[key] = self._column_range(name, ranges)
                return _Truth(self._made[key])
            start, self._table_bytes = self._table_bytes, self._table_bytes + len(table)
            self._tables.append(table)
            register = self._step(Op.TABLE, 2, self._integers(name), 0, start)
            self._made[key] = register
        return _Truth(self._made[key])

    def _boolean(self, node: Expression, operands: list[_Value]) -> _Truth | None:
        truths = [operand.register for operand in operands if isinstance(operand, _Truth)]
        if len(truths) != len(operands) or not truths:
            return None
        if isinstance(node, Not):
            return _Truth(self._step(Op.NOT, 2, truths[0]))
        op = Op.AND if isinstance(node, And) else Op.OR if isinstance(node, Or) else Op.XOR
        joined = truths[0]
        for truth in truths[1:]:
            joined = self._step(op, 2, joined, truth)
        return _Truth(joined)

    # --- comparison -------------------------------------------------------------------------------

    def _comparison(
        self, node: Comparison, kind: NodeType, operands: list[_Value]
    ) -> _Truth | None:
        assert kind.signature is not None
        left, right = operands
        inputs = kind.signature.inputs
        asked: type[Comparison] = type(node)
        fitted = [operand.literal for operand in kind.operands]
        if fitted[0] is not None:
            left, right, inputs = right, left, (inputs[1], inputs[0])
            fitted, asked = [fitted[1], fitted[0]], FLIPPED[asked]
        if fitted[0] is not None or not isinstance(left, Number | _Stored):
            return None
        negated = asked is NotEqual
        if fitted[1] is not None:
            found = self._with_literal(Equal if negated else asked, left, inputs, fitted[1])
        elif isinstance(right, Number | _Stored):
            found = self._with_number(Equal if negated else asked, left, right, inputs)
        else:
            return None
        if found is None:
            return None
        return _Truth(self._step(Op.NOT, 2, found) if negated else found)

    def _with_literal(
        self,
        asked: type[Comparison],
        left: Number | _Stored,
        inputs: tuple[pa.DataType, ...],
        literal: Literal,
    ) -> int | None:
        bound = _plain_bound(literal, inputs[1])
        if bound is None:
            return None
        if isinstance(left, _Stored) and left.column.dictionary is not None:
            return None
        is_float = pa.types.is_floating(inputs[0])
        if isinstance(left, _Stored) and left.column.exponents is not None:
            exponents = left.column.exponents.tolist()
            if min(exponents) >= 0:
                held = {e: scaled_range(asked, bound, e) for e in set(exponents)}
                ranges = np.array([held[e] for e in exponents], np.int64).reshape(-1, 2)
                return self._column_range(left.name, ranges)
        number = self._known(left) if isinstance(left, _Stored) else left
        if number is None:
            return None
        if not number.is_float:
            if is_float and max(abs(number.low), abs(number.high)) > EXACT:
                return None
            pair = np.array(integer_range(asked, bound), np.int64)
            ranges = np.broadcast_to(pair, (self._pages, 2))
            if isinstance(left, _Stored):
                return self._column_range(left.name, ranges)
            return self._range(number.register, ranges)
        if not math.isfinite(bound) or Fraction(bound) != Fraction(float(bound)):
            return None
        if isinstance(left, _Stored):
            number = self._loaded(left)
            assert number is not None  # it is known
        return self._float_comparison(asked, number.register, self._constant(float(bound)))

    def _with_number(
        self,
        asked: type[Comparison],
        left: Number | _Stored,
        right: Number | _Stored,
        inputs: tuple[pa.DataType, ...],
    ) -> int | None:
        one = self._loaded(left) if isinstance(left, _Stored) else left
        two = self._loaded(right) if isinstance(right, _Stored) else right
        if one is None or two is None or inputs[0] != inputs[1]:
            return None
        if one.is_float or two.is_float:
            registers = [self._float(number, limit=EXACT) for number in (one, two)]
            if None in registers:
                return None
            return self._float_comparison(asked, *registers)  # type: ignore[arg-type]
        difference = _interval(Op.SUBTRACT, one, two)
        if not -_NO_OVERFLOW <= difference[0] <= difference[1] <= _NO_OVERFLOW:
            return None
        register = self._step(Op.INTEGER_SUBTRACT, 0, one.register, two.register)
        pair = np.array(integer_range(asked, 0), np.int64)
        return self._range(register, np.broadcast_to(pair, (self._pages, 2)))

    def _float_comparison(self, asked: type[Comparison], one: int, two: int) -> int:
        if asked in (Greater, GreaterEqual):
            one, two, asked = two, one, FLIPPED[asked]
        op = {Less: Op.LESS, LessEqual: Op.LESS_EQUAL, Equal: Op.EQUAL}[asked]
        return self._step(op, 2, one, two)

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
        low, high = _interval(float_op, one, two)
        if pa.types.is_float64(kind.result):
            registers = [self._float(number) for number in numbers]
            low, high = float(low), float(high)
            low, high = min(low * _SLACK, low / _SLACK), max(high * _SLACK, high / _SLACK)
            if None in registers or not max(abs(low), abs(high)) < _LARGEST_FLOAT:
                return None
            return Number(True, self._step(float_op, 1, *registers), low, high)  # type: ignore[arg-type]
        if one.is_float or two.is_float or not pa.types.is_integer(kind.result):
            return None
        if not -_NO_OVERFLOW <= low <= high <= _NO_OVERFLOW:
            return None
        if low < 0 and pa.types.is_unsigned_integer(kind.result):
            return None  # a row below zero has no result: its values say so
        register = self._step(integer_op, 0, one.register, two.register)
        return Number(False, register, low, high)

    def _operand(
        self, value: _Value, literal: Literal | None, target: pa.DataType
    ) -> Number | None:
        if literal is not None:
            bound = _plain_bound(literal, target)
            if bound is None or not math.isfinite(bound):
                return None
            if isinstance(bound, float):
                return Number(True, self._constant(bound), bound, bound)
            if not LEAST <= bound <= GREATEST:
                return None
            return Number(False, self._step(Op.INTEGER, 0, 0, 0, bound), bound, bound)
        if isinstance(value, _Stored):
            return self._loaded(value)
        return value if isinstance(value, Number) else None

    # --- registers --------------------------------------------------------------------------------

    def _loaded(self, stored: _Stored) -> Number | None:
        known = self._known(stored)
        if known is None:
            return None
        register = self._integers(stored.name)
        if known.is_float:
            register = self._step(Op.DECIMAL, 1, register, self._names.index(stored.name))
        return Number(known.is_float, register, known.low, known.high)

    def _known(self, stored: _Stored) -> Number | None:
        """Return what is known of a column, in no register yet."""
        column = stored.column
        if column.dictionary is not None or column.bounds is None:
            return None
        low, high = column.bounds
        if column.exponents is None and not LEAST <= low <= high <= GREATEST:
            return None
        return Number(column.exponents is not None, -1, low, high)

    def _integers(self, name: str) -> int:
        return self._step(Op.LOAD, 0, self._names.index(name))

    def _float(self, number: Number, limit: int | None = None) -> int | None:
        """Return numbers as floats; None where integers above ``limit`` would be rounded."""
        if number.is_float:
            return number.register
        if limit is not None and max(abs(number.low), abs(number.high)) > limit:
            return None
        return self._step(Op.FLOAT, 1, number.register)

    def _constant(self, value: float) -> int:
        key = "constant", value.hex()
        if key not in self._made:
            self._constants.append(value)
            self._made[key] = self._step(Op.CONSTANT, 1, len(self._constants) - 1)
        return self._made[key]

    def _range(self, register: int, ranges: npt.NDArray[np.int64]) -> int:
        self._ranges.append(ranges)
        return self._step(Op.RANGE, 2, register, 0, len(self._ranges) - 1)

    def _column_range(self, name: str, ranges: npt.NDArray[np.int64]) -> int:
        self._ranges.append(ranges)
        return self._step(Op.COLUMN_RANGE, 2, self._names.index(name), 0, len(self._ranges) - 1)

    def _step(self, op: int, kind: int, a: int, b: int = 0, c: int = 0) -> int:
        """Add a step, or find the one that does the same; return its register."""
        key = op, a, b, c
        if key not in self._made:
            register = self._registers[kind]
            self._registers[kind] += 1
            self._steps.append((op, register, a, b, c))
            self._made[key] = register
        return self._made[key]


def _plain_bound(literal: Literal, target: pa.DataType) -> Any:
    """Return the number that a literal is compared as; None for what has none, or is missing."""
    if literal.is_missing_value:
        return None
    if pa.types.is_integer(target) or pa.types.is_float64(target):
        return literal_value(literal, target).as_py()
    if pa.types.is_timestamp(target) or pa.types.is_duration(target) or pa.types.is_date32(target):
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
