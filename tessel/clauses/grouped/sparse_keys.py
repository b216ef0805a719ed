"""Sums by group where keys may have more combinations of values than sums can have lines for.

A *cell* is a combination of values that keys may have. Where cells are few, sums have a line for
each. Where they are many, and most may be empty, the cell of each row is written down beside the
values that are summed; cells are numbered in order of first appearance, and rows are added by these
numbers. Only what arithmetic needs is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.grouped.grouping import numbered_by_appearance
from tessel.kernels.exact_sums import add_by_group
from tessel.kernels.fields import EXTREMES, FieldKind, FieldResult, SumField
from tessel.kernels.group_sums import GroupSums
from tessel.kernels.program import Program
from tessel.kernels.register_rows import register_rows as rows_of_registers
from tessel.store.manifest.opened_batch import OpenedBatch

__all__ = ["sums_of_sparse_keys"]

_HALF_BITS = 32
_HALF_MASK = (1 << _HALF_BITS) - 1
_MOST_BITS = 62

Integers = NDArray[np.int64]


def sums_of_sparse_keys(
    opened: OpenedBatch[Any],
    program: Program,
    *,
    select: int | None,
    cell: int,
    cells: int,
    fields: Sequence[SumField],
    row: int | None,
) -> tuple[Integers, GroupSums] | None:
    """Add up fields by cell, or find their extremes.

    Parameters
    ----------
    opened, program
        The rows, and what is computed of them.
    select
        The truth register of the rows that count; None for all.
    cell, cells
        The integer register of the cells, in ``[0, cells)``.
    fields
        What is reduced.
    row
        The register of the rows, where the first and the last of each group are wanted.

    Returns
    -------
    tuple or None
        The cells that have rows, in order of first appearance, and what was found of each; rows are
        all 0 where they were not asked for. None where sums might leave 64 bits or are of floats,
        and where a number is no cell: page tables that say otherwise are forged.
    """
    room = _MOST_BITS - opened.rows.bit_length()
    for field in fields:
        if field.kind in (FieldKind.WIDE, FieldKind.FLOAT):
            return None
        if field.kind is FieldKind.INTEGER and field.bits > room:
            return None
    asked = dict.fromkeys([cell, *(_register(field) for field in fields)])
    if row is not None:
        asked[row] = None
    registers = list(asked)
    lines = rows_of_registers(opened.spans, program, select=select, registers=registers)
    line = {register: lines[place] for place, register in enumerate(registers)}
    if len(line[cell]) and not 0 <= line[cell].min() <= line[cell].max() < cells:
        return None
    codes, first = numbered_by_appearance(line[cell], cells)
    results = [_reduced(field, line[_register(field)], codes, len(first)) for field in fields]
    counts = np.bincount(codes, minlength=len(first))
    first_row = np.zeros(len(first), np.int64)
    last_row = None
    if row is not None:
        first_row, last_row = line[row][first], np.empty(len(first), np.int64)
        last_row[codes] = line[row]  # of an index that occurs twice numpy keeps the last value
    return line[cell][first], GroupSums(counts, first_row, last_row, results)


def _register(field: SumField) -> int:
    return ~field.register if field.is_float else field.register


def _reduced(field: SumField, line: Integers, codes: Integers, groups: int) -> FieldResult:
    better = EXTREMES.get(field.kind)
    if better is None:
        sums = np.zeros(groups, np.int64)
        add_by_group(sums, codes, line)
        high = sums >> _HALF_BITS
        return {0: sums & _HALF_MASK, _HALF_BITS: high} if high.any() else {0: sums}
    values: NDArray[np.int64] | NDArray[np.float64] = line
    if field.is_float:
        values = line.view(np.float64)
    best = np.empty(groups, values.dtype)
    best[codes] = values  # any of a group's own, to begin with
    better.at(best, codes, values)
    return best
