"""``tessel spark``: what Spark would run on, and whether it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from tessel.cli.arguments import Form, Master
from tessel.cli.output import OutputFormat, make_output

if TYPE_CHECKING:
    from tessel.spark_exec import Diagnosis

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
    make_output(output).facts(_facts(diagnosis))
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


def _facts(diagnosis: Diagnosis) -> dict[str, Any]:
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
