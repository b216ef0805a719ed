"""``tessel plot``: a chart of a query's result, as a page or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tessel.cli.arguments import Question, takes_query
from tessel.errors import InvalidInputError

_ENDINGS = (".html", ".json", ".png", ".svg", ".pdf")


@takes_query
def plot(
    question: Question,
    file: Annotated[
        Path,
        typer.Option("--file", metavar="PATH", help=f"Where it goes: {', '.join(_ENDINGS)}"),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", help="line, area, bar, point or hist.", show_default="what suits the columns"
        ),
    ] = None,
    x: Annotated[
        str | None, typer.Option("--x", metavar="COLUMN", help="What lies from left to right.")
    ] = None,
    y: Annotated[
        list[str] | None,
        typer.Option("--y", metavar="COLUMN", help="A column of numbers; repeatable."),
    ] = None,
    color: Annotated[
        str | None, typer.Option("--color", metavar="COLUMN", help="What colours tell apart.")
    ] = None,
) -> None:
    """Draw the result of a query (extra ``plot``): lines over time, or bars over names."""
    if file.suffix not in _ENDINGS:
        raise InvalidInputError(
            f"{str(file)!r} is of no kind that is drawn", hint=f"endings: {', '.join(_ENDINGS)}"
        )
    result = question.lazy().collect(executor=question.executor())
    given = {"x": x, "y": y or None, "color": color}
    chart = result.plot(kind, **{name: each for name, each in given.items() if each is not None})
    try:
        chart.save(str(file))
    except (OSError, ValueError) as error:  # of Altair, where it cannot draw a kind of file
        raise InvalidInputError(
            f"cannot write {str(file)!r}: {error}", hint="an .html page needs nothing more"
        ) from error
    typer.echo(str(file))
