"""``tessel check``: whether Spark gives the answer of this machine's threads."""

from __future__ import annotations

import typer

from tessel.cli.arguments import (
    AsOf,
    Conf,
    EngineName,
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
from tessel.cli.exit_codes import ANSWERS_DIFFER
from tessel.cli.output import OutputFormat, make_output

__all__ = ["check"]


def check(
    symbol: Symbol,
    plan: PlanText,
    store: StoreUri,
    as_of: AsOf = None,
    master: Master = None,
    conf: Conf = None,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Run a query on threads and on Spark, and show the first row that differs."""
    from tessel.compare import first_difference

    opened = open_existing(store)
    version = opened.view(symbol, as_of=version_of(as_of)).version  # one, whatever is written now
    lazy = opened.scan(symbol, as_of=version).then(*read_plan(plan).clauses)
    here = lazy.collect().to_arrow()
    there = lazy.collect(executor=executor_of(EngineName.SPARK, master, conf)).to_arrow()
    difference = first_difference(here, there)
    make_output(output).facts(
        {
            "rows": here.num_rows,
            "equal": "yes" if difference is None else "no",
            "first difference": None if difference is None else str(difference),
        }
    )
    if difference is not None:
        raise typer.Exit(ANSWERS_DIFFER)
