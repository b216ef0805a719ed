"""What the faster domains ask of storage. Storage implements these; expressions only read them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ColumnFacts", "NumberBounds", "StatisticsView"]


class NumberBounds(Protocol):
    """Bounds of one column as numpy compares them with a constant, one a row slice."""

    @property
    def type(self) -> pa.DataType:
        """The type of the column: integers, float64 or instants by their counts, or text."""

    @property
    def low(self) -> npt.NDArray[Any]:
        """Not greater than any value present; to be looked at where ``known``."""

    @property
    def high(self) -> npt.NDArray[Any]:
        """Not less than any value present."""

    @property
    def bounded(self) -> npt.NDArray[np.bool_]:
        """Whether some value is neither null nor NaN."""

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether both bounds are known."""

    def without(self, text: str) -> npt.NDArray[np.bool_]:
        """Return a mask: which row slices do not hold a text, for a column of text."""


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

    @property
    def numbers(self) -> NumberBounds | None:
        """The same bounds as numbers, where they are at hand; Arrow arrays are not made then."""


class StatisticsView(Protocol):
    """What is known, before any data is read, of a number of row slices."""

    @property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows of each row slice."""

    def facts(self, name: str) -> ColumnFacts:
        """Return what is known of a column that the schema has."""
