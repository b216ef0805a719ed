"""Sums as far as each row, in one pass: of what fits 64 bits, and of doubles not too far apart.

Nearly every column of counts, measurements or prices is such a one; others are added limb by limb.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import different
from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.integer_sum import IntegerSums
from tessel.clauses.aggregates.kernels.limbs import LIMB_BITS
from tessel.clauses.aggregates.kernels.part_sums import LEAST_EXPONENT
from tessel.clauses.aggregates.kernels.sums import sums_from
from tessel.clauses.along_rows.cumulative import Running
from tessel.clauses.values import integers, plain_type, raw_values
from tessel.kernels.running_rows import REST_BITS, exponent_range, run_doubles, run_integers

__all__ = ["running_sums"]

Integers = NDArray[np.int64]

_MANTISSA_BITS = 53
# Both integers of a sum are doubles then.
_MOST_BITS = REST_BITS + _MANTISSA_BITS
# Far from where a part of a sum would leave the range of normal doubles.
_MOST_EXPONENT = 800


def running_sums(running: Running, kind: pa.DataType) -> NDArray[Any] | None:
    """Return the sum of the values of the same key as far as each row.

    Returns
    -------
    numpy.ndarray or None
        int64 or float64, shape ``(rows,)``, anything for rows without a value; None where it takes
        more to tell.
    """
    plain = plain_type(kind)
    if pa.types.is_floating(plain):
        return _doubles(running)
    if pa.types.is_integer(plain) or pa.types.is_boolean(plain) or pa.types.is_duration(plain):
        return _integers(running, plain)
    return None


def _integers(running: Running, kind: pa.DataType) -> Integers | None:
    values = integers(running.values)
    if values.dtype == np.uint64:
        # Whichever are below 2**63 are the same number; the others stand for none.
        values = values.view(np.int64)
        if running.present is not None:
            values = np.where(running.present, values, 0)
        if values.min(initial=0) < 0:
            return None
    totals = np.zeros(running.groups, np.int64)
    if len(running.carried):
        sums = sums_from(running.states, kind)
        assert isinstance(sums, IntegerSums)
        carried, overflow = sums.to_integers(signed=True)
        if overflow.any():
            return None
        totals[running.carried] = carried
    return run_integers(values.astype(np.int64, copy=False), running.present, running.codes, totals)


def _doubles(running: Running) -> NDArray[np.float64] | None:
    kind = running.values.type
    values = raw_values(running.values, kind.to_pandas_dtype()).astype(np.float64, copy=False)
    found = exponent_range(values, running.present)
    if found is None:
        return None
    least, most = found
    low, top = least - _MANTISSA_BITS, most + len(values).bit_length()
    sums = None
    if len(running.carried):
        held = sums_from(running.states, kind)
        assert isinstance(held, FloatSums)
        if held.positive_infinity.any() or held.negative_infinity.any():
            return None
        sums = held if len(held.limbs) else None
    if sums is not None:
        lowest, highest = _bit_range(sums)
        low, top = min(low, lowest), max(top, highest)
    # One bit more for the sum of both.
    if top + 1 - low > _MOST_BITS or max(-low, top) > _MOST_EXPONENT:
        return None
    high, rest = np.zeros((2, running.groups), np.int64)
    if sums is not None:
        high[running.carried], rest[running.carried] = _parts(sums, low)
    return run_doubles(values, running.present, running.codes, low, high, rest)


def _bit_range(sums: FloatSums) -> tuple[int, int]:
    """Return powers of two of which all sums are multiples, and below which they all are."""
    lengths = np.diff(sums.ends)
    some = lengths > 0
    first = sums.first_limb[some].astype(np.int64)
    lowest = int(first.min())
    # Zeros at the end of what lies lowest of all.
    ends = np.abs(sums.limbs[sums.ends[:-1][some][first == lowest]])
    bits = int(np.bitwise_or.reduce(ends))
    zeros = (bits & -bits).bit_length() - 1
    last = first + lengths[some] - 1
    highest = int(last.max())
    size = int(np.abs(sums.limbs[sums.ends[1:][some][last == highest] - 1]).max()).bit_length()
    return (
        lowest * LIMB_BITS + LEAST_EXPONENT + zeros,
        highest * LIMB_BITS + LEAST_EXPONENT + size,
    )


def _parts(sums: FloatSums, low: int) -> tuple[Integers, Integers]:
    """Return sums that are multiples of ``2**low`` as two integers; see :func:`run_doubles`."""
    high, rest = np.zeros((2, sums.groups), np.int64)
    places, owners = sums.places()
    for place in different(places).tolist():
        here = places == place
        limbs, groups = sums.limbs[here], owners[here]
        position = place * LIMB_BITS + LEAST_EXPONENT - low
        if position < 0:
            limbs, position = limbs >> -position, 0
        if position >= REST_BITS:
            high[groups] += limbs << (position - REST_BITS)
            continue
        upper = limbs >> (REST_BITS - position)
        high[groups] += upper
        rest[groups] += (limbs - (upper << (REST_BITS - position))) << position
    high += rest >> REST_BITS
    rest &= (1 << REST_BITS) - 1
    return high, rest
