"""What cum_min and cum_max share: the best value up to each row."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.kernels.ordered_numbers import OrderedNumbers
from tessel.clauses.along_rows.cumulative import Cumulative, Running
from tessel.clauses.values import raw_values
from tessel.kernels.running_rows import run_best

__all__ = ["CumulativeExtreme"]


class CumulativeExtreme(Cumulative):
    """A clause that keeps the least or the greatest value so far."""

    @property
    @abstractmethod
    def better(self) -> np.ufunc:
        """``numpy.minimum`` or ``numpy.maximum``."""

    def state_of_all(self, values: pa.Array) -> list[pa.Array] | None:
        """Return the best of numbers none of which is missing."""
        kind = values.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or values.null_count:
            return None
        best = self.better.reduce(raw_values(values, kind.to_pandas_dtype()))
        # A zero is +0.0, whichever was the best; where one is missing, so is the best.
        return None if best != best else [arrow_array([best + 0], kind)]

    def run(self, running: Running, kind: pa.DataType) -> pa.Array:
        """Choose among what lies up to each row; what was carried is a value like others."""
        states = running.states[0]
        # Of text and the like the numbers are places in an order of all values, the carried too.
        both = running.values
        if len(states):
            both = pa.concat_arrays([states, both])
        found = OrderedNumbers.of_values(both)
        numbers = found.in_64_bits
        best, known = np.zeros(running.groups, numbers.dtype), np.zeros(running.groups, np.bool_)
        best[running.carried] = numbers[: len(states)]
        known[running.carried] = numpy_array(states.is_valid())
        best_so_far = run_best(
            numbers[len(states) :],
            running.present,
            running.codes,
            best,
            known,
            greatest=self.better is np.maximum,
        )
        return found.values(found.of_64_bits(best_so_far), running.absent)
