"""``tessel query``: an expression or a plan, run on a symbol."""

from __future__ import annotations

import typer

from tessel.cli.arguments import (
    AsOf,
    Engine,
    EngineName,
    Form,
    StoreUri,
    Symbol,
    open_existing,
    version_of,
)
from tessel.cli.output import OutputFormat, make_output
from tessel.cli.plans import PlanText, read_plan

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def query(
        symbol: Symbol,
        plan: PlanText,
        store: StoreUri,
        as_of: AsOf = None,
        engine: Engine = EngineName.LOCAL,
        output: Form = OutputFormat.TABLE,
    ) -> None:
        """Run a query: rows for which an expression is true, or a plan from a JSON file."""
        printer = make_output(output)
        result = open_existing(store).read(
            symbol, query=read_plan(plan), as_of=version_of(as_of), executor=engine.value
        )
        printer.table(result.to_arrow())
