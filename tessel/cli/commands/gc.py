"""``tessel gc``: what no version needs is deleted."""

from __future__ import annotations

from typing import Annotated

import typer

from tessel.cli.ages import read_age
from tessel.cli.arguments import Form, StoreUri, open_existing
from tessel.cli.output import OutputFormat, make_output

__all__ = ["gc"]


def gc(
    store: StoreUri,
    apply: Annotated[
        bool, typer.Option("--apply", help="Delete what is dead; else only count it.")
    ] = False,
    minimum_age: Annotated[
        str,
        typer.Option("--minimum-age", metavar="AGE", help="Leave alone what is younger: 36h, 2d."),
    ] = "24h",
    output: Form = OutputFormat.TABLE,
) -> None:
    """Delete the objects that no kept version refers to.

    If anything cannot be read, nothing is deleted.
    """
    import pyarrow as pa

    age = read_age(minimum_age)
    opened = open_existing(store, read_only=not apply)
    report = opened.gc(minimum_age=age, dry_run=not apply)
    names = ("live", "dead", "young", "leased")
    counts = [(name, pa.int64()) for state in names for name in (state, f"{state}_bytes")]
    schema = pa.schema([("kind", pa.string()), *counts])
    table = pa.Table.from_pylist(list(report.rows()), schema=schema)
    make_output(output).table(table, title=str(report))
