"""How the demo is told: one function for each sort of step, on a terminal or into a log."""

from __future__ import annotations

from functools import singledispatchmethod

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from tessel.cli.arguments import EngineName
from tessel.cli.demo import (
    SYMBOL,
    Compared,
    DemoStep,
    Explained,
    Imported,
    QueryStarted,
    Ran,
    SparkStarted,
)
from tessel.cli.output_table import TableOutput, make_console

__all__ = ["DemoReport"]

_ENGINES = {EngineName.LOCAL: "on the local pool", EngineName.SPARK: "as a Spark job"}


class DemoReport:
    """Prints steps as they come, and remembers whether all answers were equal.

    Attributes
    ----------
    all_equal
        False as soon as one comparison found a difference.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or make_console()
        self._tables = TableOutput(self._console)
        self.all_equal = True

    @singledispatchmethod
    def show(self, step: DemoStep) -> None:
        """Print one step."""
        raise TypeError(f"no step of the demo: {step!r}")

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)

    @show.register
    def _(self, step: Imported) -> None:
        self._line("Tessel: departures from New York in 2013", "bold")
        self._line(
            f"read      {step.rows:,} rows × {step.columns} columns of CSV in "
            f"{step.read_seconds:.2f} s"
        )
        self._line(
            f"wrote     {SYMBOL!r}, sorted by time, to {step.store} as version {step.version} in "
            f"{step.write_seconds:.2f} s"
        )

    @show.register
    def _(self, step: SparkStarted) -> None:
        self._line(f"started   Spark on {step.master} in {step.seconds:.1f} s")

    @show.register
    def _(self, step: QueryStarted) -> None:
        self._line("")
        self._console.print(Rule(Text(step.title, style="bold"), align="left", characters="─"))

    @show.register
    def _(self, step: Explained) -> None:
        self._line("")
        self._line(step.text)

    @show.register
    def _(self, step: Ran) -> None:
        self._line("")
        if step.show_rows:
            self._tables.table(step.table)
        self._line(
            f"{_ENGINES[step.engine]}: {step.table.num_rows:,} rows in {step.seconds:.3f} s", "bold"
        )

    @show.register
    def _(self, step: Compared) -> None:
        if step.difference is None:
            self._line(f"equal: all {step.rows:,} rows, in the same order", "bold green")
            return
        self.all_equal = False
        self._line(f"DIFFERENT, first at {step.difference}", "bold red")
