"""``.plot`` of results: charts of Altair (extra ``plot``) with the facts of a table filled in.

What a column is decides how it is drawn: instants and dates on an axis of time, numbers on one of
amounts, all else by name. The charts are Altair's own, to be layered, titled and saved as such.

What is made is a specification of Vega-Lite 5 (vega.github.io/vega-lite/docs), a plain dictionary;
Altair checks it and wraps it. Rows are written into it, so that it shows the same wherever it is
opened: instants as what a clock in their own zone says, and what has no place on an axis (missing,
NaN, infinite) as null, which leaves a gap.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import is_number
from tessel.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    MissingDependencyError,
    NameNotFoundError,
    UnsupportedTypeError,
)
from tessel.errors.arguments import checks_arguments

if TYPE_CHECKING:
    import altair

__all__ = ["KINDS", "MOST_ROWS", "Plot"]

MOST_ROWS = 5000
"""Rows that a chart holds unless more are asked for; each is written into it."""

KINDS = ("line", "area", "bar", "point", "hist")
"""The kinds of charts, which are also the names of methods."""

_ColumnType = Literal["temporal", "quantitative", "nominal"]


@checks_arguments
class Plot:
    """Draws a table; ``result.plot`` of a query.

    Call it for the chart that suits the table, or the method of a kind of chart. Columns that are
    not said are: for ``x`` the time index, without one the first column; for ``y`` all columns of
    numbers, each a colour.

    Parameters
    ----------
    table
        What is drawn.
    index
        Its time index.
    """

    def __init__(self, table: pa.Table, index: str | None = None) -> None:
        self._table = table
        self._index = index

    def __repr__(self) -> str:
        return f"<plot of {self._table.num_rows} rows: {', '.join(KINDS)}>"

    def __call__(self, kind: str | None = None, **options: Any) -> altair.Chart:
        """Draw a chart of a kind: lines over time or numbers, bars over names.

        Raises
        ------
        NameNotFoundError
            For a kind that is none, with the nearest one.
        """
        if kind is None:
            over = options.get("x") or self._over()
            kind = "bar" if self._type_of(over) == "nominal" else "line"
        if kind not in KINDS:
            raise NameNotFoundError.for_name("kind of plot", kind, KINDS)
        drawn: altair.Chart = getattr(self, kind)(**options)
        return drawn

    def line(
        self,
        x: str | None = None,
        y: str | Sequence[str] | None = None,
        *,
        color: str | None = None,
        max_rows: int = MOST_ROWS,
    ) -> altair.Chart:
        """Draw lines of numbers over a column.

        Parameters
        ----------
        x
            What lies from left to right.
        y
            One or several columns of numbers; several are told apart by colour.
        color
            A column whose values are told apart by colour; with one column ``y``.
        max_rows
            More rows than these raise: a chart of millions shows nothing.

        Raises
        ------
        MissingDependencyError
            Where Altair is not installed.
        ColumnNotFoundError, UnsupportedTypeError
            For a column that does not exist, or that is not of numbers.
        InvalidInputError
            For too many rows, and for what cannot be drawn together.
        """
        return self._over_a_column("line", x, y, color, max_rows)

    def area(
        self,
        x: str | None = None,
        y: str | Sequence[str] | None = None,
        *,
        color: str | None = None,
        max_rows: int = MOST_ROWS,
    ) -> altair.Chart:
        """Draw areas, one on top of the other; as :meth:`line`."""
        return self._over_a_column("area", x, y, color, max_rows)

    def bar(
        self,
        x: str | None = None,
        y: str | Sequence[str] | None = None,
        *,
        color: str | None = None,
        max_rows: int = MOST_ROWS,
    ) -> altair.Chart:
        """Draw bars, in the order of the rows; of several columns side by side; as :meth:`line`."""
        return self._over_a_column("bar", x, y, color, max_rows)

    def point(
        self,
        x: str | None = None,
        y: str | Sequence[str] | None = None,
        *,
        color: str | None = None,
        max_rows: int = MOST_ROWS,
    ) -> altair.Chart:
        """Draw a point a row; as :meth:`line`."""
        return self._over_a_column("point", x, y, color, max_rows)

    def hist(
        self,
        x: str | None = None,
        *,
        bins: int = 30,
        color: str | None = None,
        max_rows: int = MOST_ROWS,
    ) -> altair.Chart:
        """Draw how many rows fall into each of some ranges of a column.

        Parameters
        ----------
        x
            The column; left out, the first one of numbers.
        bins
            At most how many ranges, at least one.
        color, max_rows
            As of :meth:`line`.
        """
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
            raise InvalidInputError(f"bins is a whole number from 1 on, not {bins!r}")
        column = self._numbers(())[0] if x is None else x
        across = self._channel(column)
        if across["type"] != "nominal":
            across["bin"] = {"maxbins": bins}
        encoding = {"x": across, "y": {"aggregate": "count", "type": "quantitative"}}
        encoding["y"]["title"] = "rows"
        if color is not None:
            encoding["color"] = self._channel(color)
        return _chart("bar", self._rows(_unique(column, color), max_rows), encoding)

    def _over_a_column(
        self,
        mark: str,
        x: str | None,
        y: str | Sequence[str] | None,
        color: str | None,
        max_rows: int,
    ) -> altair.Chart:
        over = self._over() if x is None else x
        across = self._channel(over)
        if across["type"] == "nominal":
            across["sort"] = None  # the order of the rows; time and numbers have their own
        colors = {} if color is None else {"color": self._channel(color)}
        columns = self._chosen(y, _unique(over, color))
        if color is not None and len(columns) > 1:
            if y is not None:
                raise InvalidInputError(
                    "several columns are told apart by colour, and so is what color names",
                    hint="draw one column, or leave color out",
                )
            columns = columns[:1]
        rows = self._rows(_unique(over, color, *columns), max_rows)
        if len(columns) == 1:
            return _chart(mark, rows, {"x": across, "y": self._channel(columns[0]), **colors})
        name, value = _free("column", over), _free("value", over)
        folded = [
            {over: row[over], name: column, value: row[column]}
            for row in rows
            for column in columns
        ]
        told_apart = {"field": name, "type": "nominal", "title": None, "sort": columns}
        encoding: dict[str, Any] = {
            "x": across,
            "y": {"field": value, "type": "quantitative", "title": None},
            "color": told_apart,
        }
        if mark == "bar":
            encoding["xOffset"] = {"field": name, "type": "nominal", "sort": columns}
        return _chart(mark, folded, encoding)

    # --- columns ----------------------------------------------------------------------------------

    def _over(self) -> str:
        names = self._table.column_names
        if self._index is not None and self._index in names:
            return self._index
        if not names:
            raise InvalidInputError("a table without columns cannot be drawn")
        first: str = names[0]
        return first

    def _existing(self, name: str) -> str:
        if name not in self._table.column_names:
            raise ColumnNotFoundError.for_name(name, self._table.column_names, where="the result")
        return name

    def _chosen(self, y: str | Sequence[str] | None, taken: Sequence[str]) -> list[str]:
        if y is None:
            return self._numbers(taken)
        columns = [y] if isinstance(y, str) else list(y)
        if not columns:
            raise InvalidInputError("y names no column", hint="leave y out for all numbers")
        for name in columns:
            if self._type_of(self._existing(name)) != "quantitative":
                kind = self._table.schema.field(name).type
                raise UnsupportedTypeError(
                    f"column {name!r} of type {kind} is no amount that can be drawn upwards",
                    hint=f"name one of {', '.join(map(repr, self._numbers(())))}, or count rows",
                    column=name,
                )
        return list(dict.fromkeys(columns))

    def _numbers(self, taken: Sequence[str]) -> list[str]:
        found = [
            name
            for name in self._table.column_names
            if name not in taken and self._type_of(name) == "quantitative"
        ]
        if not found:
            raise InvalidInputError(
                "there is no column of numbers to draw",
                hint="count rows first, for instance with value_counts",
                columns=self._table.column_names,
            )
        return found

    def _type_of(self, name: str) -> _ColumnType:
        kind = self._table.schema.field(self._existing(name)).type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return "temporal"
        return "quantitative" if is_number(kind) or pa.types.is_duration(kind) else "nominal"

    def _title(self, name: str) -> str:
        """Return what stands beside an axis: the name, with the zone or the unit of its values."""
        kind = self._table.schema.field(name).type
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return f"{name} ({kind.tz})"
        return f"{name} (seconds)" if pa.types.is_duration(kind) else name

    def _channel(self, name: str) -> dict[str, Any]:
        """Return how a column is encoded."""
        kind = self._type_of(name)
        return {"field": _field(name), "type": kind, "title": self._title(name)}

    # --- rows -------------------------------------------------------------------------------------

    def _rows(self, names: Sequence[str], max_rows: int) -> list[dict[str, Any]]:
        rows = self._table.num_rows
        if rows > max_rows:
            raise InvalidInputError(
                f"the result has {rows:,} rows, and a chart takes {max_rows:,} of them",
                hint="draw less: resample, agg, head or sample; or say max_rows",
                rows=rows,
                max_rows=max_rows,
            )
        columns = [_plain(self._table.column(name)) for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _unique(*names: str | None) -> list[str]:
    return [name for name in dict.fromkeys(names) if name is not None]


def _free(name: str, taken: str) -> str:
    return name if name != taken else name + "_"


def _field(name: str) -> str:
    """Return what names a column in a chart: dots and brackets would lead into an object."""
    return "".join(f"\\{letter}" if letter in ".[]\\" else letter for letter in name)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Return values as JSON has them."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _clock(column)
    if pa.types.is_duration(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        column = pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), per_second)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    kind = column.type
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        column = pc.if_else(pc.is_finite(column), column, None)
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        return [None if value is None else str(value) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _clock(column: pa.ChunkedArray) -> list[str | None]:
    """Return instants as a clock in their zone shows them, with milliseconds.

    A date has its midnight: without one a browser would take it for an instant in UTC.
    """
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column)
    column = column.cast(pa.timestamp("ms"), safe=False)
    texts: list[str | None] = pc.strftime(column, format="%Y-%m-%dT%H:%M:%S").to_pylist()
    return texts


def _chart(mark: str, rows: list[dict[str, Any]], encoding: dict[str, Any]) -> altair.Chart:
    """Return the chart of a specification, which Altair checks."""
    specification = {"data": {"values": rows}, "mark": {"type": mark}, "encoding": encoding}
    try:
        module = importlib.import_module("altair")
    except ImportError as error:
        raise MissingDependencyError.for_extra("altair", "plot", "drawing a result") from error
    drawn: altair.Chart = module.Chart.from_dict(specification)
    return drawn
