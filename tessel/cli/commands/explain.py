"""``tessel explain``: what a query would read, and why not the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tessel.cli.arguments import Form, Question, takes_query
from tessel.cli.output import OutputFormat, make_output
from tessel.errors import InvalidInputError


@takes_query
def explain(
    question: Question,
    pages: Annotated[
        bool | None,
        typer.Option(
            "--pages/--no-pages",
            help="Read page tables too, and tell which pages are dropped.",
            show_default="where few segments are left",
        ),
    ] = None,
    analyze: Annotated[
        bool, typer.Option(help="Run the query, and tell in which form each clause ran.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --analyze: a page of the run.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --analyze: a trace for Perfetto.")
    ] = None,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Say what a query would read, and the reason for each segment that it would not."""
    import json

    if (html or trace) and not analyze:
        raise InvalidInputError(
            "a page and a trace are of a run, and without --analyze nothing runs",
            hint="add --analyze",
        )
    lazy, executor = question.lazy(), question.executor()
    explanation = lazy.explain(pages=pages, analyze=analyze, executor=executor)
    data = json.loads(explanation.render("json"))
    make_output(output).document(str(explanation), data)
    # Behind the answer, which a file that cannot be written leaves as it is.
    if explanation.profile is not None:
        if html is not None:
            explanation.profile.write_html(html)
        if trace is not None:
            explanation.profile.write_trace(trace)
