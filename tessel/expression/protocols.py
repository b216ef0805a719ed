"""What the faster domains ask of storage. Storage implements these; expressions only read them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ColumnFacts", "StatisticsView"]


class ColumnFacts(Protocol):
    """Statistics of one column, one value per row slice."""

    @property
    def minimum(self) -> pa.Array:
        """Not greater than any value present; null where unknown or where nothing is present.

        Of the column's type (its dictionary's values), or of null type without an order.
        """

    @property
    def maximum(self) -> pa.Array:
        """Not less than any value present; as `minimum`."""

    @property
    def minimum_exact(self) -> npt.NDArray[np.bool_]:
        """Whether the minimum is a value of the column; another bound never proves TRUE."""

    @property
    def maximum_exact(self) -> npt.NDArray[np.bool_]:
        """Whether the maximum is a value of the column."""

    @property
    def missing(self) -> npt.NDArray[np.int64]:
        """An upper limit of the values that are null or NaN; negative where it is unknown.

        Where it reaches the row count and the column has an order but no bounds, every value is
        missing.
        """


class StatisticsView(Protocol):
    """What is known, before any data is read, of a number of row slices."""

    @property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows of each row slice."""

    def facts(self, name: str) -> ColumnFacts:
        """Return what is known of a column that the schema has."""
