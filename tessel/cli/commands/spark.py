"""``tessel submit`` runs a job from a file; ``tessel spark`` says on which Spark it would."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tessel.cli.arguments import AsOf, Conf, Engine, Form, Master, Verb, settings_of
from tessel.cli.exit_codes import exit_code
from tessel.cli.output import OutputFormat, make_output
from tessel.cli.query_options import Options, options_of, takes, takes_options
from tessel.errors import InvalidInputError, SparkError, TesselError

if TYPE_CHECKING:
    from tessel.spark_exec import Diagnosis

_PROGRAM = "from tessel.cli import main\n\nmain()\n"


_RESULT: Options = {
    "into": (str, "SYMBOL", "The symbol that the result becomes."),
    "verb": (Verb, None, "How its rows come in.", None, "write"),
    "key": (list, "COLUMN", "A key of an upsert."),
    "file": (str, "PATH", "Where the result goes: .parquet, .arrow, .csv"),
}


@takes("result", options_of(_RESULT), dict)
@takes_options
def submit(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB",
            help="A file of a job or of a plan (.json, .yaml), or an expression.",
            show_default=False,
        ),
    ] = None,
    options: Any = None,
    store: Annotated[
        str | None,
        typer.Option("--store", "-s", envvar="TESSEL_STORE", metavar="URI", help="The store."),
    ] = None,
    symbol: Annotated[
        str | None, typer.Option("--symbol", metavar="NAME", help="The symbol that is read.")
    ] = None,
    as_of: AsOf = None,
    result: Any = None,
    engine: Engine = None,
    master: Master = None,
    conf: Conf = None,
    deploy: Annotated[
        Literal["process", "spark-submit"],
        typer.Option("--deploy", help="Which process is the driver."),
    ] = "process",
    output: Form = OutputFormat.JSON,
) -> None:
    """Run a job, and print its outcome: state, rows, what was written, or the error.

    Options go over what the file says, those of a query behind its query. The result goes into a
    symbol, to a file, or nowhere.
    """
    from tessel.cli.job_files import read_job

    given = {
        "store": store,
        "symbol": symbol,
        "as_of": as_of,
        "into": result["into"],
        "verb": result["verb"],
        "keys": result["key"],
        "file": result["file"],
        "engine": engine,
        "master": master,
        "conf": conf,
    }
    chosen = read_job(job, given, options)
    outcome = chosen.run() if deploy == "process" else _by_spark_submit(chosen)
    error = outcome.pop("error", None)
    told = {**outcome, **({} if error is None else {"error": error.to_json()})}
    printer = make_output(output)
    if output is OutputFormat.JSON:
        printer.document("", told)
    else:
        printer.facts(told)
    if error is not None:
        typer.secho(str(error), err=True, fg=typer.colors.RED)
        raise typer.Exit(exit_code(error))


def _by_spark_submit(chosen: Any) -> dict[str, Any]:
    """Run a job in a driver of spark-submit, and return the outcome that it prints."""
    import dataclasses
    import tempfile
    from pathlib import Path

    from tessel.options import current
    from tessel.spark_exec import spark_submit

    master = chosen.master or current().spark_master
    if master.startswith("sc://"):
        raise InvalidInputError(
            f"spark-submit starts a driver of its own, and {master!r} is a server of Spark Connect",
            hint="leave out --deploy: the server is the driver",
        )
    settings = settings_of(chosen.conf)
    inner = dataclasses.replace(chosen, engine="spark", master=None, conf=())
    with tempfile.TemporaryDirectory(prefix="tessel-job-") as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(inner.to_json()), encoding="utf-8")
        done = spark_submit(_PROGRAM, ["submit", str(path)], master=master, configuration=settings)
    try:
        # Spark puts what the driver says of an error behind its outcome, into one stream.
        printed = done.stdout[done.stdout.index("{") :]
        outcome: dict[str, Any] = json.JSONDecoder().raw_decode(printed)[0]
        if "error" in outcome:
            outcome["error"] = TesselError.from_json(outcome["error"])
        return outcome
    except (ValueError, TypeError) as error:
        raise SparkError(
            f"spark-submit ended with code {done.returncode}, and the job with no outcome",
            detail="\n".join((done.stderr or done.stdout).splitlines()[-40:]) or None,
            hint="`tessel spark doctor` shows which Java is used and why",
            master=master,
        ) from error


# --- tessel spark ------------------------------------------------------------------------------

group = typer.Typer(
    name="spark", no_args_is_help=True, help="Look at the Spark that queries would run on."
)


@group.callback()
def spark() -> None:
    """Look at the Spark that queries would run on."""


@group.command()
def doctor(master: Master = None, output: Form = OutputFormat.TABLE) -> None:
    """Say which Java is used and why, and run one row through Spark."""
    from tessel.spark_exec import diagnose

    diagnosis = diagnose(master)
    make_output(output).facts(_diagnosed(diagnosis))
    if diagnosis.problem is not None:
        raise diagnosis.problem


@group.command()
def warmup(output: Form = OutputFormat.TABLE) -> None:
    """Train a cache once, with which Spark starts in about half the time."""
    from tessel.spark_exec import warmup as train

    found = train()
    make_output(output).facts(
        {
            "cache": found.path,
            "size": f"{found.size / 1e6:.0f} MB",
            "training": _seconds(found.training_seconds),
            "start": _seconds(found.start_seconds),
        }
    )


def _diagnosed(diagnosis: Diagnosis) -> dict[str, Any]:
    facts: dict[str, Any] = {"python": diagnosis.python, "pyspark": diagnosis.pyspark}
    for candidate in diagnosis.candidates:
        version = f"Java {candidate.version} at {candidate.runtime}" if candidate.version else None
        told = (version, candidate.problem)
        facts[f"java from {candidate.source}"] = ": ".join(part for part in told if part) or None
    if diagnosis.java is not None:
        facts["java chosen"] = diagnosis.java.why
    facts["warm cache"] = diagnosis.warm_cache
    facts["session"] = diagnosis.session
    facts["master"] = diagnosis.master
    facts["start"] = _seconds(diagnosis.start_seconds)
    facts["first row"] = _seconds(diagnosis.first_row_seconds)
    facts["next row"] = _seconds(diagnosis.next_row_seconds)
    facts |= {f"worker {name}": value for name, value in diagnosis.worker.items()}
    facts["works"] = "yes" if diagnosis.healthy else "no"
    return facts


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f} s"
