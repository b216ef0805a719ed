"""The fields that kernels reduce by group or by run: sums and extremes.

A float is summed in fixed point, as two or four integers, its limbs. Adding and subtracting ``1.5 *
2**52`` rounds a float below ``2**51`` to an integer, and the remainder is exact (Dekker 1971); it
is scaled up and rounded once more. A remainder behind the last limb would be lost, so kernels check
for it; the caller then takes four limbs, and behind these sums in another way. The limbs are so
narrow that the sum of a chunk of rows fits into 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessel.lazy import dataclass
from tessel.memory import recycled

Integers = NDArray[np.int64]
FieldResult = dict[int, Integers] | NDArray[Any]
"""The result of a field: sums by bit position, or an extreme of each group."""

HALF_BITS = 32
MOST_CHUNK_BITS = 20
"""At most ``2**20`` rows are added before their sums are brought to safety."""
_FEW_LIMBS, _MOST_LIMBS = 2, 4
_LARGEST_EXPONENT = 40
"""Floats of two limbs are below two to this; larger ones would be scaled down, and lose bits."""

FIELDS = (
    "kinds: i64[fields], sources: i64[fields, 2], scales: f64[fields, 3], limbs: i64[fields, 4]"
)
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
        All floats are below ``2**exponent`` in size.
    bits
        All integers of at most 42 bits are below ``2**bits`` in size.
    limbs
        Into how many integers each float is split: two, or four.
    rest
        The register of floats that are summed with those of a field of four limbs, each at most
        half the last bit of the other: what rounding took from it. -1 for none.
    """

    kind: FieldKind
    register: int
    exponent: int = 0
    bits: int = _INTEGER_BITS
    limbs: int = _FEW_LIMBS
    rest: int = -1

    @property
    def is_too_large(self) -> bool:
        """Whether floats may be so large that two limbs lose bits of small ones unseen."""
        return self.exponent > _LARGEST_EXPONENT and self.limbs == _FEW_LIMBS

    @property
    def widened(self) -> SumField:
        """The field with as many limbs as there can be."""
        return self._replace(limbs=_MOST_LIMBS) if self.kind == FieldKind.FLOAT else self

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

    @classmethod
    def of_products(cls, products: int, errors: int, largest: float) -> SumField:
        """Return the field of rounded products, none larger in size, and what rounding took.

        The factors have to be summed beside it, in fields of their own: where their last bits are
        so low that an error would be no float, these lose bits.
        """
        field = cls.of_floats(products, largest)
        return field._replace(limbs=_MOST_LIMBS, rest=errors)


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
    """Return lines for the extremes of each field, integers and floats, as searches begin.

    They are one place long where there is no extreme of their kind.
    """
    extremes = [each.is_float for each in fields if each.kind in EXTREMES]
    integers, floats = (
        recycled((len(fields), count if is_float in extremes else 1), dtype, fill=0)
        for is_float, dtype in ((False, np.int64), (True, np.float64))
    )
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
    kinds
        int64, shape ``(fields,)``: what each is.
    sources
        int64, shape ``(fields, 2)``: its register, and that of what rounding took.
    scales
        float64, shape ``(fields, 3)``: what brings floats to their highest limbs, what brings
        remainders to the next, and what brings to the second limb what rounding took: 0 where
        nothing did.
    limbs
        int64, shape ``(fields, 4)``: the registers of limbs, from the lowest on; -1 for none.
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
        limbs = np.full((len(fields), _MOST_LIMBS), -1, np.int64)
        parts: list[int] = []
        bits: list[int] = []
        used = registers
        for place, field in enumerate(fields):
            if field.kind == FieldKind.INTEGER:
                parts.append(field.register)
                bits.append(field.bits)
            elif field.kind <= FieldKind.FLOAT:
                own = list(range(used, used + field.limbs))
                limbs[place, : field.limbs] = own
                parts += own
                bits += [HALF_BITS if field.kind == FieldKind.WIDE else limb_bits] * field.limbs
                used += field.limbs
        highest = [2.0 ** (limb_bits - 1 - field.exponent) for field in fields]
        next_one, has_rest = 2.0**limb_bits, [field.rest >= 0 for field in fields]
        scales = [[a, next_one, a * next_one * b] for a, b in zip(highest, has_rest, strict=True)]
        sources = [
            [each.register, each.rest if each.rest >= 0 else each.register] for each in fields
        ]
        return cls(
            np.array([field.kind for field in fields], np.int64),
            np.array(sources, np.int64).reshape(-1, 2),
            np.array(scales, np.float64).reshape(-1, 3),
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
            highest = field.exponent + 1 - limb_bits
            places = [highest - limb_bits * below for below in reversed(range(field.limbs))]
        sums_of: dict[int, Integers] = {}
        for place in places:
            for at, half in zip((place, place + HALF_BITS), next(parts), strict=True):
                sums_of[at] = sums_of[at] + half if at in sums_of else half
        found.append(sums_of)
    return found
