"""Arguments that several commands share, so that one thing has one name and one explanation."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import typer

from tessel.cli.output import OutputFormat

__all__ = [
    "AsOf",
    "Engine",
    "EngineName",
    "Form",
    "StoreUri",
    "Symbol",
    "open_existing",
]


class EngineName(enum.StrEnum):
    """Where a query runs."""

    LOCAL = "local"
    SPARK = "spark"


StoreUri = Annotated[
    str,
    typer.Option(
        "--store",
        "-s",
        envvar="TESSEL_STORE",
        metavar="URI",
        help="The store: a directory or a URI.",
        show_default=False,
    ),
]
Symbol = Annotated[str, typer.Argument(metavar="SYMBOL", help="The symbol.", show_default=False)]
Form = Annotated[OutputFormat, typer.Option("--output", "-o", help="How to print the result.")]
AsOf = Annotated[
    int | None,
    typer.Option(
        "--as-of", metavar="VERSION", min=0, help="The version to read.", show_default="the newest"
    ),
]
Engine = Annotated[EngineName, typer.Option("--engine", help="Where the query runs.")]


def open_existing(uri: str) -> Any:
    """Open the store of a command that reads; one that is not there is an error, and is not made.

    Raises
    ------
    StoreNotFoundError, NotAStoreError
        Where there is no store, or something else.
    """
    import tessel as ts

    return ts.open(uri, read_only=True)
