"""Changing types: cast, and reaching a field of a struct."""

from __future__ import annotations

from typing import Self

import pyarrow as pa

from tessel.errors import ColumnNotFoundError, ExpressionTypeError
from tessel.expression.leaves import Literal, as_expression
from tessel.expression.node import Expression, require_text
from tessel.expression.operators.shapes import require
from tessel.expression.types import (
    Family,
    Operand,
    Signature,
    family,
    parse_type,
    refuse,
    type_name,
)

_NUMBERS = frozenset({Family.INTEGER, Family.FLOAT, Family.DECIMAL})
_TEMPORAL = frozenset({Family.TIMESTAMP, Family.DATE, Family.TIME, Family.DURATION})
_CASTS: dict[Family, frozenset[Family]] = {
    Family.BOOL: frozenset({Family.BOOL, Family.INTEGER, Family.FLOAT, Family.TEXT}),
    Family.INTEGER: _NUMBERS | _TEMPORAL | {Family.BOOL, Family.TEXT},
    Family.FLOAT: _NUMBERS | {Family.TEXT},
    Family.DECIMAL: _NUMBERS | {Family.TEXT},
    Family.TEXT: _NUMBERS | _TEMPORAL | {Family.TEXT, Family.BOOL, Family.BINARY},
    Family.BINARY: frozenset({Family.BINARY, Family.TEXT}),
    Family.TIMESTAMP: frozenset(
        {Family.TIMESTAMP, Family.DATE, Family.TIME, Family.INTEGER, Family.TEXT}
    ),
    Family.DATE: frozenset({Family.DATE, Family.TIMESTAMP, Family.INTEGER, Family.TEXT}),
    Family.TIME: frozenset({Family.TIME, Family.INTEGER, Family.TEXT}),
    Family.DURATION: frozenset({Family.DURATION, Family.INTEGER}),
}


class Cast(Expression, name="cast"):
    """The operand as another type. A value that does not fit raises; nothing is cut."""

    operand: Expression
    target: str

    @classmethod
    def of(cls, *arguments: object) -> Self:
        """Make a cast; the type may be an Arrow type or any of its names."""
        if len(arguments) == 2:
            target = arguments[1]
            if isinstance(target, Literal):
                target = target.value
            if isinstance(target, pa.DataType):
                target = type_name(target)
            if isinstance(target, str):
                return cls(as_expression(arguments[0]), type_name(parse_type(target)))
            raise ExpressionTypeError(
                f"cast takes a type, not {target!r}", hint="cast('float64') or cast(pa.float64())"
            )
        return super().of(*arguments)

    def check(self) -> None:
        """Raise where the target is no type that values are cast to."""
        require_text(self.target, "the type of a cast")
        if type_name(parse_type(self.target)) != self.target:
            raise ExpressionTypeError(f"{self.target!r} is not the name of a type")

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the target type."""
        target = parse_type(self.target)
        (operand,) = operands
        allowed = _CASTS.get(operand.family, frozenset())
        if (
            operand.family is not Family.NULL
            and operand.type != target
            and family(target) not in allowed
        ):
            words = ", ".join(sorted(item.value for item in allowed)) or "nothing else"
            refuse(f"cast to {self.target}", (operand,), f"it can become: {words}")
        return Signature((operand.type,), target)


class Field(Expression, name="field"):
    """A field of a struct."""

    operand: Expression
    field_name: str

    def check(self) -> None:
        """Raise where the name is not text."""
        require_text(self.field_name, "a field name")

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the field's type; an unknown field raises with the nearest name."""
        (operand,) = operands
        require("field", operand, Family.STRUCT)
        if operand.family is Family.NULL:
            return Signature((operand.type,), pa.null())
        names = [operand.type.field(place).name for place in range(operand.type.num_fields)]
        if self.field_name not in names:
            raise ColumnNotFoundError.for_name(
                self.field_name, names, where=f"the struct {operand.text}"
            )
        return Signature((operand.type,), operand.type.field(names.index(self.field_name)).type)
