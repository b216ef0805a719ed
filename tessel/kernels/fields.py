"""The fields that kernels reduce by group or by run: sums and extremes.

A float is summed in fixed point, as two integers: a high and a low limb. Adding and subtracting
``1.5 * 2**52`` rounds a float below ``2**51`` to an integer, and the remainder is exact (Dekker
1971); it is scaled up and rounded once more. A remainder behind the second limb would be lost, so
kernels check for it and the caller then sums in another way. The limbs are so narrow that the sum
of a chunk of rows fits into 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessel.lazy import dataclass

Integers = NDArray[np.int64]
FieldResult = dict[int, Integers] | NDArray[Any]
"""The result of a field: sums by bit position, or an extreme of each group."""

HALF_BITS = 32
MOST_CHUNK_BITS = 20
"""At most ``2**20`` rows are added before their sums are brought to safety."""
LARGEST_EXPONENT = 40
"""Floats of fields are below two to this; larger ones would be scaled down, and lose bits."""

FIELDS = "kinds: i64[fields], sources: i64[fields], scales: f64[fields, 2], limbs: i64[fields, 2]"
"""Declares what kernels take of fields: ``FieldRegisters.arguments``."""

_INTEGER_BITS = 62 - MOST_CHUNK_BITS


class FieldKind(IntEnum):
    """What is summed."""

    INTEGER = 0
    """Integers of at most 42 bits."""
    WIDE = 1
    """Any integers: their halves are summed."""
    FLOAT = 2
    """Finite floats."""
    LEAST = 3
    """The least of integers."""
    GREATEST = 4
    LEAST_FLOAT = 5
    GREATEST_FLOAT = 6


class SumField(NamedTuple):
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

    @property
    def is_too_large(self) -> bool:
        """Whether floats may be so large that scaling them down loses bits of small ones."""
        return self.exponent > LARGEST_EXPONENT

    @property
    def is_float(self) -> bool:
        """Whether the register is one of floats."""
        return self.kind in (FieldKind.FLOAT, FieldKind.LEAST_FLOAT, FieldKind.GREATEST_FLOAT)

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


EXTREMES = {
    FieldKind.LEAST: np.minimum,
    FieldKind.GREATEST: np.maximum,
    FieldKind.LEAST_FLOAT: np.minimum,
    FieldKind.GREATEST_FLOAT: np.maximum,
}
"""What finds an extreme, by the kind of its field."""


def field_results(
    fields: Sequence[SumField],
    sums: Iterator[FieldResult],
    integers: Integers,
    floats: NDArray[Any],
    lanes: int = 1,
) -> list[FieldResult]:
    """Return the results of all fields, in their order.

    Extremes have a row a field, and in it so many ``lanes`` a group, side by side.
    """
    found: list[FieldResult] = []
    for place, field in enumerate(fields):
        if field.kind not in EXTREMES:
            found.append(next(sums))
        else:
            held = (floats if field.is_float else integers)[place]
            found.append(EXTREMES[field.kind].reduce(held.reshape(-1, lanes), axis=1))
    return found


def started(fields: Sequence[SumField], count: int) -> tuple[Integers, NDArray[np.float64]]:
    """Return lines for the extremes of each field, integers and floats, as searches begin."""
    integers = np.zeros((len(fields), count), np.int64)
    floats = np.zeros((len(fields), count), np.float64)
    limits = np.iinfo(np.int64)
    for place, field in enumerate(fields):
        if field.kind in EXTREMES:
            # What every number is better than.
            greatest = EXTREMES[field.kind] is np.maximum
            integers[place] = limits.min if greatest else limits.max
            floats[place] = -np.inf if greatest else np.inf
    return integers, floats


@dataclass(frozen=True, eq=False)
class FieldRegisters:
    """What kernels know of fields.

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
                bits += [HALF_BITS if field.kind == FieldKind.WIDE else limb_bits] * 2
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
        """What kernels take; see :data:`FIELDS`."""
        return self.kinds, self.sources, self.scales, self.limbs


def field_sums(
    fields: Sequence[SumField], halves: Iterable[tuple[Integers, Integers]], limb_bits: int
) -> list[dict[int, Integers]]:
    """Return the sums of fields by bit position from both halves of parts; extremes have none."""
    found: list[dict[int, Integers]] = []
    parts = iter(halves)
    for field in fields:
        if field.kind > FieldKind.FLOAT:
            continue
        places = [0]
        if field.kind == FieldKind.WIDE:
            places = [0, HALF_BITS]
        elif field.kind == FieldKind.FLOAT:
            first = field.exponent + 1 - limb_bits
            places = [first - limb_bits, first]
        sums_of: dict[int, Integers] = {}
        for place in places:
            for at, half in zip((place, place + HALF_BITS), next(parts), strict=True):
                sums_of[at] = sums_of[at] + half if at in sums_of else half
        found.append(sums_of)
    return found
