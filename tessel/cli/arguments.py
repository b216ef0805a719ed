"""Arguments that several commands share, so that one thing has one name and one explanation."""

from __future__ import annotations

import contextlib
import datetime as dt
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, get_type_hints

import typer

from tessel.cli.output import OutputFormat
from tessel.cli.query_options import query_of, takes, takes_options
from tessel.errors import InvalidInputError
from tessel.lazy import dataclass

EngineName = Literal["local", "spark"]
"""Where a query runs."""
Verb = Literal["write", "append", "update", "upsert"]
"""How rows come into a symbol."""

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
        help="The version to read: a number, a tag, a branch, or a date or time such as "
        "2024-05-01T12:00, as UTC.",
        show_default="the newest",
    ),
]
PlanText = Annotated[
    str | None,
    typer.Argument(
        metavar="QUERY",
        help="An expression, \"dep_delay > 15 and carrier == 'UA'\", or a plan file (.json, "
        ".yaml), before what the options say.",
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


@dataclass(frozen=True, slots=True)
class Question:
    """What a command asks: a query on a symbol, and what runs it.

    The fields are the parameters of the command.
    """

    symbol: Symbol
    store: StoreUri
    plan: PlanText = None
    options: Any = None
    as_of: AsOf = None
    engine: Engine = None
    master: Master = None
    conf: Conf = None

    def lazy(self) -> Any:
        """Open the store, and return the lazy table of the query."""
        query = query_of(self.plan, self.options)
        lazy = open_existing(self.store).scan(self.symbol, as_of=self.as_of)
        return lazy.then(*query.clauses)

    def executor(self) -> Any:
        """Return what runs it."""
        return executor_of(self.engine, self.master, self.conf)


def takes_query(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all that says what is asked, in place of its parameter ``question``."""
    kinds = get_type_hints(Question, include_extras=True)
    fields = inspect.signature(Question).parameters.values()
    asks = [each.replace(annotation=kinds[each.name]) for each in fields]
    return takes_options(takes("question", asks, Question)(command))


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


def executor_of(engine: str | None, master: str | None, conf: Sequence[str] | None = None) -> Any:
    """Return what runs a query, by the options of a command.

    Raises
    ------
    InvalidInputError
        For a master or settings of Spark beside the local engine.
    TesselError
        Where Spark does not start.
    """
    settings = settings_of(conf)
    if engine == "spark" or (engine is None and (master or settings)):
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


# --- ages and instants: 36h, 30d, 2024-01-31, 2024-01-31T12:00Z ---------------------------------

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(\d{1,9})([smhdw])")


def read_age(text: str) -> dt.timedelta:
    """Return the time that a text such as ``36h`` says; raises ``InvalidInputError`` for others."""
    match = _AGE.fullmatch(text.strip().lower())
    with contextlib.suppress(OverflowError):
        if match:
            return dt.timedelta(**{_UNITS[match[2]]: int(match[1])})
    raise InvalidInputError(
        f"{text!r} is no age", hint="write a whole number and one of s, m, h, d, w: 36h, 30d"
    )


def read_older_than(text: str) -> int | dt.timedelta | dt.datetime:
    """Return the version, age or instant that a text says; an instant without a zone is UTC."""
    text = text.strip()
    if text.isdecimal():
        return int(text)
    if _AGE.fullmatch(text.lower()):
        return read_age(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(
            f"{text!r} is no version, age or instant",
            hint="write a version (120), an age (30d, 36h) or an instant (2024-01-31T12:00Z)",
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
