"""The order of rows by keys: what sort and top_k stand on, in memory and past it.

An :class:`Ordering` says by which columns, in which directions, and where missing values go. Within
one table each key becomes one or two columns of machine numbers (text becomes ranks of its distinct
values, a dictionary is never decoded row by row), and the rows are brought in order from the last
key to the first by stable sorts, of which one on numbers that are in order already costs a glance.

The order is that of the semantics: stable; missing values (null or NaN, one key) last in both
directions unless told otherwise; −0.0 and 0.0 equal; False before True; text by code point, which
is the order of its UTF-8 bytes; binary by byte; temporal types by the instant, decimals by value.

Many numbers are brought in stable order as integers, floats as the integers in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.grouped.numbering import Column, dictionary_parts
from tessel.clauses.values import (
    decimal_integers,
    decimal_words,
    integers,
    is_hashable,
    is_text_or_binary,
    missing_rows,
    normalised,
    rank_codes,
    raw_values,
)
from tessel.errors import DuplicateColumnError, PlanError, UnsupportedTypeError
from tessel.expression.schema import TableSchema
from tessel.kernels.order_words import order_of_integers
from tessel.lazy import dataclass

Rows = NDArray[np.int64]

_FEW_ROWS = 1024
"""Fewer rows are ordered in less time than a kernel takes to be called."""

_SIGN = np.int64(-1 << 63)


def stable_order(values: NDArray[Any]) -> Rows:
    """Return the rows in the order of their values, equal ones as they come.

    Parameters
    ----------
    values
        Bool, integers or floats without NaN, shape ``(rows,)``.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(rows,)``.
    """
    if len(values) < _FEW_ROWS:
        return np.argsort(values, kind="stable").astype(np.int64, copy=False)
    if values.dtype.kind == "f":
        # Adding zero makes one of both zeros. The bits of positive floats are in their order as
        # integers, those of negative ones, but for the sign, in the opposite one.
        found: Rows = (values.astype(np.float64, copy=False) + 0.0).view(np.int64)
        turned = found >> 63
        turned &= ~_SIGN
        found ^= turned
    elif values.dtype == np.uint64:
        found = values.view(np.int64) ^ _SIGN
    else:
        found = np.ascontiguousarray(values, np.int64)
    return order_of_integers(found)


Missing = Literal["last", "first"]

# Rows past which the first few are looked for before they are ordered.
_FEW = 4


@dataclass(frozen=True)
class Ordering:
    """By which columns rows are ordered.

    Attributes
    ----------
    by
        Names of the columns, the most significant first.
    descending
        For each of them whether it is ordered downwards.
    missing
        Where rows go that miss a value, in both directions.
    """

    by: tuple[str, ...]
    descending: tuple[bool, ...]
    missing: Missing = "last"

    def check(self, clause: str) -> None:
        """Refuse what says no order; part of making a clause."""
        if not self.by:
            raise PlanError(f"{clause} needs a column to order by", clause=clause)
        for name in self.by:
            if not isinstance(name, str):
                raise PlanError(f"{clause}: a column is named by text, not by {name!r}")
            if self.by.count(name) > 1:
                raise DuplicateColumnError(
                    f"{clause} names {name!r} twice", hint="name it once", column=name
                )
        if len(self.descending) != len(self.by):
            raise PlanError(
                f"{clause}: {len(self.descending)} directions for {len(self.by)} columns",
                hint="give descending for each column, or one for all",
                clause=clause,
            )
        for direction in self.descending:
            if not isinstance(direction, bool):
                raise PlanError(f"{clause}: descending is true or false, not {direction!r}")
        if self.missing not in ("last", "first"):
            raise PlanError(
                f"{clause}: missing is {self.missing!r}", hint="it is last or first", clause=clause
            )

    def check_types(self, schema: TableSchema) -> None:
        """Refuse columns that do not exist or whose values have no order.

        Raises ColumnNotFoundError with the nearest name; UnsupportedTypeError for lists, structs
        and the like.
        """
        schema.require(self.by)
        for name in self.by:
            if not is_hashable(schema.type_of(name)):
                raise UnsupportedTypeError(
                    f"column {name!r} of type {schema.type_of(name)} has no order",
                    hint="rows are ordered by bool, numbers, decimals up to 128 bits, text, "
                    "binary, dates, times, timestamps or durations; take a part of the column "
                    "with apply first",
                    column=name,
                    type=str(schema.type_of(name)),
                )

    def keeps_index(self, schema: TableSchema) -> bool:
        """Return whether rows in this order are in that of the time index."""
        return self.by[0] == schema.index and not self.descending[0]

    def order(self, table: pa.Table) -> Rows | None:
        """Return the rows of a table in order; None where they are in order already.

        Rows of equal keys keep their order.

        Returns
        -------
        numpy.ndarray or None
            int64, shape ``(rows,)``: row numbers, first to last.
        """
        return _order_by(self._numbers(table))

    def order_and_numbers(self, table: pa.Table) -> tuple[Rows, list[NDArray[Any]]]:
        """Return the rows of a table in order, and the columns of numbers that order them.

        Returns
        -------
        order : numpy.ndarray
            int64, shape ``(rows,)``: row numbers, first to last.
        numbers : list of numpy.ndarray
            Each of shape ``(rows,)``; keys of two rows are equal where all their numbers are.
        """
        numbers = self._numbers(table)
        order = _order_by(numbers)
        return (np.arange(table.num_rows, dtype=np.int64) if order is None else order), numbers

    def first(self, table: pa.Table, count: int) -> Rows | None:
        """Return what :meth:`order` begins with; None where that is how the table begins.

        Parameters
        ----------
        table
            Rows, of which at least the keys are there.
        count
            How many; fewer where the table has no more.
        """
        numbers = self._numbers(table)
        rows: Rows = np.arange(table.num_rows, dtype=np.int64)
        for each in numbers:
            if len(rows) <= _FEW * count or not count:
                break
            values = each[rows]
            last = np.partition(values, count - 1)[count - 1]
            rows = rows[values <= last]
            if values.min() < last:
                break  # from here on only rows that are equal so far compete
        order = _order_by([each[rows] for each in numbers])
        if order is None:
            chosen = rows[:count]
            return None if len(chosen) and chosen[-1] == len(chosen) - 1 else chosen
        return rows[order[:count]]

    def _numbers(self, table: pa.Table) -> list[NDArray[Any]]:
        """Return columns of numbers by which, one after the other, the rows ascend."""
        found: list[NDArray[Any]] = []
        for name, downwards in zip(self.by, self.descending, strict=True):
            missing, columns = _as_numbers(table.column(name))
            if missing is not None:
                found.append(missing if self.missing == "last" else ~missing)
                columns = [np.where(missing, column.dtype.type(0), column) for column in columns]
            found += [_reversed(column) if downwards else column for column in columns]
        return found


def _order_by(numbers: Sequence[NDArray[Any]]) -> Rows | None:
    """Return the rows in order of columns of numbers; None where they are in order already."""
    order: Rows | None = None
    for each in reversed(numbers):
        order = _then_by(each, order)
    return order


def _then_by(numbers: NDArray[Any], order: Rows | None) -> Rows | None:
    """Bring rows that are in some order in that of their numbers, keeping it among equal ones."""
    values = numbers if order is None else numbers[order]
    if len(values) < 2 or bool((values[1:] >= values[:-1]).all()):
        return order
    found = stable_order(values)
    return found if order is None else order[found]


def _reversed(numbers: NDArray[Any]) -> NDArray[Any]:
    # Turning all bits over turns the order over, whatever the width and the sign.
    turned: NDArray[Any] = -numbers if numbers.dtype.kind == "f" else ~numbers
    return turned


def _as_numbers(column: Column) -> tuple[NDArray[np.bool_] | None, list[NDArray[Any]]]:
    """Return which rows are missing, and one or two columns of numbers that order the others."""
    if pa.types.is_dictionary(column.type):
        return _of_dictionary(column)
    array = normalised(column)
    missing = missing_rows(array)
    kind = array.type
    if pa.types.is_null(kind):
        return missing, []
    if is_text_or_binary(kind):
        return missing, [_ranked(array, missing)]
    if pa.types.is_floating(kind):
        return missing, [raw_values(array, kind.to_pandas_dtype())]
    if pa.types.is_decimal(kind):
        narrow = decimal_integers(array) if missing is None else None
        if narrow is not None:
            return missing, [narrow]
        words = decimal_words(array)
        return missing, [words[:, 1], words[:, 0].view(np.uint64)]
    return missing, [integers(array)]


def _ranked(array: pa.Array, missing: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    if missing is None:
        return rank_codes(array)
    numbers = np.zeros(len(array), np.int64)
    numbers[~missing] = rank_codes(array.drop_null())
    return numbers


def _of_dictionary(column: Column) -> tuple[NDArray[np.bool_] | None, list[NDArray[Any]]]:
    entries, indices = dictionary_parts(column)
    absent, numbers = _as_numbers(entries)
    # One entry more, found by -1, stands for rows that are null themselves.
    gone = np.append(np.zeros(len(entries), np.bool_) if absent is None else absent, True)
    missing: NDArray[np.bool_] = gone[indices]
    rows = [np.append(each, each.dtype.type(0))[indices] for each in numbers]
    return (missing if missing.any() else None), rows
