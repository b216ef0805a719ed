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
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import fill_null, numpy_array
from tessel.errors import TesselError
from tessel.expression.block_arithmetic import (
    ARITHMETIC,
    NO_OVERFLOW,
    BlockArithmetic,
    changes_unit,
    finer_unit,
    interval,
    plain_bound,
)
from tessel.expression.block_columns import Number, Stored
from tessel.expression.checking import NodeType, node_types
from tessel.expression.context import ExpressionContext
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression
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
from tessel.expression.schema import TableSchema
from tessel.expression.stored_ranges import EXACT, GREATEST, LEAST, integer_range, scaled_range
from tessel.kernels.program import Op

if TYPE_CHECKING:
    from tessel.expression.operators.membership import IsIn
    from tessel.expression.protocols import ArithmeticColumn

__all__ = ["BlockProgram", "Number"]

_MOST_ENTRIES = 1 << 16
_MOST_STEPS = 256
"""More steps a block cost more than kernels on whole columns."""


@dataclass(frozen=True, slots=True)
class _Truth:
    """The truth registers of where a condition is true, and false; None where nobody asked."""

    true: int | None
    false: int | None = None


_Value = Number | Stored | _Truth | Literal | None
_Wanted = frozenset[bool]
_TRUE: _Wanted = frozenset([True])


class BlockProgram(BlockArithmetic):
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

    def rename(self, names: Mapping[str, str], schema: TableSchema) -> None:
        """Let later questions see columns under other names.

        Parameters
        ----------
        names
            The name so far of each column that they see.
        schema
            The columns that they see.
        """
        self._values = {name: self._values[old] for name, old in names.items()}
        self._schema = schema
        self._looked_up.clear()

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
        if node.name == "is_missing":
            (asked,) = node.children
            held = self._values.get(asked.column) if isinstance(asked, Column) else operands[0]
            return self._is_missing(held, wanted)
        if node.name == "is_in":
            return self._is_member(
                cast("IsIn", node), kind.operands[0].type, operands[0], wanted, whole
            )
        if node.name == "coalesce":
            return self._first_known(kind, operands)
        if node.name in ARITHMETIC:
            return self._arithmetic(node, kind, operands)
        if node.name == "abs":
            return self._absolute(kind, operands[0])
        if node.name == "cast":
            return self._as_type(kind, operands[0])
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
        if not isinstance(value, Stored) or value.column.entries is None:
            return None
        entries = value.column.entries.values
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
                from tessel.expression.evaluate import evaluate

                answers = evaluate(node, pa.table({name: asked}))
            except TesselError:
                return None  # maybe of an entry that no row has
            if not pa.types.is_boolean(answers.type):
                return None
            numbers = fill_null(answers.cast(pa.int8()), -1)
            self._looked_up[key] = np.array(numpy_array(numbers), np.int8)
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
            if operand.column.entries is not None:
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

    def _is_member(
        self, node: IsIn, kind: pa.DataType, operand: _Value, wanted: _Wanted, whole: bool
    ) -> _Truth | None:
        from tessel.expression.block_members import Members

        members = Members.of(node.values, kind)
        if members is None or (whole and members.has_missing):
            return None
        number = self._value(operand) if isinstance(operand, Number | Stored) else None
        if number is None or number.is_float:
            return None
        found = members.steps(self._steps, number.register, number.low, number.high)
        sides: dict[bool, int | None] = {}
        for side in wanted:
            own = found if side else self._steps.step(Op.NOT, found)
            if members.has_missing and not side:
                own = self._steps.always(False)
            sides[side] = self.both(own, number.known)
        return _Truth(sides.get(True), sides.get(False))

    # --- comparison -------------------------------------------------------------------------------

    def _comparison(
        self, node: Comparison, kind: NodeType, operands: list[_Value], wanted: _Wanted
    ) -> _Truth | None:
        assert kind.signature is not None
        ratio = finer_unit(kind) if changes_unit(kind) else 1
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
        bound = plain_bound(literal, inputs[1])
        if bound is None:
            return None
        if isinstance(left, Stored) and pa.types.is_decimal(left.column.type):
            return self._with_decimal(asked, left, inputs[0], bound)
        if isinstance(left, Stored) and left.column.entries is not None:
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
        difference = interval(Op.SUBTRACT, one, two)
        if not -NO_OVERFLOW <= difference[0] <= difference[1] <= NO_OVERFLOW:
            return None
        register = self._steps.step(Op.INTEGER_SUBTRACT, one.register, two.register)
        return self._steps.range(register, integer_range(asked, 0))

    def _float_comparison(self, asked: type[Comparison], one: int, two: int) -> int:
        if asked in (Greater, GreaterEqual):
            one, two, asked = two, one, FLIPPED[asked]
        op = {Less: Op.LESS, LessEqual: Op.LESS_EQUAL, Equal: Op.EQUAL}[asked]
        return self._steps.step(op, one, two)


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
