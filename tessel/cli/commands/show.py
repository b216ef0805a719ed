"""``tessel show``: the rows of a symbol."""

from __future__ import annotations

from typing import Annotated

import typer

from tessel.cli.arguments import AsOf, Form, StoreUri, Symbol, open_existing
from tessel.cli.output import OutputFormat, make_output

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def show(
        symbol: Symbol,
        store: StoreUri,
        as_of: AsOf = None,
        head: Annotated[
            int | None, typer.Option("--head", min=0, help="Only the first rows.", metavar="ROWS")
        ] = None,
        output: Form = OutputFormat.TABLE,
    ) -> None:
        """Print the rows of a symbol."""
        import tessel as ts

        query = None if head is None else ts.QueryBuilder().head(head)
        result = open_existing(store).read(symbol, query=query, as_of=as_of)
        make_output(output).table(result.to_arrow())
