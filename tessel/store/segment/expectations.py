"""What a schema says about the directory and the pages of every file that has it.

The file reader and its validation enter here. The 20,000 small segments of one symbol share a
schema, so this is computed once a schema and process, and kept by the bytes of its message.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.errors import UnsupportedTypeError
from tessel.lazy import dataclass
from tessel.store.encodings.codes import BYTE_KINDS, EncodingCode, Role, ValueKind
from tessel.store.encodings.fields import FieldNode, field_nodes
from tessel.store.encodings.registry import ENCODINGS
from tessel.store.encodings.values import Integers, stored_kind
from tessel.store.segment.records import COLUMN_RECORD, field_place


def _static_places() -> list[int]:
    places: list[int] = []
    for name in ("column_id", "node", "parent", "width", "role", "reserved", "reserved_2"):
        start = field_place(COLUMN_RECORD, name)
        # Role and kind, a byte each, are one number.
        places += range(start // 2, (start + max(2, COLUMN_RECORD[name].itemsize)) // 2)
    return places


STATIC: Final = np.array(_static_places())
"""What follows from the schema in a line of the directory, in a view of it as u2."""

ENCODINGS_A_NODE: Final = 256
"""Numbers that can stand in the field ``encoding``, legal or not."""

_LARGEST_ID = (1 << 63) - 1


class SchemaDamageError(ValueError):
    """The bytes of a schema are not one that a segment can have; never leaves this part."""


@dataclass(frozen=True, slots=True, eq=False)
class Expectations:
    """A schema, its nodes, and facts of each node as arrays (one element a node).

    Attributes
    ----------
    tops
        By column id, the top-level node.
    column_id, parent, role, kind, width
        What the directory must hold.
    top
        Number of the top-level node above (or the node itself).
    multiplier
        Rows of the node for one top-level row; 0 where a list above makes that vary.
    varying
        Numbers of the nodes of multiplier 0, parents first.
    legal
        Which encodings a data page may have, by number: bool of shape (nodes, 256); below, of as
        many nodes again, those that the dictionary may have.
    may_have_dictionary
        Whether the node may have one.
    is_bytes
        Whether its values are text, binary or fixed bytes.
    static
        What the directory holds at :data:`STATIC`, shape (nodes, places).
    """

    schema: pa.Schema
    nodes: tuple[FieldNode, ...]
    tops: dict[int, FieldNode]
    column_id: Integers
    parent: Integers
    role: Integers
    kind: Integers
    width: Integers
    top: Integers
    multiplier: Integers
    varying: tuple[int, ...]
    legal: npt.NDArray[np.bool_]
    may_have_dictionary: npt.NDArray[np.bool_]
    is_bytes: npt.NDArray[np.bool_]
    static: npt.NDArray[np.uint16]


@lru_cache(maxsize=1024)
def expectations(message: bytes) -> Expectations:
    """Return what a schema message implies.

    Raises SchemaDamageError when it is no schema, or one that segments do not have.
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(message))
        nodes = field_nodes(schema)
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise SchemaDamageError(f"its schema cannot be read: {error}") from error
    except UnsupportedTypeError as error:
        raise SchemaDamageError(error.message) from error
    names = schema.names
    tops = {_column_id(names[node.top]): node for node in nodes if node.parent < 0}
    if len(tops) != len(schema):
        raise SchemaDamageError("two columns have one id")
    ids = {node.top: column_id for column_id, node in tops.items()}
    first = {node.top: node.number for node in tops.values()}
    multiplier = _multipliers(nodes)
    legal = np.array(
        [*(_legal(node) for node in nodes), *(_legal_dictionary(node) for node in nodes)], np.bool_
    ).reshape(2 * len(nodes), ENCODINGS_A_NODE)
    return Expectations(
        schema=schema,
        nodes=nodes,
        tops=tops,
        column_id=_array([ids[node.top] for node in nodes]),
        parent=_array([node.parent for node in nodes]),
        role=_array([node.role for node in nodes]),
        kind=_array([node.kind for node in nodes]),
        width=_array([node.width for node in nodes]),
        top=_array([first[node.top] for node in nodes]),
        multiplier=_array(multiplier),
        varying=tuple(number for number, times in enumerate(multiplier) if times == 0),
        legal=legal,
        may_have_dictionary=np.logical_or.reduce(legal[len(nodes) :], axis=1),
        static=_static(nodes, ids),
        is_bytes=np.array([node.kind in BYTE_KINDS for node in nodes], np.bool_),
    )


def halves(directory: npt.NDArray[np.void]) -> npt.NDArray[np.uint16]:
    """Return a view of a directory as u2, a row a line."""
    return directory.view("<u2").reshape(len(directory), COLUMN_RECORD.itemsize // 2)


def _static(nodes: tuple[FieldNode, ...], ids: dict[int, int]) -> npt.NDArray[np.uint16]:
    directory = np.zeros(len(nodes), COLUMN_RECORD)
    for node in nodes:
        line = directory[node.number]
        line["column_id"], line["node"], line["parent"] = ids[node.top], node.number, node.parent
        line["width"], line["role"], line["kind"] = node.width, node.role, node.kind
    held: npt.NDArray[np.uint16] = halves(directory)[:, STATIC]
    return held


def _array(values: list[int]) -> Integers:
    return np.array(values, np.int64)


def _column_id(name: str) -> int:
    if not (name.isascii() and name.isdecimal()) or str(int(name[:20])) != name:
        raise SchemaDamageError(f"the column {name[:40]!r} is not named by an id")
    if int(name) > _LARGEST_ID:
        raise SchemaDamageError(f"the column id {name} is too large")
    return int(name)


def _multipliers(nodes: tuple[FieldNode, ...]) -> list[int]:
    found: list[int] = []
    for node in nodes:
        if node.parent < 0:
            found.append(1)
            continue
        above = nodes[node.parent]
        times = {Role.LIST: 0, Role.FIXED_LIST: above.width}.get(above.role, 1)
        found.append(found[node.parent] * times)
        if found[-1] >= 1 << 40:
            raise SchemaDamageError(f"the fixed-size lists of {node.path!r} are too large")
    return found


def _legal(node: FieldNode) -> list[bool]:
    codes = range(ENCODINGS_A_NODE)
    if node.kind == ValueKind.NONE:
        return [code == EncodingCode.NOTHING for code in codes]
    if node.is_dictionary:
        return [code in (EncodingCode.DICTIONARY, EncodingCode.ALL_MISSING) for code in codes]
    accepted = _accepted(node.kind, node.width)
    return [code == EncodingCode.ALL_MISSING or accepted[code] for code in codes]


def _legal_dictionary(node: FieldNode) -> list[bool]:
    codes = range(ENCODINGS_A_NODE)
    if node.role != Role.VALUES or node.kind == ValueKind.NONE:
        return [False for _ in codes]
    accepted = _accepted(node.kind, node.width)
    return [code != EncodingCode.DICTIONARY and accepted[code] for code in codes]


@lru_cache(maxsize=64)
def _accepted(kind: ValueKind, width: int) -> tuple[bool, ...]:
    """Return which encodings take values; the same for most columns of a wide table."""
    return tuple(_accepts(code, kind, width) for code in range(ENCODINGS_A_NODE))


def _accepts(code: int, kind: ValueKind, width: int) -> bool:
    encoding = ENCODINGS.get(code)
    if encoding is None or code in (EncodingCode.NOTHING, EncodingCode.ALL_MISSING):
        return False
    if kind == ValueKind.OFFSETS and code == EncodingCode.DICTIONARY:
        return False
    return stored_kind(kind, width, code)[0] in encoding.kinds
