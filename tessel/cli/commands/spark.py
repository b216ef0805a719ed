"""``tessel spark``: what Spark would run on, and whether it does."""

from __future__ import annotations

import typer

from tessel.cli.arguments import Form
from tessel.cli.output import OutputFormat, make_output

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(no_args_is_help=True)
    app.add_typer(group, name="spark", help="Look at the Spark that queries would run on.")

    @group.callback()
    def spark() -> None:
        """Look at the Spark that queries would run on."""

    @group.command()
    def doctor(output: Form = OutputFormat.TABLE) -> None:
        """Say which Java is used and why, and run one row through Spark."""
        from tessel.spark_exec import doctor as examine

        make_output(output).facts(examine())
