"""What a query answers: its rows, what it would read and why, a chart, the answers compared."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from tessel.cli.arguments import Form, Question, takes_query
from tessel.cli.exit_codes import ANSWERS_DIFFER
from tessel.cli.output import OutputFormat, make_output
from tessel.cli.query_options import Options, options_of, takes, those_given
from tessel.errors import InvalidInputError


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


@takes_query
def export(
    question: Question,
    file: Annotated[
        Path,
        typer.Option("--file", metavar="PATH", help="Where it goes: .parquet, .arrow, .csv"),
    ],
    output: Form = OutputFormat.TABLE,
) -> None:
    """Write the result of a query, or a whole symbol, to a file."""
    from tessel.cli.job_files import write_file

    lazy = question.lazy()
    rows = write_file(file, lazy, lazy.iter_batches(executor=question.executor()))
    make_output(output).facts({"file": file, "rows": rows})


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


_ENDINGS = (".html", ".json", ".png", ".svg", ".pdf")


_DRAWN: Options = {
    "kind": (str, None, "line, area, bar, point or hist.", None, "what suits the columns"),
    "x": (str, "COLUMN", "What lies from left to right."),
    "y": (list, "COLUMN", "A column of numbers; repeatable."),
    "color": (str, "COLUMN", "What colours tell apart."),
}


@takes_query
@takes("drawn", options_of(_DRAWN), those_given)
def plot(
    question: Question,
    file: Annotated[
        Path,
        typer.Option("--file", metavar="PATH", help=f"Where it goes: {', '.join(_ENDINGS)}"),
    ],
    drawn: Any = None,
) -> None:
    """Draw the result of a query (extra ``plot``): lines over time, or bars over names."""
    if file.suffix not in _ENDINGS:
        raise InvalidInputError(
            f"{str(file)!r} is of no kind that is drawn", hint=f"endings: {', '.join(_ENDINGS)}"
        )
    result = question.lazy().collect(executor=question.executor())
    chart = result.plot(**drawn)
    try:
        chart.save(str(file))
    except OSError as error:
        raise InvalidInputError.not_writable(file, error) from error
    except ValueError as error:  # of Altair, where it cannot draw a kind of file
        raise InvalidInputError(
            f"cannot write {str(file)!r}: {error}", hint="an .html page needs nothing more"
        ) from error
    typer.echo(str(file))


@takes_query
def check(question: Question, output: Form = OutputFormat.TABLE) -> None:
    """Run a query on threads and on Spark, and show the first row that differs."""
    from tessel.compare import first_difference

    if question.engine == "local":
        raise InvalidInputError("check runs on both engines", hint="leave out --engine")
    lazy = question.lazy()
    version = lazy.store.view(lazy.symbol, as_of=lazy.as_of).version  # whatever is written now
    lazy = dataclasses.replace(lazy, as_of=version)
    here = lazy.collect().to_arrow()
    spark = dataclasses.replace(question, engine="spark").executor()
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
