"""The form of ``--output table``: for people, on a terminal or in a log.

A table shows its first and last rows and as many columns as fit, and says what it leaves out.
Without a terminal there are no colours, and lines are as wide as :data:`LOG_WIDTH`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tessel.arrays import concat_tables, is_number
from tessel.cli.output import Output, printable
from tessel.display.documents import shortened

LOG_WIDTH = 120
_FIRST_ROWS, _LAST_ROWS = 10, 5
_LONGEST_CELL = 48
_CELL_PADDING = 3


def make_console() -> Console:
    """Return a console for standard output that suits a terminal as well as a log."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = LOG_WIDTH
    return console


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return shortened(" ".join(text.split()), _LONGEST_CELL)


def _shown_rows(table: Any) -> tuple[list[list[str]], int]:
    """Return the cells to show, row by row, and how many of them are first rows, not last ones."""
    if table.num_rows > _FIRST_ROWS + _LAST_ROWS:
        first = _FIRST_ROWS
        table = concat_tables(
            [table.slice(0, _FIRST_ROWS), table.slice(table.num_rows - _LAST_ROWS)]
        )
    else:
        first = table.num_rows
    columns = [column.to_pylist() for column in printable(table).columns]
    return [[_cell(value) for value in row] for row in zip(*columns, strict=True)], first


def _columns_that_fit(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> int:
    used = 0
    for place, name in enumerate(names):
        cells = [cell_len(name), *(cell_len(row[place]) for row in rows)]
        used += max(cells) + _CELL_PADDING
        if used > width:
            return max(1, place)
    return len(names)


class TableOutput(Output):
    """Prints for people, with rich."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or make_console()

    def table(self, table: Any, *, title: str | None = None) -> None:
        """Print first and last rows, as many columns as fit, and what was left out."""
        names = [str(name) for name in table.column_names]
        rows, first = _shown_rows(table)
        fitting = _columns_that_fit(names, rows, self._console.width)
        grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
        for field in list(table.schema)[:fitting]:
            justify: Literal["right", "left"] = "right" if is_number(field.type) else "left"
            grid.add_column(Text(field.name, style="bold"), justify=justify, no_wrap=True)
        for place, row in enumerate(rows):
            if place == first:
                grid.add_row(*(Text("…", style="dim") for _ in names[:fitting]))
            grid.add_row(
                *(Text(cell, style="dim" if cell == "-" else "") for cell in row[:fitting])
            )
        if title:
            self._console.print(Text(title, style="bold"))
        self._console.print(grid)
        self._console.print(
            Text(_summary(table, names[fitting:], shown=len(rows)), style="dim"), soft_wrap=True
        )

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Print one name and value a line, aligned."""
        width = max((len(name) for name in facts), default=0)
        for name, value in facts.items():
            line = Text(f"{name:<{width}}  ", style="bold")
            line.append("-" if value is None else str(value), style="not bold")
            self._console.print(line, soft_wrap=True)

    def document(self, text: str, data: Any) -> None:
        """Print the text as it is."""
        self._console.print(Text(text), soft_wrap=True)


def _summary(table: Any, hidden: Sequence[str], *, shown: int) -> str:
    rows = f"{table.num_rows:,} row{'' if table.num_rows == 1 else 's'}"
    parts = [rows if shown == table.num_rows else f"{rows}, {shown} shown"]
    if hidden:
        parts.append(f"{len(hidden)} more columns: {', '.join(hidden)}")
    return " · ".join(parts)
