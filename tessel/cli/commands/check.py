"""``tessel check``: whether Spark gives the answer of this machine's threads."""

from __future__ import annotations

import dataclasses

import typer

from tessel.cli.arguments import EngineName, Form, Question, takes_query
from tessel.cli.exit_codes import ANSWERS_DIFFER
from tessel.cli.output import OutputFormat, make_output
from tessel.errors import InvalidInputError


@takes_query
def check(question: Question, output: Form = OutputFormat.TABLE) -> None:
    """Run a query on threads and on Spark, and show the first row that differs."""
    from tessel.compare import first_difference

    if question.engine is EngineName.LOCAL:
        raise InvalidInputError("check runs on both engines", hint="leave out --engine")
    lazy = question.lazy()
    version = lazy.store.view(lazy.symbol, as_of=lazy.as_of).version  # whatever is written now
    lazy = dataclasses.replace(lazy, as_of=version)
    here = lazy.collect().to_arrow()
    spark = dataclasses.replace(question, engine=EngineName.SPARK).executor()
    there = lazy.collect(executor=spark).to_arrow()
    difference = first_difference(here, there)
    make_output(output).facts(
        {
            "rows": here.num_rows,
            "equal": "yes" if difference is None else "no",
            "first difference": None if difference is None else str(difference),
        }
    )
    if difference is not None:
        raise typer.Exit(ANSWERS_DIFFER)
