"""An interpreter of expressions on plain Python values, one row at a time.

Written from docs/semantics.md. It shares the operator classes and the result types with the
package (types have tests of their own) and nothing that computes.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.expression import Expression, TableSchema
from tessel.expression.leaves import Column, Literal
from tessel.expression.operators import arithmetic as a
from tessel.expression.operators import boolean as b
from tessel.expression.operators import comparison as c
from tessel.expression.operators import membership as m
from tessel.expression.operators import text as s

_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class PastRangeError(Exception):
    """The row has no result."""


class Instant(int):
    """Nanoseconds since the epoch, or of a duration."""


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    columns = {
        name: [plain(scalar) for scalar in table.column(name)] for name in table.column_names
    }
    return [
        {name: values[row] for name, values in columns.items()} for row in range(table.num_rows)
    ]


def plain(scalar: pa.Scalar) -> Any:
    if isinstance(scalar, pa.DictionaryScalar):
        return scalar.as_py()
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(scalar.type) or pa.types.is_duration(scalar.type):
        return Instant(scalar.value * _UNITS[scalar.type.unit])
    return scalar.as_py()


def missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and math.isnan(value))


class Interpreter:
    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema

    def value(self, e: Expression, row: dict[str, Any]) -> Any:
        match e:
            case Column(column=name):
                return row[name]
            case Literal():
                return plain(e.scalar)
            case b.And() | b.Or():
                return self.chain(e, row)
            case b.Xor(left=left, right=right):
                one, two = self.value(left, row), self.value(right, row)
                return None if one is None or two is None else one != two
            case b.Not(operand=operand):
                value = self.value(operand, row)
                return None if value is None else not value
            case m.IsMissing(operand=operand):
                return missing(self.value(operand, row))
            case m.IsIn():
                return self.is_in(e, row)
            case b.Case():
                for condition, branch in zip(e.conditions, e.values, strict=True):
                    if self.value(condition, row) is True:
                        return self.typed(self.value(branch, row), e)
                return self.typed(self.value(e.otherwise, row), e)
            case b.Coalesce():
                for operand in e.operands:
                    value = self.value(operand, row)
                    if not missing(value):
                        return self.typed(value, e)
                return None
            case a.MinOf() | a.MaxOf():
                values = [self.typed(self.value(operand, row), e) for operand in e.operands]
                present = [value for value in values if not missing(value)]
                best = min if isinstance(e, a.MinOf) else max
                return best(present) if present else None
            case c.Comparison(left=left, right=right):
                one, two = self.beside(left, right, row), self.beside(right, left, row)
                return compare(e, one, two)
            case _:
                return self.computed(e, [self.value(child, row) for child in e.children])

    def chain(self, e: Any, row: dict[str, Any]) -> Any:
        decisive = isinstance(e, b.Or)
        answer: Any = not decisive
        for operand in e.operands:
            value = self.value(operand, row)
            if value is decisive:
                return decisive
            if value is None:
                answer = None
        return answer

    def beside(self, e: Expression, other: Expression, row: dict[str, Any]) -> Any:
        """Return an operand of a comparison, a text or plain number read as its neighbour is."""
        value = self.value(e, row)
        kind = other.result_type(self.schema)
        if not isinstance(e, Literal) or value is None:
            return value
        if isinstance(value, str) and pa.types.is_timestamp(kind):
            moment = datetime.datetime.fromisoformat(value)
            if kind.tz is not None:
                moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
            since = moment - datetime.datetime(1970, 1, 1)
            return Instant((since.days * 86_400 + since.seconds) * 10**9)
        if isinstance(value, str) and pa.types.is_date(kind):
            return datetime.date.fromisoformat(value)
        if e.kind == "float":
            return adapt(value, kind)
        return value

    def is_in(self, e: m.IsIn, row: dict[str, Any]) -> Any:
        if not len(e.values):
            return False
        value = self.value(e.operand, row)
        if missing(value):
            return None
        answer: Any = False
        for member in e.values:
            equal = compare(c.Equal(e.operand, member), value, self.beside(member, e.operand, row))
            if equal:
                return True
            if equal is None:
                answer = None
        return answer

    def typed(self, value: Any, e: Expression) -> Any:
        """Return a value as the result type of an expression has it."""
        kind = e.result_type(self.schema)
        if value is None or not pa.types.is_floating(kind):
            return value
        return float(np.float32(value)) if pa.types.is_float32(kind) else float(value)

    def computed(self, e: Expression, values: list[Any]) -> Any:
        if any(value is None for value in values):
            return None
        kind = e.result_type(self.schema)
        if isinstance(e, a.Add | a.Subtract) and isinstance(values[0], Instant):
            return Instant(values[0] + (1 if isinstance(e, a.Add) else -1) * values[1])
        if pa.types.is_floating(kind):
            real = np.float32 if pa.types.is_float32(kind) else np.float64
            with np.errstate(all="ignore"):
                found = self.arithmetic(e, [real(value) for value in values])
            return None if found is None else float(found)
        found = self.arithmetic(e, values)
        if pa.types.is_integer(kind) and found is not None:
            signed = pa.types.is_signed_integer(kind)
            low = -(1 << (kind.bit_width - 1)) if signed else 0
            if not low <= found < low + (1 << kind.bit_width):
                raise PastRangeError
        return found

    def arithmetic(self, e: Any, v: list[Any]) -> Any:
        match e:
            case a.Add():
                return v[0] + v[1]
            case a.Subtract():
                return v[0] - v[1]
            case a.Multiply():
                return v[0] * v[1]
            case a.Divide():
                return v[0] / v[1]
            case a.FloorDivide():
                return None if v[1] == 0 else v[0] // v[1]
            case a.Modulo():
                return None if v[1] == 0 else v[0] % v[1]
            case a.Negative():
                return -v[0]
            case a.Abs():
                return abs(v[0])
            case s.Length():
                return len(v[0])
            case s.Concat():
                return "".join(v)
            case s.Slice():
                return v[0][e.start : e.stop]
            case s.Replace():
                return v[0].replace(e.old, e.new)
            case s.StartsWith():
                return v[0].startswith(e.part)
            case s.EndsWith():
                return v[0].endswith(e.part)
            case s.Contains():
                return e.part in v[0]
            case s.Matches():
                return re.search(e.regex.pattern.replace("$", r"\Z"), v[0]) is not None
        raise AssertionError(e)


def adapt(value: float, kind: pa.DataType) -> Any:
    """Return a plain float literal as it is read beside a type."""
    if pa.types.is_decimal(kind):
        return decimal.Decimal(repr(value))
    if pa.types.is_float32(kind):
        with np.errstate(over="ignore"):
            single = float(np.float32(value))
        return single if math.isfinite(single) or not math.isfinite(value) else value
    return value


def compare(e: c.Comparison, left: Any, right: Any) -> Any:
    if missing(left) or missing(right):
        return None
    one, two = exact(left), exact(right)
    match e:
        case c.Equal():
            return one == two
        case c.NotEqual():
            return one != two
        case c.Less():
            return one < two
        case c.LessEqual():
            return one <= two
        case c.Greater():
            return one > two
        case _:
            return one >= two


def exact(value: Any) -> Any:
    if isinstance(value, bool | str | datetime.date):
        return value
    if isinstance(value, float) and math.isinf(value):
        return value
    return Fraction(value)


def same(got: Any, wanted: Any) -> bool:
    if missing(got) or missing(wanted):
        return missing(got) and missing(wanted)
    return bool(got == wanted)
