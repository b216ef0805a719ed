"""Keys of rows as they are stored, as numbers: arithmetic on codes and integers, no value decoded.

Reductions of stored rows enter here with what they opened. A key is a dictionary code, or an
integer less the least of its segment, which may stand for a decimal; several keys make one number.
Their values are looked up for the result only. Each segment has numbers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.grouped.grouping import group_codes, numbered_by_appearance
from tessel.clauses.grouped.numbered_keys import NumberedKey
from tessel.clauses.grouped.numbering import WIDEST
from tessel.clauses.stored_numbers import decimal_integers
from tessel.clauses.values import is_temporal, plain_type
from tessel.expression.block_columns import Number
from tessel.expression.block_entries import Entries
from tessel.expression.block_steps import Operand
from tessel.expression.encoded import BlockProgram
from tessel.expression.schema import TableSchema
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.program import Program
from tessel.kernels.register_rows import register_rows
from tessel.lazy import dataclass
from tessel.store.manifest.lazy_columns import OpenedBatch

Integers = NDArray[np.int64]

_MOST_FEW = 1 << 16
"""More groups are told apart by a hash table faster than by arithmetic."""

_ROWS_A_GROUP = 4
"""Few groups must be fewer than rows, too, or clearing sums costs more than adding."""


@dataclass(frozen=True, eq=False)
class NumberedGroups:
    """How the rows of one segment are numbered by their keys.

    Attributes
    ----------
    keys
        The keys, which :func:`~tessel.clauses.grouped.numbered_keys.key_values` takes.
    register
        The register of the numbers; None where all rows are one group.
    groups
        How many there can be.
    select
        The truth register of the rows that have a number; None for all.
    are_few
        Whether there may be a line of sums for each.
    """

    keys: Sequence[NumberedKey]
    register: int | None
    groups: int
    select: int | None
    are_few: bool = True

    def by_appearance(
        self, spans: Sequence[StoredBlocks], program: Program, *more: int
    ) -> tuple[Integers, Integers, Integers] | None:
        """Return numbers of rows by key, in order of first appearance.

        Parameters
        ----------
        spans, program
            The rows, and what computes their numbers.
        more
            Other registers of integers.

        Returns
        -------
        tuple or None
            The number that each group has by its keys; the group of each row that counts; of the
            first row of each group the other registers, int64, shape ``(len(more), groups)``. None
            where a number is not among those that there can be: page tables that say otherwise are
            forged.
        """
        assert self.register is not None  # one group is few
        asked = [self.register, *more]
        lines = register_rows(spans, program, select=self.select, registers=asked)
        cells = lines[0]
        if len(cells) and cells.view(np.uint64).max() >= self.groups:
            return None
        codes, first = numbered_by_appearance(cells, self.groups)
        return cells[first], codes, lines[1:, first]


@dataclass(frozen=True, eq=False)
class PlannedGroups:
    """How rows are numbered by their keys, in all segments that share a program.

    Attributes
    ----------
    keys
        The keys, and of those that are the integers of a stored column less the least of a segment
        the number of the column: what they are in the segment is not known yet.
    register, select
        As in :class:`NumberedGroups`.
    """

    keys: Sequence[tuple[NumberedKey, int | None]]
    register: int | None
    select: int | None

    def bound(self, opened: OpenedBatch[Any]) -> NumberedGroups | None:
        """Return how rows of one segment are numbered; None where there are too many numbers."""
        keys: list[NumberedKey] = []
        groups = 1
        for key, place in self.keys:
            keys.append(key if place is None else key.within(opened.columns[place].bounds))
            groups *= keys[-1].size
            if not 0 < groups <= WIDEST:
                return None
        are_few = groups <= min(_MOST_FEW, max(opened.rows // _ROWS_A_GROUP, 1))
        return NumberedGroups(keys, self.register, groups, self.select, are_few)

    def few(self, opened: OpenedBatch[Any]) -> NumberedGroups | None:
        """Return what `bound` does where there may be a line of sums for each; else None."""
        found = self.bound(opened)
        return found if found is not None and found.are_few else None


def planned_groups(
    program: BlockProgram,
    select: int | None,
    keys: Sequence[str],
    schema: TableSchema,
    *,
    drop_missing: bool,
) -> PlannedGroups | None:
    """Return how rows are numbered by their keys; None where that takes their values.

    Parameters
    ----------
    program
        Has all keys.
    select
        The truth register of the rows that count; None for all.
    keys
        The columns.
    schema
        Their types.
    drop_missing
        Whether rows with a missing key fall away.

    Where a key is computed, the plan depends on the very bounds of columns.
    """
    held: list[tuple[NumberedKey, int | None]] = []
    combined: int | None = None
    for name in keys:
        found = _key(program, name, plain_type(schema.type_of(name)))
        if found is None:
            return None
        key, register, known, place = found
        size: int | Operand = key.size if place is None else Operand(place, is_size=True)
        if known is not None and drop_missing:
            select = program.both(select, known)
            if key.entries is None:  # the places of a dictionary are checked, also under nulls
                register = program.chosen(register, known, 0)
        elif known is not None:  # missing is a value like others, the last one
            register = program.chosen(register, known, size)
            key = replace(key, size=key.size + 1, missing=key.size)
            size = key.size if place is None else Operand(place, is_size=True, more=1)
        held.append((key, place))
        combined = register if combined is None else program.combined(combined, size, register)
    return PlannedGroups(held, combined, select)


def _key(
    program: BlockProgram, name: str, kind: pa.DataType
) -> tuple[NumberedKey, int, int | None, int | None] | None:
    """Return a key, the registers of its numbers and of which are known, and its stored column."""
    coded = program.codes(name)
    if coded is not None:
        return _coded_key(program, *coded, kind)
    number, places = program.number(name), 0
    types = pa.types
    counted = types.is_integer(kind) or types.is_boolean(kind) or is_temporal(kind)
    if number is not None and number.is_float:
        decimals = decimal_integers(program, name, kind)
        if decimals is None:
            return None
        number, places = decimals
    elif number is None or not counted:
        return None
    place = program.place(name) if counted else None
    if place is not None:
        key = NumberedKey(0, None, 0, kind)
        return key, program.counted_from_least(name), number.known, place
    size = number.high - number.low + 1
    if size > WIDEST:
        return None
    register = program.shifted(number, -number.low).register
    key = NumberedKey(size, None, number.low, kind, places=places)
    return key, register, number.known, None


def _coded_key(
    program: BlockProgram, number: Number, entries: Entries, kind: pa.DataType
) -> tuple[NumberedKey, int, int | None, None] | None:
    """Return a key of codes; where two of them stand for one key, they become one number."""
    own = entries.values.type
    if (pa.types.is_string(own) or pa.types.is_integer(own)) and entries.are_distinct:
        key = NumberedKey(len(entries), entries.values, 0, kind)
        return key, number.register, number.known, None
    # A dictionary of floats may hold both zeros, and a NaN, whose rows have no key.
    found = group_codes([entries.values], drop_missing=True)
    if not len(found):
        return None
    key = NumberedKey(len(found), found.keys[0], 0, kind)
    if len(found) < len(entries):
        numbers = np.zeros(len(entries), np.int64)
        numbers[slice(None) if entries.known is None else entries.known] = found.codes
        number = program.looked_up(number, numbers)
    return key, number.register, number.known, None
