"""Kernels of text. Regular expressions run on RE2, so no pattern takes more than linear time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar
from tessel.expression.kernels.values import Kernel, Value, elementwise
from tessel.expression.node import Expression
from tessel.expression.operators.text import Matches, Replace, Slice, TextPredicate

__all__ = ["KERNELS"]


def matches(node: Matches, values: Sequence[Value], result: pa.DataType) -> Value:
    """Search for the regular expression."""
    return pc.match_substring_regex(values[0], node.regex.pattern)


def predicate(function: Callable[[Value, str], Value]) -> Kernel:
    """Return the kernel of a test for a part of a text."""

    def kernel(node: TextPredicate, values: Sequence[Value], result: pa.DataType) -> Value:
        return function(values[0], node.part)

    return kernel


def length(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Count characters of text, bytes of binary."""
    (value,) = values
    text = pa.types.is_string(value.type) or pa.types.is_large_string(value.type)
    return pc.utf8_length(value) if text else pc.binary_length(value)


def replace(node: Replace, values: Sequence[Value], result: pa.DataType) -> Value:
    """Put one part in place of another."""
    return pc.replace_substring(values[0], pattern=node.old, replacement=node.new)


def slice_characters(node: Slice, values: Sequence[Value], result: pa.DataType) -> Value:
    """Cut characters out."""
    if node.stop is not None and node.stop <= node.start:
        return pc.utf8_slice_codeunits(values[0], start=0, stop=0)
    return pc.utf8_slice_codeunits(values[0], start=node.start, stop=node.stop)


def concat(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Join texts."""
    return pc.binary_join_element_wise(*values, arrow_scalar("", result), null_handling="emit_null")


KERNELS: dict[str, Kernel] = {
    "matches": matches,
    "like": predicate(pc.match_like),
    "starts_with": predicate(pc.starts_with),
    "ends_with": predicate(pc.ends_with),
    "contains": predicate(pc.match_substring),
    "lower": elementwise(pc.utf8_lower),
    "upper": elementwise(pc.utf8_upper),
    "strip": elementwise(pc.utf8_trim_whitespace),
    "length": length,
    "replace": replace,
    "slice": slice_characters,
    "concat": concat,
}
