"""Truths that a program finds of columns: comparisons, and whether a value is in a set.

The encoded domain (:mod:`tessel.expression.encoded`) enters here with compiled operands, and says
whether it is asked where a condition is true, where it is false, or both. Decimals are kept as
integers to be divided by a power of ten: which of them lie below a bound is asked once, of the
bound, instead of every row. What cannot be shown to be the answer of the values domain is refused
with None.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tessel.expression.block_arithmetic import (
    BlockArithmetic,
    changes_unit,
    finer_unit,
    plain_bound,
)
from tessel.expression.block_columns import ColumnForm, Number, Stored
from tessel.expression.block_steps import EXACT, GREATEST, LEAST
from tessel.expression.checking import NodeType
from tessel.expression.leaves import Literal
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
from tessel.kernels.program import Op
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.expression.leaves import ValueSet
    from tessel.expression.operators.membership import IsIn, Lookup

Wanted = frozenset[bool]
"""Whether it is asked where a condition is true, or where it is false."""

_MOST_COMPARED = 32
"""Floats and texts of a set are compared with one by one."""
_ORDERS: dict[type[Comparison], tuple[int, int]] = {
    Less: (Op.LESS, Op.INTEGER_LESS),
    LessEqual: (Op.LESS_EQUAL, Op.INTEGER_LESS_EQUAL),
    Equal: (Op.EQUAL, Op.INTEGER_EQUAL),
}
"""The steps of a comparison, of floats and of integers."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The truth registers of where a condition is true, and false; None where nobody asked."""

    true: int | None
    false: int | None = None

    @classmethod
    def of(cls, wanted: Wanted, register: Callable[[bool], int]) -> Truth:
        """Return the registers of the sides that are wanted."""
        return cls(*(register(side) if side in wanted else None for side in (True, False)))


class BlockComparisons(BlockArithmetic):
    """Compares columns and numbers."""

    def _comparison(
        self, node: Comparison, kind: NodeType, operands: list[Any], wanted: Wanted
    ) -> Truth | None:
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
        return Truth.of(wanted, lambda side: self._compared(found, side != negated, left, right))

    def _compared(self, found: int, side: bool, left: Any, right: Any) -> int:
        """Return where a comparison is true, or false, of two values that are there."""
        own = found if side else self._steps.step(Op.NOT, found)
        # No comparison of floats is true of a NaN.
        one, other = (self._known(each, nans=side and _has_bits(each)) for each in (left, right))
        return self._where(own, self.both(one, other))

    def _where(self, truth: int, known: int | None) -> int:
        """Return where something is true and known."""
        return truth if known is None else self._steps.step(Op.AND, truth, known)

    def _with_literal(
        self,
        asked: type[Comparison],
        left: Number | Stored,
        inputs: tuple[pa.DataType, ...],
        literal: Literal,
        ratio: int,
    ) -> int | None:
        """Compare with a literal, which counts ``ratio`` units in one of the column."""
        from fractions import Fraction

        if isinstance(left, Stored) and _has_texts(left):
            is_asked = asked is Equal and not literal.is_missing_value
            return self._text_equal(left, literal.value) if is_asked else None
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
            exponents = left.column.exponents
            if min(exponents) >= 0:
                ranges = tuple((e, scaled_range(asked, bound, e)) for e in exponents)
                return self._column_range(left.name, ranges)
        number = self._bounded(left) if isinstance(left, Stored) else left
        if number is None:
            return None
        if not number.is_float:
            if is_float and max(abs(number.low), abs(number.high)) > EXACT:
                return None
            if not LEAST <= number.low * ratio <= number.high * ratio <= GREATEST:
                return None  # a value may have too many of the other unit, and says so
            pair = _integer_range(asked, bound if ratio == 1 else Fraction(bound, ratio))
            if isinstance(left, Stored):
                return self._column_range(left.name, pair)
            return self._steps.range(number.register, pair)
        if not math.isfinite(bound) or Fraction(bound) != Fraction(float(bound)):
            return None
        if isinstance(left, Stored):
            number = self._loaded(left)
            assert number is not None  # it has bounds
        constant = self._steps.constant(float(bound))
        return self._in_order(asked, number.register, constant, is_float=True)

    def _with_decimal(
        self, asked: type[Comparison], left: Stored, compared: pa.DataType, bound: Any
    ) -> int | None:
        """Compare decimals, kept as integers, with a number that they are compared with exactly."""
        from fractions import Fraction

        kind = left.column.type
        if not pa.types.is_decimal(compared):
            return None
        if compared.precision - compared.scale < kind.precision - kind.scale:
            return None  # a value may not fit, and says so
        scaled = Fraction(bound) * Fraction(10) ** kind.scale
        return self._column_range(left.name, _integer_range(asked, scaled))

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
        if not one.is_float and not two.is_float:
            return self._in_order(asked, one.register, two.register, is_float=False)
        left_register, right_register = (self._float(number, limit=EXACT) for number in (one, two))
        if left_register is None or right_register is None:
            return None
        return self._in_order(asked, left_register, right_register, is_float=True)

    def _in_order(self, asked: type[Comparison], one: int, two: int, *, is_float: bool) -> int:
        if asked in (Greater, GreaterEqual):
            one, two, asked = two, one, FLIPPED[asked]
        return self._steps.step(_ORDERS[asked][0 if is_float else 1], one, two)

    def _is_in(self, node: IsIn, kind: NodeType, operand: Any, wanted: Wanted) -> Truth | None:
        if not isinstance(operand, Number | Stored):
            return None
        found = self._among(operand, node.values, kind.operands[0].type)
        if found is None:
            return None
        (inside, has_missing), steps, known = found, self._steps, self._known(operand)

        def register(side: bool) -> int:
            if has_missing and not side:
                return steps.always(False)
            return self._where(inside if side else steps.step(Op.NOT, inside), known)

        return Truth.of(wanted, register)

    def _among(
        self, operand: Number | Stored, values: ValueSet, kind: pa.DataType
    ) -> tuple[int, bool] | None:
        """Return where an operand is in a set, and whether that holds a missing value."""
        from tessel.expression.block_entries import Members

        held, steps, number = Members.of(values, kind), self._steps, self._value(operand)
        if held is not None:
            if number is None or number.is_float:
                return None
            return held.steps(steps, number.register, number.low, number.high), held.has_missing
        if not 0 < len(values) <= _MOST_COMPARED:
            return None
        from tessel.expression.operators.membership import members

        found, has_missing = members(values, kind)
        if isinstance(operand, Stored) and _has_texts(operand):
            equal = [self._text_equal(operand, value) for value in found.to_pylist()]
        elif number is not None and number.is_float:
            constants = [steps.constant(value) for value in found.to_pylist()]
            equal = [steps.step(Op.EQUAL, number.register, constant) for constant in constants]
        else:
            return None
        return steps.joined(Op.OR, equal) if equal else steps.always(False), has_missing

    def _looked_up_number(self, node: Lookup, operand: Any) -> Stored | None:
        """Return what a table has beside numbers, as places of the values in it."""
        from tessel.expression.block_entries import Beside

        number = self._value(operand) if isinstance(operand, Number | Stored) else None
        beside = None if number is None or number.is_float else Beside.of(node)
        if number is None or beside is None:
            return None
        codes = beside.entries
        found, known = beside.steps(self._steps, number.register)
        register = self.chosen(found, known, 0)
        held = Number(False, register, 0, len(codes) - 1, self.both(number.known, known))
        return Stored("", ColumnForm(codes.values.type, codes, None, None, True), held)

    def _text_equal(self, stored: Stored, text: str | bytes) -> int:
        data = text.encode() if isinstance(text, str) else text
        return self._steps.text_equal(self._places[stored.name], data)


def _has_texts(stored: Stored) -> bool:
    """Return whether a column is texts of any length, which lie in a heap."""
    kind = stored.column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_text = is_text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return is_text and stored.column.entries is None


def _has_bits(value: Any) -> bool:
    """Return whether floats are compared as such, not as the integers that they are kept as."""
    if not isinstance(value, Stored) or value.column.entries is not None:
        return False
    exponents = value.column.exponents
    return exponents is not None and min(exponents) < 0


# --- thresholds as integers -----------------------------------------------------------------------


def _integer_range(asked: type[Comparison], bound: Any) -> tuple[int, int]:
    """Return which integers compare so with a bound, which may be a float."""
    if math.isinf(bound):
        reach = GREATEST + 1 if bound > 0 else LEAST - 1
        at_or_above, above = reach, reach
    else:
        at_or_above, above = math.ceil(bound), math.floor(bound) + 1
    return _closed(asked, at_or_above, above)


def scaled_range(asked: type[Comparison], bound: Any, exponent: int) -> tuple[int, int]:
    """Return which integers ``k`` compare so with a bound once divided by a power of ten.

    What compares is the double nearest to ``k / 10**exponent``, so the integers beside the
    translated bound are tried out: division rounds, but never past a neighbour.

    Parameters
    ----------
    asked
        Less, LessEqual, Greater, GreaterEqual or Equal.
    bound
        An integer or a float, not NaN.
    exponent
        From 0 to 22.

    Returns
    -------
    tuple of int
        The least and the greatest; the least is above the greatest where there is none.
    """
    from fractions import Fraction

    if math.isinf(bound):
        return _integer_range(asked, bound)
    guess = math.floor(Fraction(bound) * 10**exponent)
    if abs(guess) > EXACT + 4:
        # All stored integers are at most 2**53 in size: they lie on one side.
        return _integer_range(asked, math.inf if guess > 0 else -math.inf)
    power = float(10**exponent)
    at_or_above = above = guess - 4
    while at_or_above / power < bound:
        at_or_above += 1
    above = at_or_above
    while above / power <= bound:
        above += 1
    return _closed(asked, at_or_above, above)


def _closed(asked: type[Comparison], at_or_above: int, above: int) -> tuple[int, int]:
    """Return a closed range, from the first integers at or above a bound and above it."""
    if asked is Less:
        low, high = LEAST, at_or_above - 1
    elif asked is LessEqual:
        low, high = LEAST, above - 1
    elif asked is Greater:
        low, high = above, GREATEST
    elif asked is GreaterEqual:
        low, high = at_or_above, GREATEST
    else:
        low, high = at_or_above, above - 1
    if low > GREATEST or high < LEAST or low > high:
        return 1, 0
    return max(low, LEAST), min(high, GREATEST)
