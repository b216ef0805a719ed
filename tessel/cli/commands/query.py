"""``tessel query``: an expression, a plan or options, run on a symbol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tessel.cli.arguments import Form, Question, takes_query
from tessel.cli.output import OutputFormat, make_output


@takes_query
def query(
    question: Question,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a trace of the run, for Perfetto.")
    ] = None,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Run a query: rows for which an expression is true, a plan from a file, or what options say.

    Options are applied in the order in which they are listed here, whatever theirs is.
    """
    printer = make_output(output)
    result = question.lazy().collect(executor=question.executor())
    printer.table(result.to_arrow())
    if trace is not None:  # behind the answer, which a file that cannot be written leaves as it is
        result.profile().write_trace(trace)
