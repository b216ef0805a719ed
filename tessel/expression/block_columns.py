"""Columns and numbers of a program that runs on stored blocks: the registers that hold them.

The encoded domain (:mod:`tessel.expression.encoded`) enters here with columns as they are stored
and adds what it computes of them; who reduces rows asks for what kernels are to add up. Nothing is
loaded before it is known in which form it is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.expression.block_entries import Entries
from tessel.expression.block_steps import (
    EXACT,
    GREATEST,
    LEAST,
    BlockSteps,
    Operand,
    Ranges,
    UnboundProgram,
)
from tessel.kernels.decimal_sums import DecimalBounds
from tessel.kernels.program import RESIDUAL_SHIFT, Op
from tessel.lazy import dataclass

_FRACTION_BITS, _COARSE_BITS = 53, 4


class ColumnForm(NamedTuple):
    """What programs depend on of a column whose values are stored as integers, or as codes.

    Segments whose columns are of equal forms share programs.

    Attributes
    ----------
    entries
        The values that the integers are codes of; None where they are the values.
    exponents
        The powers of ten, ascending, that pages of floats divide integers by. Negative for pages of
        which integers do not say all values: they hold the bits of floats, or exceptions. None for
        integers, which are the values themselves.
    bounds
        Numbers that no value is below or above; None where they are not known. Of decimals,
        integers that no stored one is below or above.
    has_missing
        Whether some row may have no value: null, or NaN but for those in a dictionary.
    """

    type: pa.DataType
    entries: Entries | None
    exponents: tuple[int, ...] | None
    bounds: tuple[Any, Any] | None
    has_missing: bool = False

    @property
    def places(self) -> int | None:
        """The one power of ten that all pages of floats are divided by; None for others."""
        if self.exponents is None or len(self.exponents) > 1 or self.exponents[0] < 0:
            return None
        return self.exponents[0]

    @property
    def widened(self) -> ColumnForm:
        """The form with bounds at powers of two, which columns with about such bounds share."""
        if self.bounds is None:
            return self
        low, high = self.bounds
        if self.exponents is None:
            bounds: tuple[Any, Any] = -1 - _reach(-1 - low), _reach(high)
        elif self.places is not None:
            bounds = -_float_reach(-low), _float_reach(high)
        else:  # of what are no decimals only the largest counts, and which sign there may be
            most = _float_reach(max(-low, high))
            bounds = -most if low < 0 else 0.0, most if high > 0 else 0.0
        return ColumnForm(self.type, self.entries, self.exponents, bounds, self.has_missing)


def _reach(most: int) -> int:
    """Return the greatest integer of as many bits, so that none is above that is not above one."""
    if most >= 0:
        return (1 << most.bit_length()) - 1
    return -1 - (1 << _coarse((-1 - most).bit_length() - 1)) if most < -1 else -1


def _float_reach(most: float) -> float:
    """Return the greatest float below the next power of two, which is not below one."""
    if most == 0 or not math.isfinite(most):
        return most
    _, power = math.frexp(most)
    if most < 0:
        return math.ldexp(-1.0, _coarse(power - 1))
    return math.ldexp(1 - 2.0**-_FRACTION_BITS, power)


def _coarse(bits: int) -> int:
    """Return fewer bits: how far all numbers are from 0 counts less than how large they may be."""
    return bits // _COARSE_BITS * _COARSE_BITS


@dataclass(frozen=True, slots=True)
class Scaled:
    """The integers that decimals kept as floats stand for, of which nothing is computed yet.

    Attributes
    ----------
    bounds
        What is known of them, and of how far off the floats are.
    column
        The stored column whose integers they are; None for others.
    constant
        The one integer that they all are; None for others.
    register
        The register that they are in; None for others.
    op, operands
        The step that makes them of those of others.
    """

    bounds: DecimalBounds
    column: str | None = None
    constant: int | None = None
    register: int | None = None
    op: int = -1
    operands: tuple[Scaled, ...] = ()


@dataclass(frozen=True, slots=True)
class Number:
    """Numbers that a program computes, one a row.

    Attributes
    ----------
    is_float
        Whether they are float64; otherwise integers.
    low, high
        No number is below or above.
    known
        The truth register of the rows that have a value, the others may hold anything; None where
        every row has one.
    scaled
        What integers computed floats stand for; None where they are no decimals.
    """

    is_float: bool
    register: int
    low: Any
    high: Any
    known: int | None = None
    scaled: Scaled | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A column, of which nothing is loaded before it is known in which form it is wanted.

    Attributes
    ----------
    codes
        Places of its entries that are computed of numbers; None where they are stored.
    """

    name: str
    column: ColumnForm
    codes: Number | None = None


class BlockColumns:
    """What is known of the columns of a program in the making.

    Parameters
    ----------
    columns
        The columns at hand, by name, in the order of their number.
    """

    def __init__(self, columns: Mapping[str, ColumnForm]) -> None:
        self._columns = columns
        self._places = {name: place for place, name in enumerate(columns)}
        self._values: dict[str, Any] = {
            name: Stored(name, column) for name, column in columns.items()
        }
        self._steps = BlockSteps()

    def both(self, one: int | None, other: int | None) -> int | None:
        """Return the truth register of what two have in common; None is true everywhere."""
        if one is None or other is None:
            return other if one is None else one
        return self._steps.step(Op.AND, one, other)

    def number(self, name: str) -> Number | None:
        """Return the numbers of a column; None for what has none."""
        value = self._values.get(name)
        if isinstance(value, Stored):
            return self._loaded(value)
        return value if isinstance(value, Number) else None

    def has_integers(self, name: str) -> bool:
        """Return whether a column has numbers or codes."""
        value = self._values.get(name)
        if isinstance(value, Stored):
            return value.column.entries is not None or self._bounded(value) is not None
        return isinstance(value, Number)

    def known(self, names: Iterable[str]) -> int | None:
        """Return the truth register of the rows in which all columns have a value; None: all."""
        found: int | None = None
        for name in dict.fromkeys(names):
            found = self.both(found, self._known(self._values[name]))
        return found

    def place(self, name: str) -> int | None:
        """Return the number of a column that is stored, not computed; None for others."""
        value = self._values.get(name)
        if not isinstance(value, Stored) or value.column is not self._columns.get(value.name):
            return None
        return self._places[value.name]

    def column(self, name: str) -> ColumnForm | None:
        """Return the form of a column that is stored, not computed; None for others."""
        return None if self.place(name) is None else self._stored(name).column

    def integers(self, name: str, known: int | None = None) -> int:
        """Return the register of what a stored column is kept as, 0 where no value is known."""
        return self.chosen(self._integers(self._stored(name)), known, 0)

    def _stored(self, name: str) -> Stored:
        value = self._values[name]
        assert isinstance(value, Stored)  # who asks knows its place
        return value

    def residuals(self, name: str, up: int, known: int | None = None) -> int:
        """Return the register of what the decimals of a stored column are off, times ``2**up``.

        0 where no value is known.
        """
        place = self._places[self._stored(name).name]
        return self._steps.step(Op.RESIDUAL, self.integers(name, known), place, up)

    def scaled(self, name: str) -> Scaled | None:
        """Return the integers that the floats of a column stand for; None for what are none."""
        value = self._values.get(name)
        if isinstance(value, Stored):
            return self._scaled(value)
        return value.scaled if isinstance(value, Number) else None

    def whole(self, scaled: Scaled, known: int | None = None) -> int:
        """Return the register of integers, 0 where no value is known."""
        return self.chosen(self._whole(scaled), known, 0)

    def float_residuals(
        self, floats: int, scaled: Scaled, up: int, known: int | None = None
    ) -> int:
        """Return the register of what floats are off from their integers, times ``2**up``.

        0 where no value is known.
        """
        packed = scaled.bounds.places << RESIDUAL_SHIFT | up
        held, whole = self.chosen_float(floats, known, 0.0), self.whole(scaled, known)
        return self._steps.step(Op.FLOAT_RESIDUAL, held, whole, packed)

    def product(self, one: Number, other: Number, known: int | None) -> tuple[int, int] | None:
        """Return the registers of the product as floats, and of what rounding took from it.

        None where an integer is no float. Exact where no product is below 2**-900 but for zeros;
        zero where not both numbers are known.
        """
        registers = [self._float(number, limit=EXACT) for number in (one, other)]
        if registers[0] is None or registers[1] is None:
            return None
        left, right = (self.chosen_float(register, known, 0.0) for register in registers)
        product = self._steps.step(Op.MULTIPLY, left, right)
        return product, self._steps.step(Op.PRODUCT_ERROR, left, right, product)

    def parts(self, register: int, bits: int) -> dict[int, int]:
        """Return registers of integers by place: those from ``bits`` on, and the signed rest."""
        upper = self._steps.step(Op.SHIFT, register, c=bits)
        return {0: self.combined(upper, -(1 << bits), register), bits: upper}

    def multiplied(self, one: int, other: int) -> int:
        """Return the register of the products of integers, which do not overflow."""
        return self._steps.step(Op.INTEGER_MULTIPLY, *sorted((one, other)))

    def codes(self, name: str) -> tuple[Number, Entries] | None:
        """Return the codes of a column and its dictionary; None for what has none."""
        value = self._values.get(name)
        if not isinstance(value, Stored) or value.column.entries is None:
            return None
        entries = value.column.entries
        register, known = self._integers(value), self._known(value)
        return Number(False, register, 0, len(entries) - 1, known), entries

    def looked_up(self, number: Number, numbers: npt.NDArray[np.int64]) -> Number:
        """Return the integers that codes are places of; those of rows without a value are any."""
        register = self._steps.lookup(number.register, numbers)
        low, high = (int(end) for end in (numbers.min(), numbers.max()))
        return Number(False, register, low, high, number.known)

    def ranks(self, name: str) -> tuple[Number, pa.Array] | None:
        """Return the places of texts in their order, and the texts in order; None without codes."""
        value = self._values.get(name)
        if not isinstance(value, Stored):
            return None
        entries = value.column.entries
        if entries is None or entries.order is None:
            return None
        ranks = np.empty(len(entries), np.int64)
        ranks[entries.order] = np.arange(len(entries))
        register = self._steps.lookup(self._integers(value), ranks)
        ordered = entries.values.take(arrow_array(entries.order))
        return Number(False, register, 0, len(entries) - 1, self._known(value)), ordered

    def chosen(self, register: int, known: int | None, otherwise: int | Operand) -> int:
        """Return integers where a truth is true, another one elsewhere; None is true everywhere."""
        if known is None:
            return register
        return self._steps.step(Op.CHOOSE, register, known, otherwise)

    def chosen_float(self, register: int | None, known: int | None, otherwise: float) -> int:
        """Return floats where a truth is true, another one elsewhere; None is true everywhere."""
        assert register is not None
        if known is None:
            return register
        place = self._steps.constant_place(otherwise)
        return self._steps.step(Op.CHOOSE_FLOAT, register, known, place)

    def ones(self, known: int) -> int:
        """Return the register of integers that are 1 where a truth is true, else 0."""
        return self._steps.step(Op.NUMBER, known)

    def rows(self) -> int:
        """Return the register of the rows, counted in the segment."""
        return self._steps.step(Op.ROW)

    def combined(self, register: int, factor: int | Operand, other: int) -> int:
        """Return ``register * factor + other`` of integers that do not overflow."""
        return self._steps.step(Op.COMBINE, register, other, factor)

    def counted_from_least(self, name: str) -> int:
        """Return how far integers of a stored column are above the least of the segment's."""
        constant = self._steps.step(Op.INTEGER, c=Operand(self._places[self._stored(name).name]))
        return self._steps.step(Op.INTEGER_ADD, self.integers(name), constant)

    def shifted(self, number: Number, by: int) -> Number:
        """Return integers with one number added; the sums have 64 bits, it may have one more."""
        if by == 0:
            return number
        # Modulo 2**64, like the addition: from the least integer to 0 it is 2**63.
        constant = self._steps.step(Op.INTEGER, c=(by - LEAST) % (1 << 64) + LEAST)
        register = self._steps.step(Op.INTEGER_ADD, number.register, constant)
        return Number(False, register, number.low + by, number.high + by, number.known)

    def mirrored(self, number: Number) -> Number:
        """Return how far integers are below the greatest there may be, which does not overflow."""
        constant = self._steps.step(Op.INTEGER, c=number.high)
        register = self._steps.step(Op.INTEGER_SUBTRACT, constant, number.register)
        return Number(False, register, 0, number.high - number.low, number.known)

    def program(self) -> UnboundProgram:
        """Return the program for all that was asked so far."""
        return self._steps.program()

    # --- registers --------------------------------------------------------------------------------

    def _known(self, value: Any, *, nans: bool = False) -> int | None:
        """Return the truth register of the rows that have a value; None for all.

        Where ``nans`` is true, a NaN of a stored column is one.
        """
        if not isinstance(value, Stored):
            return value.known if isinstance(value, Number) else None
        known = None if value.codes is None else value.codes.known
        if value.codes is None and value.column.has_missing:
            known = self._steps.step(Op.PRESENT, self._places[value.name], int(nans))
        entries = value.column.entries
        if entries is not None and entries.known is not None:
            found = self._steps.table(self._integers(value), entries.known.view(np.uint8))
            known = self.both(known, found)
        return known

    def _loaded(self, stored: Stored) -> Number | None:
        bounded = self._bounded(stored)
        if bounded is None:
            return None
        register = self._integers(stored)
        entries = stored.column.entries
        if entries is not None:
            assert entries.numbers is not None  # it has bounds
            register = self._steps.lookup(register, entries.numbers[0])
        elif bounded.is_float:
            register = self._steps.step(Op.DECIMAL, register, self._places[stored.name])
        known = self._known(stored)
        return Number(bounded.is_float, register, bounded.low, bounded.high, known)

    def _bounded(self, stored: Stored) -> Number | None:
        """Return what is known of the values of a column, in no register yet."""
        column = stored.column
        if column.entries is not None:
            found = column.entries.numbers
            return None if found is None else Number(found[0].dtype.kind == "f", -1, *found[1:])
        if column.bounds is None:
            return None
        low, high = column.bounds
        if column.exponents is None and not LEAST <= low <= high <= GREATEST:
            return None
        return Number(column.exponents is not None, -1, low, high)

    def _scaled(self, stored: Stored) -> Scaled | None:
        column = stored.column
        if column.entries is not None or column.bounds is None:
            return None
        low, high = column.bounds
        if column.exponents is None:
            if not LEAST <= low <= high <= GREATEST:
                return None
            return Scaled(DecimalBounds.of_integers(int(low), int(high)), stored.name)
        places = column.places
        if places is None:
            return None
        bounds = DecimalBounds.of_decimals(places, float(low), float(high))
        return None if bounds is None else Scaled(bounds, stored.name)

    def _whole(self, scaled: Scaled) -> int:
        if scaled.column is not None:
            return self._load(scaled.column)
        if scaled.constant is not None:
            return self._steps.step(Op.INTEGER, c=scaled.constant)
        if scaled.register is not None:
            return scaled.register
        return self._steps.step(scaled.op, *(self._whole(each) for each in scaled.operands))

    def _integers(self, stored: Stored) -> int:
        return self._load(stored.name) if stored.codes is None else stored.codes.register

    def _load(self, name: str) -> int:
        return self._steps.step(Op.LOAD, self._places[name])

    def _float(self, number: Number, limit: int | None = None) -> int | None:
        """Return numbers as floats; None where integers above ``limit`` would be rounded."""
        if number.is_float:
            return number.register
        if limit is not None and max(abs(number.low), abs(number.high)) > limit:
            return None
        return self._steps.step(Op.FLOAT, number.register)

    def _column_range(self, name: str, ranges: Ranges) -> int:
        return self._steps.column_range(self._places[name], ranges)
