"""Logical encodings: Arrow fields as physical columns, and physical columns as Arrow arrays.

Writers take fields apart with :func:`shred`, readers put them together with :func:`assemble`;
both go by :func:`field_nodes`, which says what physical columns a schema has. Every node of the
tree of fields is one physical column, in preorder: a leaf has its values, a list its offsets, a
struct and a list of fixed size nothing but validity, which every column keeps beside its values.

A page of a list and the page of its items with the same number belong together: the items are cut
where the lists are. So all physical columns of a field have the same number of pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tessel.arrays import fill_null, numpy_array
from tessel.errors import UnsupportedTypeError
from tessel.lazy import dataclass
from tessel.store.encodings.codes import VARIABLE_KINDS, Role, ValueKind
from tessel.store.encodings.values import Bytes, Integers, PhysicalValues, bits_of, native_dtype


@dataclass(frozen=True, slots=True)
class FieldNode:
    """One node of the tree of fields, and the physical column it is kept in.

    Attributes
    ----------
    number, parent
        Its number in preorder over the whole schema, that of the node above it or -1.
    end
        One more than the number of its last descendant.
    path
        Names from the field down, joined by dots; ``item`` for the items of lists.
    role, kind, width
        See :mod:`tessel.store.encodings.codes`. The width of a fixed-size list is its size.
    """

    number: int
    parent: int
    top: int
    end: int
    path: str
    role: Role
    kind: ValueKind
    width: int
    type: pa.DataType

    @property
    def is_dictionary(self) -> bool:
        """Whether the Arrow type is a dictionary: then every page holds codes."""
        return bool(pat.is_dictionary(self.type))


@dataclass(frozen=True, slots=True, eq=False)
class PhysicalColumn:
    """All values of one node, to be cut into pages.

    Attributes
    ----------
    values
        Values of all rows of the node. Of a list: ``length + 1`` int64 places of items in
        ``data``, of kind OFFSETS.  Of dictionary type: ``codes``, and no data.
    validity
        One bool a row, or None where no row is null.
    bounds
        Where each page begins, and the number of rows: int64 of pages + 1.
    """

    node: FieldNode
    values: PhysicalValues
    validity: npt.NDArray[np.bool_] | None
    bounds: Integers
    dictionary: PhysicalValues | None = None

    @property
    def rows(self) -> int:
        """Rows of the node, in all pages."""
        return int(self.bounds[-1])


@dataclass(frozen=True, slots=True, eq=False)
class NodeValues:
    """Decoded rows of one node, to be put together.

    Attributes
    ----------
    values
        Their values; None for structs, lists of fixed size and nulls. Of a list: ``length + 1``
        offsets into the items that are given with it, int32. Of dictionary type: codes.
    validity
        An Arrow bitmap that begins at bit 0, or None where no row is null.
    null_count
        Nulls; -1 where nobody counted.
    dictionary
        Of dictionary type: the values as an Arrow array.
    """

    length: int
    values: PhysicalValues | None
    validity: Bytes | None = None
    null_count: int = -1
    dictionary: pa.Array | None = None


_TIMES = (pa.timestamp("s"), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"))
_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), *_TIMES, pa.duration("s"))
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())

KINDS: dict[int, ValueKind] = {
    pa.null().id: ValueKind.NONE,
    pa.bool_().id: ValueKind.BOOLEAN,
    **dict.fromkeys([t.id for t in _SIGNED], ValueKind.SIGNED),
    **dict.fromkeys([t.id for t in _UNSIGNED], ValueKind.UNSIGNED),
    **dict.fromkeys((pa.float32().id, pa.float64().id), ValueKind.FLOAT),
    pa.decimal128(1).id: ValueKind.DECIMAL,
    pa.string().id: ValueKind.TEXT,
    pa.binary().id: ValueKind.BINARY,
    pa.binary(1).id: ValueKind.FIXED,
}
"""The kind of the values of a leaf, by the id of its type."""


@lru_cache(maxsize=256)
def field_nodes(schema: pa.Schema) -> tuple[FieldNode, ...]:
    """Return the nodes of a schema in preorder.

    Raises UnsupportedTypeError for a type that segments do not hold; names the path and the type.
    """
    nodes: list[FieldNode] = []
    for top, field in enumerate(schema):
        nodes += _nodes(field.type, field.name, len(nodes), -1, top)
    return tuple(nodes)


def _nodes(type_: pa.DataType, path: str, number: int, parent: int, top: int) -> list[FieldNode]:
    role, kind, width, children = _shape(type_, path)
    below: list[FieldNode] = []
    for name, child in children:
        below += _nodes(child, f"{path}.{name}", number + 1 + len(below), number, top)
    end = number + 1 + len(below)
    return [FieldNode(number, parent, top, end, path, role, kind, width, type_), *below]


def _shape(
    type_: pa.DataType, path: str
) -> tuple[Role, ValueKind, int, list[tuple[str, pa.DataType]]]:
    if pat.is_list(type_):
        return Role.LIST, ValueKind.OFFSETS, 4, [("item", type_.value_type)]
    if pat.is_fixed_size_list(type_) and type_.list_size > 0:
        return Role.FIXED_LIST, ValueKind.NONE, type_.list_size, [("item", type_.value_type)]
    if pat.is_struct(type_):
        return Role.STRUCT, ValueKind.NONE, 0, [(field.name, field.type) for field in type_]
    held = type_.value_type if pat.is_dictionary(type_) else type_
    kind = KINDS.get(held.id)
    if kind is None or (kind == ValueKind.NONE and held is not type_):
        raise UnsupportedTypeError(
            f"column {path!r} has type {type_}, which segments do not hold", column=path
        )
    width = 1 if kind == ValueKind.BOOLEAN else 0
    if kind not in VARIABLE_KINDS and kind not in (ValueKind.BOOLEAN, ValueKind.NONE):
        width = held.bit_width // 8
    return Role.VALUES, kind, width, []


# --- taking apart ---------------------------------------------------------------------------------


def shred(
    array: pa.Array, node: FieldNode, nodes: Sequence[FieldNode], page_rows: int
) -> Iterator[PhysicalColumn]:
    """Yield the physical columns of one top-level field, in preorder.

    Parameters
    ----------
    array
        All rows of the field in the segment; may be a slice.
    page_rows
        Top-level rows of a page.
    """
    starts = np.arange(0, len(array), page_rows, dtype=np.int64)
    yield from _shred(array, node, nodes, np.append(starts, len(array)))


def _shred(
    array: pa.Array, node: FieldNode, nodes: Sequence[FieldNode], bounds: Integers
) -> Iterator[PhysicalColumn]:
    if node.role == Role.VALUES:
        yield _shred_leaf(array, node, bounds)
        return
    validity = _validity(array)
    first = nodes[node.number + 1] if node.end > node.number + 1 else None
    if node.role == Role.LIST and first is not None:
        offsets = np.zeros(len(array) + 1, np.int64)
        np.cumsum(numpy_array(fill_null(pc.list_value_length(array), 0)), out=offsets[1:])
        values = PhysicalValues(ValueKind.OFFSETS, 4, len(array), offsets)
        yield PhysicalColumn(node, values, validity, bounds)
        # Items of null lists are dropped: nobody can read them.
        yield from _shred(array.flatten(), first, nodes, offsets[bounds])
        return
    yield PhysicalColumn(node, _no_values(len(array)), validity, bounds)
    if node.role == Role.FIXED_LIST and first is not None:
        size = node.width
        items = array.values.slice(array.offset * size, len(array) * size)
        yield from _shred(items, first, nodes, bounds * size)
        return
    at = node.number + 1
    for place in range(array.type.num_fields):
        yield from _shred(array.field(place), nodes[at], nodes, bounds)
        at = nodes[at].end


def _shred_leaf(array: pa.Array, node: FieldNode, bounds: Integers) -> PhysicalColumn:
    if node.kind == ValueKind.NONE:
        validity = np.zeros(len(array), np.bool_) if len(array) else None
        return PhysicalColumn(node, _no_values(len(array)), validity, bounds)
    if not node.is_dictionary:
        validity = _validity(array)
        return PhysicalColumn(node, physical_values(array), validity, bounds)
    if array.dictionary.null_count:
        array = array.cast(array.type.value_type).dictionary_encode().cast(array.type)
    held = physical_values(array.dictionary)
    validity = _validity(array)
    codes = physical_values(array.indices).data
    if validity is not None:
        # What stands in null slots may be no code at all.
        codes = np.where(validity, codes, 0)
    unsigned = codes.view(f"u{codes.dtype.itemsize}") if codes.dtype.kind == "i" else codes
    empty = np.empty(0, np.uint8)
    values = PhysicalValues(node.kind, node.width, len(array), empty, codes=unsigned)
    return PhysicalColumn(node, values, validity, bounds, held)


def _no_values(length: int) -> PhysicalValues:
    return PhysicalValues(ValueKind.NONE, 0, length, np.empty(0, np.uint8))


def _validity(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    bitmap = array.buffers()[0]
    if bitmap is None or not array.null_count:
        return None
    return bits_of(np.frombuffer(bitmap, np.uint8), array.offset, array.offset + len(array))


def physical_values(array: pa.Array) -> PhysicalValues:
    """Return the values of a plain array (no dictionary, not nested), as views where possible.

    What stands in null slots is kept, except in text and binary, where they become empty.
    """
    _, kind, width, _ = _shape(array.type, "")
    buffers = array.buffers()
    if kind in VARIABLE_KINDS:
        return _variable(array, kind)
    if kind == ValueKind.BOOLEAN:
        held = _viewed(buffers[1], np.dtype(np.uint8), 0, (array.offset + len(array) + 7) // 8)
        bits = bits_of(held, array.offset, array.offset + len(array))
        return PhysicalValues(kind, width, len(array), bits)
    dtype = native_dtype(kind, width)
    per_value = width // dtype.itemsize
    data = _viewed(buffers[1], dtype, array.offset * per_value, len(array) * per_value)
    shaped = data.reshape(len(array), per_value) if kind in _ROWS_OF_BYTES else data
    return PhysicalValues(kind, width, len(array), shaped)


_ROWS_OF_BYTES = frozenset({ValueKind.DECIMAL, ValueKind.FIXED})


def _variable(array: pa.Array, kind: ValueKind) -> PhysicalValues:
    if len(array) == 0:
        nothing = np.empty(0, np.uint8)
        return PhysicalValues(kind, 0, 0, nothing, np.zeros(1, np.int32))
    validity = _validity(array)
    offsets = _viewed(array.buffers()[1], np.dtype(np.int32), array.offset, len(array) + 1)
    if validity is not None and np.any(np.diff(offsets)[~validity]):
        return _variable(fill_null(array, "" if kind == ValueKind.TEXT else b""), kind)
    held = array.buffers()[2]
    data = np.empty(0, np.uint8) if held is None else np.frombuffer(held, np.uint8)
    return PhysicalValues(kind, 0, len(array), data, offsets)


def _viewed(buffer: pa.Buffer | None, dtype: np.dtype[Any], start: int, count: int) -> Any:
    if count == 0 or buffer is None:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count, start * dtype.itemsize)


# --- putting together -----------------------------------------------------------------------------


def assemble(
    node: FieldNode, nodes: Sequence[FieldNode], parts: Sequence[NodeValues | None]
) -> pa.Array:
    """Return the Arrow array of a node and all below it.

    Parameters
    ----------
    node
        The root of what is wanted: a top-level field, or a child projected alone.
    parts
        By node number: what was decoded of each node from ``node.number`` to ``node.end``.
        Offsets of a list count from the first item that is given.
    """
    part = parts[node.number]
    if part is None:
        raise ValueError(f"no values of {node.path!r} were given")
    if node.role == Role.VALUES:
        return to_arrow(node.type, part)
    children = []
    at = node.number + 1
    while at < node.end:
        children.append(assemble(nodes[at], nodes, parts))
        at = nodes[at].end
    buffers = [_buffer(part.validity)]
    if node.role == Role.LIST and part.values is not None:
        buffers.append(_buffer(part.values.data))
    nulls = 0 if part.validity is None else part.null_count
    return pa.Array.from_buffers(node.type, part.length, buffers, nulls, children=children)


def to_arrow(type_: pa.DataType, part: NodeValues) -> pa.Array:
    """Return the Arrow array of a leaf, without copies where the layouts agree."""
    values = part.values
    if values is None or pat.is_null(type_):
        return pa.nulls(part.length, type_)
    nulls = 0 if part.validity is None else part.null_count
    validity = _buffer(part.validity)
    if pat.is_dictionary(type_):
        return _dictionary_array(type_, part, values, validity, nulls)
    if values.kind in VARIABLE_KINDS:
        buffers = [validity, _buffer(values.offsets), _buffer(values.data)]
    elif values.kind == ValueKind.BOOLEAN:
        buffers = [validity, _buffer(np.packbits(values.data, bitorder="little"))]
    else:
        buffers = [validity, _buffer(values.data)]
    return pa.Array.from_buffers(type_, part.length, buffers, nulls)


def _dictionary_array(
    type_: pa.DataType,
    part: NodeValues,
    values: PhysicalValues,
    validity: pa.Buffer | None,
    nulls: int,
) -> pa.Array:
    if values.codes is None or part.dictionary is None:
        raise ValueError(f"{type_} is put together from codes and a dictionary")
    wanted = type_.index_type.to_pandas_dtype()
    codes = _buffer(values.codes.astype(wanted, copy=False))
    indices = pa.Array.from_buffers(type_.index_type, part.length, [validity, codes], nulls)
    return pa.DictionaryArray.from_arrays(
        indices, part.dictionary, ordered=type_.ordered, safe=False
    )


def _buffer(data: npt.NDArray[Any] | None) -> pa.Buffer | None:
    return None if data is None else pa.py_buffer(np.ascontiguousarray(data))
