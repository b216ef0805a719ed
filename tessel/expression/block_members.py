"""Whether integers of a block are in a set of values: the step that ``is_in`` becomes.

The encoded domain enters here with what ``is_in`` looks up. The values are those that the column's
type can hold, as the integers that a page has of them; those outside of the bounds of the column
are left out, and what is left chooses the step: one range, the truths of a span, or a hash set.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import numpy_array
from tessel.cached import cached
from tessel.expression.block_steps import GREATEST, LEAST, BlockSteps
from tessel.expression.leaves import ValueSet
from tessel.kernels.word_numbers import word_slots
from tessel.lazy import dataclass

__all__ = ["Members"]

_MOST_SPAN = 1 << 15
"""Truths of a span of integers that stay in the first-level cache."""

_MOST_MEMBERS = 1 << 16
"""Larger sets cost a unit more to hand over than they save."""


@dataclass(frozen=True, eq=False)
class Members:
    """The values of a set as integers.

    Attributes
    ----------
    integers
        int64, ascending, each once.
    has_missing
        Whether the set holds a missing value: then no row is known to be outside.
    """

    integers: npt.NDArray[np.int64]
    has_missing: bool

    @classmethod
    def of(cls, values: ValueSet, kind: pa.DataType) -> Self | None:
        """Return a set beside a column of a type; None where pages hold no integers of it."""
        if not 0 < len(values) <= _MOST_MEMBERS:
            return None
        held: dict[pa.DataType, Self | None] = values.__dict__.setdefault("_block_members", {})
        if kind not in held:  # each unit asks
            held[kind] = cls._made(values, kind)
        return held[kind]

    @classmethod
    def _made(cls, values: ValueSet, kind: pa.DataType) -> Self | None:
        from tessel.expression.kernels.membership import members

        types = pa.types
        if not (types.is_integer(kind) or types.is_temporal(kind)) or types.is_interval(kind):
            return None
        found, has_missing = members(values, kind)
        if types.is_temporal(kind):
            found = found.view(pa.int64() if kind.bit_width == 64 else pa.int32())
        integers = numpy_array(found)
        if integers.dtype == np.uint64:
            integers = integers[integers <= np.uint64(GREATEST)]
        return cls(np.unique(integers.astype(np.int64)), has_missing)

    def steps(self, steps: BlockSteps, register: int, low: Any, high: Any) -> int:
        """Return the truth register of which integers of a register, within bounds, are members."""
        start = np.searchsorted(self.integers, max(int(low), LEAST), "left")
        stop = np.searchsorted(self.integers, min(int(high), GREATEST), "right")
        left = self.integers[start:stop]
        if not len(left):
            return steps.always(False)
        least, most = int(left[0]), int(left[-1])
        if most - least + 1 == len(left):
            return steps.range(register, (least, most))
        if most - least < _MOST_SPAN:
            truths = np.zeros(most - least + 1, np.uint8)
            truths[left - least] = 1
            return steps.span(register, least, truths)
        return steps.member(register, *self._slots)

    @cached
    def _slots(self) -> tuple[npt.NDArray[np.int64], int]:
        return word_slots(self.integers)
