"""``tessel compact``: small segments of a symbol become full ones."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tessel.cli.arguments import Form, StoreUri, Symbol, open_existing
from tessel.cli.output import OutputFormat, make_output

__all__ = ["compact"]


def compact(
    symbol: Symbol,
    store: StoreUri,
    target: Annotated[
        int | None,
        typer.Option(
            "--target",
            metavar="ROWS",
            help="Rows of a full segment.",
            show_default="the option segment_rows",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Merge small segments of a symbol, and what edits left of others; no answer changes."""
    opened = open_existing(store, read_only=dry_run)
    report = opened.compact(symbol, target=target, dry_run=dry_run)
    make_output(output).document(str(report), dataclasses.asdict(report))
