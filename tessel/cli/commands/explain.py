"""``tessel explain``: what a query would read, and why not the rest."""

from __future__ import annotations

from typing import Annotated

import typer

from tessel.cli.arguments import Form, Question, takes_query
from tessel.cli.output import OutputFormat, make_output

__all__ = ["explain"]


@takes_query
def explain(
    question: Question,
    pages: Annotated[
        bool, typer.Option(help="Read page tables too, and tell which pages are dropped.")
    ] = False,
    analyze: Annotated[
        bool, typer.Option(help="Run the query, and tell in which form each clause ran.")
    ] = False,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Say what a query would read, and the reason for each segment that it would not."""
    import json

    lazy, executor = question.lazy(), question.executor()
    explanation = lazy.explain(pages=pages, analyze=analyze, executor=executor)
    data = json.loads(explanation.render("json"))
    make_output(output).document(str(explanation), data)
