"""Arguments that several commands share, so that one thing has one name and one explanation."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tessel.cli.documents import is_document, read_document
from tessel.cli.output import OutputFormat
from tessel.errors import InvalidInputError

__all__ = [
    "AsOf",
    "Conf",
    "Engine",
    "EngineName",
    "Form",
    "Master",
    "PlanText",
    "StoreUri",
    "Symbol",
    "executor_of",
    "open_existing",
    "query_of",
    "read_plan",
    "settings_of",
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
        help="An expression, \"dep_delay > 15 and carrier == 'UA'\", or a plan file (.json, "
        ".yaml).",
        show_default=False,
    ),
]
Engine = Annotated[
    EngineName | None,
    typer.Option(
        "--engine",
        help="Where the query runs.",
        show_default="local; spark with --master or --conf",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        "--remote",
        metavar="MASTER",
        help="Where tasks run: local[2], spark://host:7077, or sc://host:15002 for Spark Connect.",
        show_default="the option spark_master",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of the Spark session; repeatable."),
]


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
    """Return the query that an argument stands for: an expression, or a file of a plan.

    Raises
    ------
    InvalidInputError
        For a file that is absent or not text.
    PlanFormatError, ExpressionError
        For text that is no query.
    """
    return query_of(read_document(Path(text)) if is_document(text) else text)


def query_of(data: Any) -> Any:
    """Return the query of its plain form, of the text of a condition, or of nothing: all rows."""
    import tessel as ts

    if isinstance(data, str):
        return ts.QueryBuilder().filter(data)
    return ts.QueryBuilder() if data is None else ts.QueryBuilder.from_json(data)


def settings_of(texts: Sequence[str] | None) -> dict[str, str]:
    """Return the settings that options ``--conf`` give.

    Raises
    ------
    InvalidInputError
        For one without ``=``.
    """
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InvalidInputError(f"a setting is KEY=VALUE, not {text!r}")
        found[key.strip()] = value
    return found


def executor_of(
    engine: EngineName | None, master: str | None, conf: Sequence[str] | None = None
) -> Any:
    """Return what runs a query, by the options of a command.

    Raises
    ------
    InvalidInputError
        For a master or settings of Spark beside the local engine.
    TesselError
        Where Spark does not start.
    """
    settings = settings_of(conf)
    if engine is EngineName.SPARK or (engine is None and (master or settings)):
        from tessel.spark_exec import SparkExecutor, spark_session

        return SparkExecutor(spark_session(master, configuration=settings))
    if master or settings:
        raise InvalidInputError(
            "--master and --conf are of Spark, and --engine local runs on this machine's threads",
            hint="--engine spark",
        )
    return "local"


def open_existing(uri: str, *, read_only: bool = True) -> Any:
    """Open the store of a command; one that is not there is an error, and is not made.

    Raises
    ------
    StoreNotFoundError, NotAStoreError
        Where there is no store, or something else.
    """
    import tessel as ts

    return ts.open(uri, create=False, read_only=read_only)
