"""``tessel warmup``: make the machine code of kernels before a query needs it."""

from __future__ import annotations

import typer

from tessel.cli.arguments import Form
from tessel.cli.output import OutputFormat, make_output

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def warmup(output: Form = OutputFormat.TABLE) -> None:
        """Compile all kernels once, so that no query runs without machine code."""
        import pyarrow as pa

        from tessel.kernels.making import warm_up

        made = list(warm_up())
        rows = [(each.room, round(each.seconds, 3), each.problem or None) for each in made]
        names = ("kernels", "seconds", "problem")
        kinds = (pa.string(), pa.float64(), pa.string())
        columns = zip(names, kinds, zip(*rows, strict=True), strict=True)
        make_output(output).table(pa.table({n: pa.array(held, kind) for n, kind, held in columns}))
