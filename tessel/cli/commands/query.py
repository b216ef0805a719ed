"""``tessel query``: an expression, a plan or options, run on a symbol."""

from __future__ import annotations

from tessel.cli.arguments import Form, Question, takes_query
from tessel.cli.output import OutputFormat, make_output


@takes_query
def query(question: Question, output: Form = OutputFormat.TABLE) -> None:
    """Run a query: rows for which an expression is true, a plan from a file, or what options say.

    Options are applied in the order in which they are listed here, whatever theirs is.
    """
    printer = make_output(output)
    result = question.lazy().collect(executor=question.executor())
    printer.table(result.to_arrow())
