"""``tessel show``: the rows of a symbol, or how it is stored."""

from __future__ import annotations

from typing import Annotated

import typer

from tessel.cli.arguments import AsOf, Form, StoreUri, Symbol, open_existing, version_of
from tessel.cli.output import OutputFormat, make_output

__all__ = ["show"]


def show(
    symbol: Symbol,
    store: StoreUri,
    as_of: AsOf = None,
    head: Annotated[
        int | None, typer.Option("--head", min=0, help="Only the first rows.", metavar="ROWS")
    ] = None,
    physical: Annotated[
        bool,
        typer.Option(
            "--physical", help="Pages, encodings, bytes and ratio of each column instead."
        ),
    ] = False,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Print the rows of a symbol, or how it is stored."""
    import tessel as ts

    if physical:
        make_output(output).table(open_existing(store).physical(symbol, as_of=version_of(as_of)))
        return
    query = None if head is None else ts.QueryBuilder().head(head)
    result = open_existing(store).read(symbol, query=query, as_of=version_of(as_of))
    make_output(output).table(result.to_arrow())
