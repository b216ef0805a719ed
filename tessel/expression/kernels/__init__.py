"""The kernel table: operator class → function on Arrow values.

A kernel takes ``(node, values, result_type)``. Values are Arrow arrays of one length, or scalars
that stand in every row, already cast to the inputs of the node's type rule; the result is an array
or, where all values are scalars, a scalar. Each module holds one family; this one joins them.
"""

from __future__ import annotations

import pyarrow.compute as pc

from tessel.expression.kernels import arithmetic, casting, choice, compare, membership, text, time
from tessel.expression.kernels.values import Kernel, elementwise
from tessel.expression.node import Expression
from tessel.expression.operators import arithmetic as a
from tessel.expression.operators import boolean as b
from tessel.expression.operators import casting as k
from tessel.expression.operators import comparison as c
from tessel.expression.operators import conditional as w
from tessel.expression.operators import membership as m
from tessel.expression.operators import number as n
from tessel.expression.operators import text as s
from tessel.expression.operators import time as t

__all__ = ["KERNELS"]

KERNELS: dict[type[Expression], Kernel] = {
    a.Add: arithmetic.checked(pc.add_checked, "add"),
    a.Subtract: arithmetic.checked(pc.subtract_checked, "subtract"),
    a.Multiply: arithmetic.checked(pc.multiply_checked, "multiply"),
    a.Divide: arithmetic.divide,
    a.FloorDivide: arithmetic.floor_divide,
    a.Modulo: arithmetic.modulo,
    a.Power: arithmetic.power,
    a.Negative: arithmetic.negative,
    a.Abs: elementwise(pc.abs_checked),
    a.Round: arithmetic.round_half_even,
    c.Equal: compare.comparing(pc.equal),
    c.NotEqual: compare.comparing(pc.not_equal),
    c.Less: compare.comparing(pc.less),
    c.LessEqual: compare.comparing(pc.less_equal),
    c.Greater: compare.comparing(pc.greater),
    c.GreaterEqual: compare.comparing(pc.greater_equal),
    b.And: choice.chain(pc.and_kleene),
    b.Or: choice.chain(pc.or_kleene),
    b.Xor: elementwise(pc.xor),
    b.Not: elementwise(pc.invert),
    m.IsIn: membership.is_in,
    m.IsMissing: membership.is_missing,
    w.Case: choice.case,
    w.Coalesce: choice.coalesce,
    k.Cast: casting.cast,
    k.Field: casting.field,
    n.MinOf: choice.extreme(pc.min_element_wise),
    n.MaxOf: choice.extreme(pc.max_element_wise),
    n.ClipLow: choice.clip(pc.max_element_wise),
    n.ClipHigh: choice.clip(pc.min_element_wise),
    n.Log: elementwise(pc.ln),
    n.Exp: elementwise(pc.exp),
    n.Sqrt: elementwise(pc.sqrt),
    s.Matches: text.matches,
    s.Like: text.predicate(pc.match_like),
    s.StartsWith: text.predicate(pc.starts_with),
    s.EndsWith: text.predicate(pc.ends_with),
    s.Contains: text.predicate(pc.match_substring),
    s.Lower: elementwise(pc.utf8_lower),
    s.Upper: elementwise(pc.utf8_upper),
    s.Strip: elementwise(pc.utf8_trim_whitespace),
    s.Length: text.length,
    s.Replace: text.replace,
    s.Slice: text.slice_characters,
    s.Concat: text.concat,
    t.Year: time.part(pc.year),
    t.Month: time.part(pc.month),
    t.Day: time.part(pc.day),
    t.Weekday: time.weekday,
    t.Hour: time.part(pc.hour),
    t.Minute: time.part(pc.minute),
    t.Second: time.part(pc.second),
    t.DateOf: time.date_of,
    t.Floor: time.floor,
}
"""Every operator's kernel; adding an operator adds one line."""
