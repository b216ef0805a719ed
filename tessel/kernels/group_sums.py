"""Exact sums by group of what a program computes, in one pass.

A sum of floats is kept as whole numbers of two powers of two, a high and a low limb. Adding and
subtracting ``1.5 * 2**52`` rounds a float below ``2**51`` to an integer without error in what is
left (Dekker 1971), which is scaled up and rounded once more; what then is still left would be lost,
so it is looked for, and the caller is told to add up otherwise. The limbs are so narrow that a
chunk of rows cannot pass 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import Registers, StoredBlocks, run_blocks
from tessel.kernels.jit import compiled_kernels
from tessel.kernels.program import Program

__all__ = ["LARGEST_EXPONENT", "FieldKind", "GroupSums", "SumField", "group_sums"]

Integers = NDArray[np.int64]

_HALF = 32
_HALF_MASK = (1 << _HALF) - 1
_CHUNK_BITS = 17
_MOST_CHUNK_BITS = 20
_ROUNDER = 1.5 * 2.0**52
_LEAST_EXPONENT = -1074
LARGEST_EXPONENT = 40
"""Floats of fields are below two to this; larger ones would be scaled down, and lose bits."""

_INTEGER_BITS = 62 - _MOST_CHUNK_BITS
# numpy's bincount adds floats: sums of a block of 2**16 rows stay below 2**53.
_BINCOUNT_BITS = 36
_WORD = 64
_REGISTERS_A_SLOT = 2


class FieldKind(IntEnum):
    """What is summed."""

    INTEGER = 0
    """Integers of at most 42 bits."""
    WIDE = 1
    """Any integers: their halves are summed."""
    FLOAT = 2
    """Finite floats."""
    LEAST = 3
    """The least of integers; extremes are of runs only."""
    GREATEST = 4
    LEAST_FLOAT = 5
    GREATEST_FLOAT = 6


@dataclass(frozen=True)
class SumField:
    """One thing to sum.

    Attributes
    ----------
    kind, register
        What it is, and the register that holds it: of floats for floats, else of integers.
    exponent
        All floats are below ``2**exponent`` in size; at most :data:`LARGEST_EXPONENT`.
    bits
        All integers of at most 42 bits are below ``2**bits`` in size.
    """

    kind: FieldKind
    register: int
    exponent: int = 0
    bits: int = _INTEGER_BITS

    @classmethod
    def of_integers(cls, register: int, largest: int) -> SumField:
        """Return the field of integers of which none is larger in size."""
        bits = largest.bit_length()
        if bits > _INTEGER_BITS:
            return cls(FieldKind.WIDE, register)
        return cls(FieldKind.INTEGER, register, bits=bits)

    @classmethod
    def of_floats(cls, register: int, largest: float) -> SumField:
        """Return the field of floats of which none is larger in size."""
        return cls(FieldKind.FLOAT, register, max(0, int(np.frexp(largest)[1])))


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Counts and sums by group.

    Attributes
    ----------
    counts
        Rows of each group, int64.
    first_row
        The first row of each group, counted in the segment; -1 for a group without rows.
    sums
        For each field, by bit position, sums to be multiplied by ``2**position``; int64, shape
        ``(groups,)``. Positions of floats count from the lowest bit that a float can have.
    """

    counts: Integers
    first_row: Integers
    sums: list[dict[int, Integers]]


def group_sums(
    spans: Sequence[StoredBlocks],
    program: Program,
    *,
    select: int | None,
    group: int | None,
    groups: int,
    fields: Sequence[SumField],
) -> GroupSums | None:
    """Add up fields by group.

    Parameters
    ----------
    spans, program
        The rows, stretches of one segment in order, and what is computed of them.
    select
        The truth register of the rows that count; None for all.
    group
        The integer register of the group numbers, in ``[0, groups)``; None for one group.
    groups
        How many groups there are.
    fields
        What is summed.

    Returns
    -------
    GroupSums or None
        None where floats reach over more bits than two limbs hold, or are not finite.
    """
    if any(each.exponent > LARGEST_EXPONENT for each in fields):
        return None
    kernels = compiled_kernels(sum(map(len, spans)))
    if kernels is None:
        return _group_sums_numpy(spans, program, select, group, groups, fields)
    return _group_sums_compiled(kernels, spans, program, select, group, groups, fields)


# --- compiled -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FieldRegisters:
    """What compiled kernels know of fields.

    Attributes
    ----------
    kinds, sources
        int64, shape ``(fields,)``: what each is, and its register.
    scales
        float64, shape ``(fields, 2)``: what brings floats to high limbs, and the rest to low ones.
    limbs
        int64, shape ``(fields, 2)``: the registers of the low and the high limb of what has limbs.
    parts
        The registers that are added up, in the order of the fields.
    bits
        How many bits the numbers of each part have, the sign not counted.
    used
        How many integer registers there are, those of limbs included.
    """

    kinds: Integers
    sources: Integers
    scales: NDArray[np.float64]
    limbs: Integers
    parts: list[int]
    bits: list[int]
    used: int

    @classmethod
    def of(cls, fields: Sequence[SumField], registers: int, limb_bits: int) -> FieldRegisters:
        """Give limbs registers of their own behind those of the program."""
        limbs = np.full((len(fields), 2), -1, np.int64)
        parts: list[int] = []
        bits: list[int] = []
        used = registers
        for place, field in enumerate(fields):
            if field.kind == FieldKind.INTEGER:
                parts.append(field.register)
                bits.append(field.bits)
            elif field.kind <= FieldKind.FLOAT:
                limbs[place] = used, used + 1
                parts += [used, used + 1]
                bits += [_HALF if field.kind == FieldKind.WIDE else limb_bits] * 2
                used += 2
        scales = [[2.0 ** (limb_bits - 1 - f.exponent), 2.0**limb_bits] for f in fields]
        return cls(
            np.array([field.kind for field in fields], np.int64),
            np.array([field.register for field in fields], np.int64),
            np.array(scales, np.float64).reshape(-1, 2),
            limbs,
            parts,
            bits,
            used,
        )

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What compiled kernels take."""
        return self.kinds, self.sources, self.scales, self.limbs


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
    def of(cls, held: FieldRegisters, chunk_bits: int) -> _Slots:
        """Put several parts into one word where the sums of a chunk leave room for them."""
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
            registers_of = registers_of or [(held.used, 0)]
            second = registers_of[1] if len(registers_of) > 1 else (-1, 0)
            words.append([registers_of[0][0], *second, constant])
        laid = [part for slot in slots for part in sorted(slot, key=lambda part: part == 0)]
        return cls(np.array(parts, np.int64), np.array(words, np.int64), np.argsort(np.array(laid)))


def _group_sums_compiled(
    kernels: Any,
    spans: Sequence[StoredBlocks],
    program: Program,
    select: int | None,
    group: int | None,
    groups: int,
    fields: Sequence[SumField],
) -> GroupSums | None:
    # With many groups, bringing the sums of a chunk together costs more than a short chunk.
    chunk_bits = min(max(_CHUNK_BITS, groups.bit_length() + 4), _MOST_CHUNK_BITS)
    limb_bits = 62 - chunk_bits
    held = FieldRegisters.of(fields, program.integers, limb_bits)
    slots = _Slots.of(held, chunk_bits)
    first_row = np.full(groups, -1, np.int64)
    low, high = np.zeros((2, groups, len(slots.parts)), np.int64)
    for span in spans:
        lost = kernels.add_groups(
            *span.arguments,
            *program.arguments,
            -1 if select is None else select,
            -1 if group is None else group,
            *held.arguments,
            slots.parts,
            slots.words,
            int(slots.parts[slots.order[0], 0]),
            1 << chunk_bits,
            first_row,
            low,
            high,
        )
        if lost:
            return None
    lows, highs = low[:, slots.order], high[:, slots.order]
    counts = (highs[:, 0] << _HALF) + lows[:, 0]
    return GroupSums(counts, first_row, field_sums(fields, lows[:, 1:], highs[:, 1:], limb_bits))


def put_halves(low: Integers, high: Integers, sums: Integers) -> None:
    """Add sums of a chunk to the totals of their halves, which no number of chunks fills."""
    low += sums & _HALF_MASK
    high += sums >> _HALF


def field_sums(
    fields: Sequence[SumField], low: Integers, high: Integers, limb_bits: int
) -> list[dict[int, Integers]]:
    """Return the sums of fields by bit position from totals of parts; extremes have none."""
    found: list[dict[int, Integers]] = []
    part = 0
    for field in fields:
        if field.kind > FieldKind.FLOAT:
            continue
        places = [0]
        if field.kind == FieldKind.WIDE:
            places = [0, _HALF]
        elif field.kind == FieldKind.FLOAT:
            first = field.exponent + 1 - limb_bits - _LEAST_EXPONENT
            places = [first - limb_bits, first]
        sums_of: dict[int, Integers] = {}
        for place in places:
            _put(sums_of, place, low[:, part])
            _put(sums_of, place + _HALF, high[:, part])
            part += 1
        found.append(sums_of)
    return found


def _put(sums: dict[int, Integers], place: int, more: Integers) -> None:
    sums[place] = sums[place] + more if place in sums else more


# --- numpy ----------------------------------------------------------------------------------------


def _group_sums_numpy(
    spans: Sequence[StoredBlocks],
    program: Program,
    select: int | None,
    group: int | None,
    groups: int,
    fields: Sequence[SumField],
) -> GroupSums | None:
    counts = np.zeros(groups, np.int64)
    first_row = np.full(groups, -1, np.int64)
    sums: list[dict[int, Integers]] = [{} for _ in fields]
    for first, last, registers in chain.from_iterable(run_blocks(s, program) for s in spans):
        rows = None if select is None else np.flatnonzero(registers.truths[select])
        numbers = np.zeros(last - first, np.int64) if group is None else registers.integers[group]
        numbers = numbers if rows is None else numbers[rows]
        _note_first(first_row, numbers, rows, first)
        counts += np.bincount(numbers, minlength=groups)
        for field, held in zip(fields, sums, strict=True):
            for place, weights in field_weights(field, registers, rows):
                if weights is None:
                    return None
                added = np.bincount(numbers, weights, groups).astype(np.int64)
                _put(held, place, added & _HALF_MASK)
                _put(held, place + _HALF, added >> _HALF)
    return GroupSums(counts, first_row, sums)


def _note_first(first_row: Integers, numbers: Integers, rows: Integers | None, start: int) -> None:
    new = np.flatnonzero(first_row[numbers] < 0)[::-1]
    # Of an index that occurs twice numpy keeps the last value: here the first row.
    first_row[numbers[new]] = start + (new if rows is None else rows[new])


def field_weights(
    field: SumField, registers: Registers, rows: Integers | None
) -> Iterator[tuple[int, NDArray[Any] | None]]:
    """Give what is summed as numbers whose sums over a block floats hold, each with its place.

    None where something is left over at the end.
    """
    if field.kind != FieldKind.FLOAT:
        integers = registers.integers[field.register]
        integers = integers if rows is None else integers[rows]
        if field.kind == FieldKind.INTEGER and field.bits <= _BINCOUNT_BITS:
            yield 0, integers
            return
        yield 0, integers & _HALF_MASK
        if len(integers) and (integers.min() < 0 or integers.max() > _HALF_MASK):
            yield _HALF, integers >> _HALF
        return
    floats = registers.floats[field.register]
    rest = floats.copy() if rows is None else floats[rows]
    place = field.exponent + 1 - _BINCOUNT_BITS
    rest *= 2.0 ** (-place)
    for _ in range(3):
        whole = rest + _ROUNDER
        whole -= _ROUNDER
        yield place - _LEAST_EXPONENT, whole
        rest -= whole
        if not rest.any():
            return
        rest *= 2.0**_BINCOUNT_BITS
        place -= _BINCOUNT_BITS
    yield 0, None
