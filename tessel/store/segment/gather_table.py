"""Where single values of a column are found, as small tables of plain integers.

Random access enters here. A page record is 112 bytes of many fields; of a column whose pages are
arithmetic (no nulls, no exceptions, no codec), six numbers a page say where any value lies and what
is made of it. They are put together once a segment and looked up by page number after that, for
several columns at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tessel.lazy import dataclass
from tessel.store.encodings.codes import Codec, EncodingCode, Role, ValueKind
from tessel.store.encodings.fields import FieldNode
from tessel.store.encodings.inner import IS_ADDRESSABLE
from tessel.store.encodings.values import Integers
from tessel.store.segment.file import SegmentFile

NOT_SCALED: Final = -1
"""Stands for the exponent of values that are not scaled."""

_WORD_BYTES = 8
NUMBERS: Final = frozenset({ValueKind.SIGNED, ValueKind.UNSIGNED, ValueKind.FLOAT})
"""Kinds of which an integer, or its bits, is a value."""

_CODES: Final = frozenset({EncodingCode.DICTIONARY})
_FLAT: Final = frozenset({EncodingCode.FLAT})
PLAIN: Final = frozenset({EncodingCode.CONSTANT, EncodingCode.FLAT, EncodingCode.LINEAR})
"""Encodings in which any value is found by arithmetic."""

_OF_NUMBERS: Final = PLAIN | {EncodingCode.SCALED}

HAS_INNER: Final = np.isin(np.arange(256), (EncodingCode.SCALED, EncodingCode.DICTIONARY))
"""By code, whether an encoding keeps its integers in another one."""

_MASKS: Final = np.array([(1 << width) - 1 for width in range(65)], np.uint64).view(np.int64)


class GatherFact:
    """What a line of a gather table says of each page; all are int64, bits where that matters."""

    START = 0
    """Where the first integer lies, from the first byte of the segment."""
    WIDTH = 1
    """Bits of an integer."""
    MASK = 2
    """The bits of a loaded word that are the integer's."""
    BASE = 3
    STEP = 4
    EXPONENT = 5
    """Of ten, or :data:`NOT_SCALED`."""
    COUNT = 6


@dataclass(frozen=True, slots=True, eq=False)
class GatherTable:
    """How values of a top-level leaf are found: ``base + step * i + integer i``, modulo 2**64.

    Attributes
    ----------
    node
        The column.
    facts
        Shape (:attr:`GatherFact.COUNT`, pages), read-only.
    shift
        Row ``r`` is in page ``r >> shift``.
    is_coded
        Whether the integers are places in the column's dictionary; else they are the values.
    least_exponent, most_exponent
        Over all pages.
    is_flat
        Whether the pages hold the values as Arrow does.
    """

    node: FieldNode
    facts: Integers
    shift: int
    is_coded: bool
    least_exponent: int
    most_exponent: int
    is_flat: bool


def gather_table(file: SegmentFile, node: FieldNode) -> GatherTable | None:
    """Return the table of a column; None where its pages are not all of the plain kind.

    Parameters
    ----------
    file
        The segment; the page table of the column is read if it was not.
    """
    if node.role != Role.VALUES or node.parent >= 0 or node.is_dictionary:
        return None
    records = file.pages(node.number)
    encodings = set(records["encoding"].tolist())
    coded = encodings == _CODES
    if not coded and (node.kind not in NUMBERS or not encodings <= _OF_NUMBERS):
        return None
    compressed = records["codec"] != Codec.NONE
    if compressed.any() or records["null_count"].any() or records["exceptions"].any():
        return None
    if not IS_ADDRESSABLE[records["inner"][HAS_INNER[records["encoding"]]]].all():
        return None
    facts = gather_facts(records, node)
    ends = facts[GatherFact.START] + (records["row_count"] * facts[GatherFact.WIDTH] >> 3)
    if len(records) == 0 or int(ends.max()) + _WORD_BYTES > file.length:
        return None
    exponents = facts[GatherFact.EXPONENT]
    return GatherTable(
        node=node,
        facts=facts,
        shift=file.page_shift(node.number),
        is_coded=coded,
        least_exponent=int(exponents.min()),
        most_exponent=int(exponents.max()),
        is_flat=encodings == _FLAT,
    )


@dataclass(frozen=True, slots=True, eq=False)
class GatherStack:
    """The tables of several columns of a segment that are cut alike.

    Attributes
    ----------
    tables
        One a column.
    facts
        Theirs, shape (:attr:`GatherFact.COUNT`, columns, pages), read-only.
    first_flags
        Where the pages of each column begin among all page records of the file, shape (columns, 1).
    """

    tables: tuple[GatherTable, ...]
    facts: Integers
    first_flags: Integers

    @classmethod
    def of(cls, tables: Sequence[GatherTable], first_flags: Sequence[int]) -> GatherStack:
        """Put tables on each other; they have as many pages each."""
        facts = np.stack([table.facts for table in tables], axis=1)
        facts.flags.writeable = False
        return cls(tuple(tables), facts, np.array(first_flags, np.int64)[:, None])


def gather_facts(records: npt.NDArray[np.void], node: FieldNode) -> Integers:
    """Return what a gather table says of pages; of pages that are not plain, maybe nothing true."""
    facts = np.empty((GatherFact.COUNT, len(records)), np.int64)
    flat = records["encoding"] == EncodingCode.FLAT
    # Of constants, only the base means anything.
    alone = flat | (records["encoding"] == EncodingCode.CONSTANT)
    facts[GatherFact.START] = records["offset"].view(np.int64) + records["starts"][:, 0]
    facts[GatherFact.WIDTH] = np.where(alone, 0, records["bit_width"])
    facts[GatherFact.WIDTH][flat] = 1 if node.kind == ValueKind.BOOLEAN else node.width * 8
    facts[GatherFact.MASK] = _MASKS[facts[GatherFact.WIDTH]]
    facts[GatherFact.BASE] = np.where(flat, 0, records["base"].view(np.int64))
    facts[GatherFact.STEP] = np.where(alone, 0, records["step"].view(np.int64))
    scaled = records["encoding"] == EncodingCode.SCALED
    facts[GatherFact.EXPONENT] = np.where(scaled, records["exponent"], NOT_SCALED)
    facts.flags.writeable = False
    return facts
