"""Exact sums by group of what a program computes, in one pass."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.fields import (
    HALF_BITS,
    MOST_CHUNK_BITS,
    FieldRegisters,
    FieldResult,
    SumField,
    field_results,
    field_sums,
    started,
)
from tessel.kernels.group_loop import ZERO_REGISTER, add_groups
from tessel.kernels.program import Program
from tessel.lazy import dataclass
from tessel.memory import recycled

Integers = NDArray[np.int64]

_CHUNK_BITS = 17
_WORD = 64
_REGISTERS_A_SLOT = 2
_WORDS_A_LINE = 3
_LANE_BITS = 2
_SPARE_REGISTERS = 4
_NONE = np.zeros(0, np.int64)
_MOST_SPREAD = 1 << 8
"""Rows of more groups seldom follow one of their own, and their sums would leave the cache."""


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Counts and sums by group.

    Attributes
    ----------
    counts
        Rows of each group, int64.
    first_row
        The first row of each group, counted in the segment; -1 for a group without rows, and for
        all where it was not asked for.
    last_row
        The last row of each group, or -1; None where it was not asked for.
    results
        For each field, by exponent, sums to be multiplied by ``2**exponent``; int64, shape
        ``(groups,)``. For an extreme, int64 or float64, shape ``(groups,)``; of a group without
        rows anything.
    """

    counts: Integers
    first_row: Integers
    last_row: Integers | None
    results: list[FieldResult]


def group_sums(
    spans: Sequence[StoredBlocks],
    program: Program,
    *,
    select: int | None,
    group: int | None,
    groups: int,
    fields: Sequence[SumField],
    codes: Integers | None = None,
    ends: Integers | None = None,
    first: bool = True,
    last: bool = False,
) -> GroupSums | None:
    """Add up fields by group, or find their extremes.

    Parameters
    ----------
    spans, program
        The rows, stretches of one segment in order, and what is computed of them.
    select
        The truth register of the rows that count; None for all.
    group
        The integer register of the group numbers, in ``[0, groups)``; None for one group.
    groups
        How many groups there are, in each run.
    fields
        What is reduced.
    codes
        The group of each row that counts, instead of a register.
    ends
        The row behind each run, ascending; None for one run. Each run has groups of its own, those
        of the first one come first; rows of several spans are never of one run.
    first, last
        Whether the first and the last row of each group are wanted.

    Returns
    -------
    GroupSums or None
        None where floats reach over more bits than four limbs hold, or are not finite, and where a
        number is no group: page tables that say otherwise are forged.
    """
    if any(each.is_too_large for each in fields):
        fields = [each.widened for each in fields]
    runs = _NONE if ends is None else ends
    lines = groups * max(len(runs), 1)
    # With many groups, bringing the sums of a chunk together costs more than a short chunk.
    chunk_bits = min(max(_CHUNK_BITS, groups.bit_length() + 4), MOST_CHUNK_BITS)
    held, slots = _laid_out(tuple(fields), program.integers, chunk_bits)
    more = held.used - program.integers + _SPARE_REGISTERS
    integers, floats, truths = program.registers(more)
    integers[:] = 0
    first_row = recycled(lines, np.int64, fill=-1)
    last_row = recycled(lines + 1 if last else 0, np.int64, fill=-1)
    low, high = recycled((2, len(slots.parts), lines), np.int64, fill=0)
    is_keyed = group is not None or codes is not None
    lane_bits = _LANE_BITS if is_keyed and lines <= _MOST_SPREAD else 0
    best, best_floats = started(fields, (lines << lane_bits) + 1)
    selected = program.selected(select)
    count = len(slots.words)
    # Lines of a cache hold whole groups, where these are not small.
    words = count if count < _WORDS_A_LINE else -(-count // 4) * 4
    sums = recycled(((lines << lane_bits) + 1, words), np.int64, fill=0)
    left = _NONE if codes is None else codes
    for span in spans:
        unseen = _NONE
        if first:
            alone = codes is None and ends is None
            unseen = np.flatnonzero(first_row < 0) if alone else np.zeros(1, np.int64)
        if codes is not None and not len(left):
            break
        counted = add_groups(
            *span.arguments,
            *program.arguments,
            integers,
            floats,
            truths,
            *selected,
            -1 if group is None else group,
            left,
            runs,
            int(np.searchsorted(runs, span.start, side="right")),
            *held.arguments,
            slots.parts,
            slots.words,
            int(slots.parts[slots.order[0], 0]),
            1 << chunk_bits,
            lane_bits,
            sums,
            unseen,
            first_row,
            last_row,
            low,
            high,
            best,
            best_floats,
        )
        if counted < 0:
            wide = [each.widened for each in fields]
            if wide == list(fields):
                return None
            return group_sums(
                spans, program, select=select, group=group, groups=groups, fields=wide,
                codes=codes, ends=ends, first=first, last=last,
            )  # fmt: skip
        left = left[counted:]
    counts = (high[slots.order[0]] << HALF_BITS) + low[slots.order[0]]
    order = slots.order[1:].tolist()
    summed = field_sums(fields, [(low[at], high[at]) for at in order], 62 - chunk_bits)
    results = field_results(fields, iter(summed), best[:, :-1], best_floats[:, :-1], 1 << lane_bits)
    return GroupSums(counts, first_row, last_row[:lines] if last else None, results)


@functools.lru_cache(maxsize=64)
def _laid_out(
    fields: tuple[SumField, ...], registers: int, chunk_bits: int
) -> tuple[FieldRegisters, _Slots]:
    """Return how fields lie behind so many registers, alike in all segments.

    A few are kept, for the segments that follow.
    """
    held = FieldRegisters.of(fields, registers, 62 - chunk_bits)
    zero = held.used + _SPARE_REGISTERS + ZERO_REGISTER
    return held, _Slots.of(held, chunk_bits, zero)


@dataclass(frozen=True, eq=False)
class _Slots:
    """Which sums share a word. A slot less is a load, an addition and a store less for every row.

    Attributes
    ----------
    parts
        int64, shape ``(parts, 2)``, by slot and from its low end on: slot, and bits with the sign.
    words
        int64, shape ``(slots, 4)``: a register, another or -1, by how much that is shifted, and a
        constant, which counts rows. Those with one register come first.
    order
        Which part is where: the count, then those of the fields.
    """

    parts: Integers
    words: Integers
    order: Integers

    @classmethod
    def of(cls, held: FieldRegisters, chunk_bits: int, zero: int) -> _Slots:
        """Put several parts into one word where the sums of a chunk leave room for them.

        Where only rows are counted, ``zero`` is the register, in which nothing is.
        """
        widths = [chunk_bits + 2, *(bits + chunk_bits + 1 for bits in held.bits)]
        slots: list[list[int]] = []
        for part in sorted(range(len(widths)), key=lambda part: (-widths[part], part)):
            for slot in slots:
                registers = sum(other > 0 for other in slot)
                full = sum(widths[other] for other in slot) + widths[part] > _WORD
                if not full and (part == 0 or registers < _REGISTERS_A_SLOT):
                    slot.append(part)
                    break
            else:
                slots.append([part])
        slots.sort(key=lambda slot: sum(part > 0 for part in slot) == _REGISTERS_A_SLOT)
        parts: list[tuple[int, int]] = []
        words: list[list[int]] = []
        for number, slot in enumerate(slots):
            shift, constant = 0, 0
            registers_of: list[tuple[int, int]] = []
            # The count is narrow, and above at least one other: those begin at the low end.
            for part in sorted(slot, key=lambda part: part == 0):
                parts.append((number, widths[part]))
                if part == 0:
                    constant = 1 << shift
                else:
                    registers_of.append((held.parts[part - 1], shift))
                shift += widths[part]
            registers_of = registers_of or [(zero, 0)]
            second = registers_of[1] if len(registers_of) > 1 else (-1, 0)
            words.append([registers_of[0][0], *second, constant])
        laid = [part for slot in slots for part in sorted(slot, key=lambda part: part == 0)]
        return cls(np.array(parts, np.int64), np.array(words, np.int64), np.argsort(np.array(laid)))
