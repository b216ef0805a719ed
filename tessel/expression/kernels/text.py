"""Kernels of text. Regular expressions run on RE2, so no pattern takes more than linear time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar, numpy_array
from tessel.expression.kernels.values import Kernel, Value, elementwise
from tessel.expression.node import Expression
from tessel.expression.operators.text import Contains, Like, Matches, Replace, Slice, TextPredicate
from tessel.expression.text_bytes import texts_of
from tessel.kernels.search_rows import search_texts


def matches(node: Matches, values: Sequence[Value], result: pa.DataType) -> Value:
    """Search for the regular expression."""
    return pc.match_substring_regex(values[0], node.regex.pattern)


def predicate(function: Callable[[Value, str], Value]) -> Kernel:
    """Return the kernel of a test for a part of a text."""

    def kernel(node: TextPredicate, values: Sequence[Value], result: pa.DataType) -> Value:
        return function(values[0], node.part)

    return kernel


def contains(node: Contains, values: Sequence[Value], result: pa.DataType) -> Value:
    """Search for the part: Arrow's own search looks at each byte for itself."""
    (value,) = values
    if not node.part or not isinstance(value, pa.Array) or not _has_offsets(value.type):
        return pc.match_substring(value, node.part)
    found = search_texts(texts_of(value), node.part.encode())
    return arrow_array(found, mask=numpy_array(value.is_null()) if value.null_count else None)


def _has_offsets(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def like(node: Like, values: Sequence[Value], result: pa.DataType) -> Value:
    """Match a pattern; one that says no more than that a part is there is a search for it."""
    part = node.part[1:-1]
    if node.part == f"%{part}%" and part and not set(part) & set("%_\\"):
        return contains(Contains(node.operand, part), values, result)
    return pc.match_like(values[0], node.part)


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
    "like": like,
    "starts_with": predicate(pc.starts_with),
    "ends_with": predicate(pc.ends_with),
    "contains": contains,
    "lower": elementwise(pc.utf8_lower),
    "upper": elementwise(pc.utf8_upper),
    "strip": elementwise(pc.utf8_trim_whitespace),
    "length": length,
    "replace": replace,
    "slice": slice_characters,
    "concat": concat,
}
