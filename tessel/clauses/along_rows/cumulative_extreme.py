"""What cum_min and cum_max share: the best value up to each row."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from tessel.clauses.aggregates.kernels.ordered_numbers import OrderedNumbers
from tessel.clauses.aggregates.kernels.windows import window_extremes
from tessel.clauses.along_rows.cumulative import Cumulative, Running

__all__ = ["CumulativeExtreme"]


class CumulativeExtreme(Cumulative):
    """A clause that keeps the least or the greatest value so far."""

    @property
    @abstractmethod
    def better(self) -> np.ufunc:
        """``numpy.minimum`` or ``numpy.maximum``."""

    def run(self, running: Running, kind: pa.DataType) -> pa.Array:
        """Choose among what lies up to each row; what was carried is a value like others."""
        values = pa.concat_arrays([running.states[0], running.values])
        found = OrderedNumbers.of_values(values)
        numbers = found.numbers
        if values.null_count:
            # A key that was carried without any value is worse than every value.
            absent = values.is_null().to_numpy(zero_copy_only=False)
            numbers = np.where(absent, numbers.dtype.type(found.worst(self.better)), numbers)
        best = window_extremes(numbers[running.order], running.starts, running.stops, self.better)
        return found.values(best, running.missing)
