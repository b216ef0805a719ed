"""``tessel query``: an expression or a plan, run on a symbol."""

from __future__ import annotations

from tessel.cli.arguments import (
    AsOf,
    Engine,
    EngineName,
    Form,
    PlanText,
    StoreUri,
    Symbol,
    open_existing,
    read_plan,
    version_of,
)
from tessel.cli.output import OutputFormat, make_output

__all__ = ["query"]


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
