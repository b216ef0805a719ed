"""A constant beside a column: what may stand in a plan, as a value of the column's own type."""

from __future__ import annotations

import decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.values import of_integers, plain_type
from tessel.errors import ExpressionTypeError, PlanError, TesselError, shown
from tessel.expression.leaves import literal
from tessel.expression.literal_codec import decode
from tessel.expression.periods import instant_units
from tessel.expression.types import type_name

Constant: TypeAlias = bool | int | float | str | None
"""What a constant is in a plan; instants, times and durations are text, decimals may be."""


def check_constant(clause: str, value: object) -> None:
    """Refuse what no plan can hold."""
    if value is not None and not isinstance(value, bool | int | float | str):
        raise PlanError(
            f"{clause}: {value!r} is no constant that a plan can hold",
            hint="give a number, a truth value, text, or an instant as ISO text",
            clause=clause,
        )


def constant_text(value: Any) -> Any:
    """Convert a constant that a user gave to the form that a plan holds.

    A value that no plan can hold is returned unchanged; `check_constant` refuses it.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    try:
        found = literal(value)
    except ExpressionTypeError:
        return value
    if pa.types.is_binary(found.type):
        return value
    told = pa.types.is_temporal(found.type) or pa.types.is_decimal(found.type)
    return found.content if told else found.value


def constant_of(value: Constant, kind: pa.DataType, *, clause: str, column: str) -> pa.Array:
    """Return a constant as an array of one value of a column's type.

    Raises PlanError when the type does not hold the value exactly; names clause, column and both.
    """
    if value is None:
        return pa.nulls(1, kind)
    if isinstance(value, float) and value != value and not pa.types.is_floating(plain_type(kind)):
        return pa.nulls(1, kind)
    try:
        found = arrow_array([_converted(value, plain_type(kind))], plain_type(kind))
        if pa.types.is_dictionary(kind):
            indices = arrow_array([0], kind.index_type)
            entries = found.cast(kind.value_type)
            return pa.DictionaryArray.from_arrays(indices, entries, ordered=kind.ordered)
        return found if found.type == kind else found.cast(kind)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError, TesselError) as error:
        raise PlanError(
            f"{clause}: column {column!r} of type {kind} does not hold {shown(value)}",
            hint="give a value of the type of the column, or cast the column first",
            clause=clause,
            column=column,
            type=str(kind),
        ) from error


def _converted(value: bool | int | float | str, kind: pa.DataType) -> Any:
    """Return what Arrow takes for a type; raise TypeError for values of other families."""
    types = pa.types
    if isinstance(value, bool) != types.is_boolean(kind):
        raise TypeError("a truth value is for a column of truth values")
    if isinstance(value, bool):
        return value
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if is_number and (isinstance(value, int | float) or types.is_decimal(kind)):
        if types.is_decimal(kind):
            return decimal.Decimal(str(value))
        if types.is_integer(kind) and isinstance(value, float):
            if not value.is_integer():
                raise ValueError("a fraction")
            return int(value)
        if types.is_floating(kind) and isinstance(value, int) and int(float(value)) != value:
            raise ValueError("the float nearest to it is another number")
        return value
    if isinstance(value, str) and (types.is_string(kind) or types.is_large_string(kind)):
        return value
    if isinstance(value, str) and (types.is_timestamp(kind) or types.is_date(kind)):
        units = instant_units(value, kind)
        if units is None:
            raise ValueError("it is finer than the type")
        return of_integers(np.array([units]), kind)[0]
    if isinstance(value, str) and (types.is_duration(kind) or types.is_time(kind)):
        return of_integers(np.array([decode(type_name(kind), value)]), kind)[0]
    if isinstance(value, int) and types.is_duration(kind):
        return value
    raise TypeError(f"{type(value).__name__} for {kind}")
