"""Arguments that several commands share, so that one thing has one name and one explanation."""

from __future__ import annotations

import datetime as dt
import enum
from pathlib import Path
from typing import Annotated, Any

import typer

from tessel.cli.files import require_file
from tessel.cli.output import OutputFormat

__all__ = [
    "AsOf",
    "Engine",
    "EngineName",
    "Form",
    "PlanText",
    "StoreUri",
    "Symbol",
    "open_existing",
    "read_plan",
    "version_of",
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
    str | None,
    typer.Option(
        "--as-of",
        metavar="VERSION",
        help="The version to read: a number, a tag, a branch, or an instant such as "
        "2024-05-01T12:00Z.",
        show_default="the newest",
    ),
]
PlanText = Annotated[
    str,
    typer.Argument(
        metavar="QUERY",
        help="An expression, \"dep_delay > 15 and carrier == 'UA'\", or a plan file (.json).",
        show_default=False,
    ),
]
Engine = Annotated[EngineName, typer.Option("--engine", help="Where the query runs.")]


def version_of(text: str | None) -> int | str | dt.datetime | None:
    """Return what ``as_of`` takes for the text of an option.

    Digits are a number, ISO 8601 with a time zone is an instant, anything else names a tag or a
    branch.
    """
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return text if moment.tzinfo is None else moment


def read_plan(text: str) -> Any:
    """Return the query that an argument stands for: an expression, or a file of a plan as JSON.

    Raises
    ------
    InvalidInputError
        For a file that is absent or not text.
    PlanFormatError, ExpressionError
        For text that is no query.
    """
    import tessel as ts

    if not text.endswith(".json"):
        return ts.QueryBuilder().filter(text)
    return ts.QueryBuilder.from_json(require_file(Path(text)).read_text(encoding="utf-8"))


def open_existing(uri: str, *, read_only: bool = True) -> Any:
    """Open the store of a command; one that is not there is an error, and is not made.

    Raises
    ------
    StoreNotFoundError, NotAStoreError
        Where there is no store, or something else.
    """
    import tessel as ts

    return ts.open(uri, create=False, read_only=read_only)
