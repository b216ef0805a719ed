"""Sums as far as each row, in one pass: of what fits 64 bits, and of doubles not too far apart.

Nearly every column of counts, measurements or prices is such a one; others are added limb by limb.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.sums import sums_from
from tessel.clauses.along_rows.cumulative import Running
from tessel.clauses.values import integers, plain_type, raw_values
from tessel.kernels.running_rows import REST_BITS, exponent_range, run_doubles, run_integers

__all__ = ["running_sums"]

Integers = NDArray[np.int64]

_WORD_BITS, _MANTISSA_BITS = 64, 53
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
        carried, overflow = sums_from(running.states).integers(signed=True)
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
    sums = sums_from(running.states)
    if sums.infinities.any():
        return None
    if len(sums.limbs):
        lowest, above = sums.bit_range
        low, top = min(low, lowest), max(top, above)
    # One bit more for the sum of both.
    if top + 1 - low > _MOST_BITS or max(-low, top) > _MOST_EXPONENT:
        return None
    high, rest = np.zeros((2, running.groups), np.int64)
    words, _ = sums.words(2, low)
    rest[running.carried] = words[:, 0] & ((1 << REST_BITS) - 1)
    high[running.carried] = words[:, 1] << (_WORD_BITS - REST_BITS)
    high[running.carried] |= (words[:, 0] >> REST_BITS) & ((1 << (_WORD_BITS - REST_BITS)) - 1)
    return run_doubles(values, running.present, running.codes, low, high, rest)
