"""``tessel ls``: the symbols of a store."""

from __future__ import annotations

from typing import Annotated

import typer

from tessel.cli.arguments import Form, StoreUri, open_existing
from tessel.cli.output import OutputFormat, make_output

__all__ = ["ls"]


def ls(
    store: StoreUri,
    pattern: Annotated[
        str, typer.Argument(help="Names to list; * and ? stand for any text.")
    ] = "*",
    output: Form = OutputFormat.TABLE,
) -> None:
    """List the symbols of a store."""
    import fnmatch

    import pyarrow as pa

    every = open_existing(store).symbols()
    names = [name for name in every if fnmatch.fnmatchcase(name, pattern)]
    make_output(output).table(pa.table({"symbol": pa.array(names, pa.string())}))
