"""What the faster domains ask of storage. Storage implements these; expressions only read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from tessel.expression.block_entries import Entries

__all__ = ["ArithmeticColumn", "ColumnFacts", "StatisticsView"]


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


class ArithmeticColumn(Protocol):
    """A column at rest whose values are integers, or places in a dictionary, as they are stored."""

    @property
    def entries(self) -> Entries | None:
        """The values that the integers are places of; None where they are the values."""

    @property
    def exponents(self) -> npt.NDArray[np.int64] | None:
        """By page, of float64, the power of ten that integers are divided by.

        Negative for a page of which integers do not say all values: it holds the bits of floats, or
        exceptions. None for a column of integers, which are the values themselves.
        """

    @property
    def bounds(self) -> tuple[Any, Any] | None:
        """Numbers that no value is below or above; None where they are not known.

        Of decimals, integers that no stored one is below or above.
        """

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""

    @property
    def places(self) -> int:
        """The decimal places of integers that stand for values of a decimal type; else 0."""

    @property
    def has_missing(self) -> bool:
        """Whether some row may have no value: null, or NaN but for those in a dictionary."""
