"""Exact sums of Arrow columns by group, and their state as Arrow columns.

Numbers, bools and temporal types are summed as the integers or doubles behind them, decimals as
their unscaled integers, dates as their days (:class:`~tessel.kernels.ExactSums` is the sum).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.values import decimal_words, doubles, integers, plain
from tessel.kernels.accumulators import Limbs
from tessel.kernels.exact_sums import ExactSums

# date64 counts milliseconds, but only whole days are dates: its days are summed.
DAY_MS = 86_400_000

Codes = NDArray[np.int64]

_LIMB_BITS = 32
_LIMB = (1 << _LIMB_BITS) - 1
# Integers up to this size are doubles.
_EXACT = 1 << 53


def sums_of(values: pa.Array, codes: Codes, groups: int) -> ExactSums:
    """Sum plain values without missing ones by group.

    Parameters
    ----------
    values
        Plain array of numbers, bool, null or a temporal type, ``rows`` long.
    codes
        int64, shape ``(rows,)``, in ``[0, groups)``.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        return ExactSums.of_doubles(doubles(values), codes, groups)
    if pa.types.is_decimal(kind):
        return ExactSums.of_decimals(decimal_words(values), codes, groups)
    return ExactSums.of_integers(_whole(values), codes, groups)


def products_of(left: pa.Array, right: pa.Array, codes: Codes, groups: int) -> ExactSums:
    """Sum the products of two columns, or with one column twice its squares, by group."""
    one = _factors(left)
    return ExactSums.of_products(one, one if right is left else _factors(right), codes, groups)


def _whole(values: pa.Array) -> NDArray[Any]:
    numbers = integers(values)
    return numbers // DAY_MS if pa.types.is_date64(values.type) else numbers


def _factors(values: pa.Array) -> list[NDArray[np.float64]]:
    """Return doubles that add up to the values, without rounding."""
    kind = values.type
    if pa.types.is_floating(kind):
        return [doubles(values)]
    if pa.types.is_decimal(kind):
        words = list(decimal_words(values).T)
    else:
        numbers = _whole(values)
        if max(int(numbers.max(initial=0)), -int(numbers.min(initial=0))) <= _EXACT:
            return [numbers.astype(np.float64)]
        words = [numbers]
    unsigned = [word.view(np.uint64) for word in words[:-1]] + words[-1:]
    parts = [half for word in unsigned for half in (word & word.dtype.type(_LIMB), word >> 32)]
    halves = [np.ldexp(part.astype(np.float64), 32 * place) for place, part in enumerate(parts)]
    return [part for part in halves if part.any()] or halves[:1]


# --- states ---------------------------------------------------------------------------------------


def state_fields(of: str = "sum") -> list[pa.Field]:
    """Return names and types of the state columns of an exact sum; ``of`` is what they are of."""
    return [
        pa.field(f"{of}_first_limb", pa.int32()),
        pa.field(f"{of}_limbs", pa.list_(pa.int32())),
        pa.field(f"{of}_infinities", pa.uint8()),
    ]


def state_arrays(sums: ExactSums) -> list[pa.Array]:
    """Lay sums out as the columns of :func:`state_fields`."""
    first, ends, limbs = sums.limbs
    lists = pa.ListArray.from_arrays(arrow_array(ends.astype(np.int32)), arrow_array(limbs))
    return [arrow_array(first), lists, arrow_array(sums.infinities)]


def sums_from(states: Sequence[Any]) -> ExactSums:
    """Rebuild sums from the columns of :func:`state_fields`."""
    first_limb, lists, infinities = map(plain, states)
    ends = numpy_array(lists.offsets).astype(np.int64) if len(lists) else np.zeros(1, np.int64)
    limbs = numpy_array(lists.values)[ends[0] : ends[-1]]
    held = Limbs(numpy_array(first_limb), ends - ends[0], limbs)
    return ExactSums(len(held.first), held, numpy_array(infinities))
