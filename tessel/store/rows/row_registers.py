"""The registers of a row program: fields, constants and steps, each made once.

The compiler of row programs enters here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.expression.kernels.values import literal_value
from tessel.expression.leaves import Literal
from tessel.expression.operators.comparison import (
    Comparison,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
)
from tessel.kernels.row_program import RowOp, RowProgram, field_load
from tessel.store.rows.schema import FieldLayout, RowSchema

__all__ = ["FLOATS", "INTEGERS", "TRUTHS", "Known", "RowRegisters", "Text", "Value", "whole_range"]

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
INTEGERS, FLOATS, TRUTHS = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Value:
    """A register: its kind, its number, the type of its values; ``shifted`` by 2**63."""

    kind: int
    register: int
    type: pa.DataType
    shifted: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A field of text or bytes, which can be compared and is no number."""

    field: FieldLayout


Known = Value | Text | Literal | None


class RowRegisters:
    """Fields of rows, constants and steps on them; a step that is asked for again is there already.

    Parameters
    ----------
    schema
        Of the rows.
    """

    def __init__(self, schema: RowSchema) -> None:
        self._schema = schema
        self._steps: list[tuple[int, ...]] = []
        self._made: dict[tuple[int, ...], int] = {}
        self._registers = [0, 0, 0]
        self._constants: list[float] = []
        self._texts: list[bytes] = []

    def _program(self, conditions: int, truth: int, outputs: Sequence[Value]) -> RowProgram:
        starts = np.cumsum([0, *map(len, self._texts)])
        return RowProgram(
            np.array(self._steps, np.int64).reshape(-1, 6),
            conditions,
            truth,
            np.array(self._constants, np.float64),
            np.frombuffer(b"".join(self._texts), np.uint8),
            starts.astype(np.int64),
            np.array([(v.kind, v.register) for v in outputs], np.int64).reshape(-1, 2),
            np.array(self._registers, np.int64),
        )

    # --- fields and constants ---------------------------------------------------------------------

    def _field(self, field: FieldLayout) -> Known:
        """Return a field of the rows, loaded where it is a number; None for what has no load."""
        if self._schema.byte_order != "little":
            return None
        if field.is_variable:
            return Text(field)
        kind, getter = field.type.arrow, field.type.getter
        null = self._null_place(field)
        a, b, c = field_load(field.offset, field.size, self._schema.fixed_size)
        if getter == "bool":
            register = self._step(RowOp.TRUTH, TRUTHS, field.offset, 0, 0, null)
            return Value(TRUTHS, register, kind)
        if getter in ("f32", "f64"):
            op = RowOp.DOUBLE if getter == "f64" else RowOp.SINGLE
            return Value(FLOATS, self._step(op, FLOATS, a, b, c, null), kind)
        if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
            return None
        if kind == pa.uint64():
            register = self._step(RowOp.ORDERED, INTEGERS, a, b, c, null)
            return Value(INTEGERS, register, kind, shifted=True)
        op = RowOp.UNSIGNED if pa.types.is_unsigned_integer(kind) else RowOp.SIGNED
        return Value(INTEGERS, self._step(op, INTEGERS, a, b, c, null), kind)

    def _null_place(self, field: FieldLayout) -> int:
        """Return the place of a field's bit of null in the row; -1 where there is none."""
        if not self._schema.null_bitmap_size:
            return -1
        return self._schema.null_bitmap_offset * 8 + field.null_bit

    def _literal(self, literal: Literal, target: pa.DataType) -> Value | None:
        """Return a literal in a register of its own."""
        if literal.is_missing_value:
            return None
        if pa.types.is_boolean(target):
            register = self._step(RowOp.FIXED_TRUTH, TRUTHS, int(literal.value))
            return Value(TRUTHS, register, target)
        if pa.types.is_floating(target):
            constant = self._constant(literal_value(literal, target).as_py())
            return None if constant is None else Value(FLOATS, constant, target)
        if pa.types.is_integer(target) and LEAST <= literal.value <= GREATEST:
            number = literal_value(literal, target).as_py()
            return Value(INTEGERS, self._step(RowOp.INTEGER, INTEGERS, number), target)
        return None

    def _constant(self, number: float) -> int | None:
        """Return the register of a float; None for NaN, which is missing."""
        if number != number:
            return None
        self._constants.append(number)
        return self._step(RowOp.FLOAT, FLOATS, len(self._constants) - 1)

    # --- steps ------------------------------------------------------------------------------------

    def _step(self, op: int, kind: int, a: int, b: int = 0, c: int = 0, d: int = 0) -> int:
        """Add a step, or find the one that does the same; return its register."""
        key = op, a, b, c, d
        if key not in self._made:
            register = self._registers[kind]
            self._registers[kind] += 1
            self._steps.append((op, register, a, b, c, d))
            self._made[key] = register
        return self._made[key]

    def _truth_of(self, op: int, a: int, b: int = 0, c: int = 0, d: int = 0) -> Value:
        return Value(TRUTHS, self._step(op, TRUTHS, a, b, c, d), pa.bool_())

    def _text_equal(self, field: FieldLayout, text: str | bytes) -> Value:
        data = text.encode() if isinstance(text, str) else text
        if data not in self._texts:
            self._texts.append(data)
        number = self._texts.index(data)
        return self._truth_of(RowOp.TEXT_EQUAL, field.offset, 0, number, self._null_place(field))

    def _in_range(self, value: Value, bounds: tuple[int | None, int | None]) -> Value:
        """Ask whether integers lie between two bounds, both included; None for no bound."""
        by = -LEAST if value.shifted else 0
        low = LEAST if bounds[0] is None else bounds[0] - by
        high = GREATEST if bounds[1] is None else bounds[1] - by
        if low > GREATEST or high < LEAST:
            low, high = 1, 0
        low, high = max(low, LEAST), min(high, GREATEST)
        return self._truth_of(RowOp.RANGE, value.register, low, high)


def whole_range(asked: type[Comparison], bound: Any) -> tuple[int | None, int | None]:
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
