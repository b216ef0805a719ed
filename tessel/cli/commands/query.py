"""``tessel query``: an expression or a plan, run on a symbol."""

from __future__ import annotations

from tessel.cli.arguments import (
    AsOf,
    Conf,
    Engine,
    Form,
    Master,
    PlanText,
    StoreUri,
    Symbol,
    executor_of,
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
    engine: Engine = None,
    master: Master = None,
    conf: Conf = None,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Run a query: rows for which an expression is true, or a plan from a JSON or YAML file."""
    printer = make_output(output)
    lazy = open_existing(store).scan(symbol, as_of=version_of(as_of)).then(*read_plan(plan).clauses)
    result = lazy.collect(executor=executor_of(engine, master, conf))
    printer.table(result.to_arrow())
