"""``tessel expire``: old versions are given up."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tessel.cli.ages import read_older_than
from tessel.cli.arguments import Form, StoreUri, open_existing
from tessel.cli.output import OutputFormat, make_output

__all__ = ["expire"]


def expire(
    older_than: Annotated[
        str,
        typer.Argument(
            metavar="OLDER_THAN",
            help="A version (120, which is kept), an age (30d, 36h) or an instant "
            "(2024-01-31T12:00Z).",
            show_default=False,
        ),
    ],
    store: StoreUri,
    apply: Annotated[
        bool, typer.Option("--apply", help="Give them up; else only say which.")
    ] = False,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Give up old versions, besides those with a tag and the newest ones of branches.

    Nothing is deleted before the next `tessel gc`.
    """
    bound = read_older_than(older_than)
    report = open_existing(store, read_only=not apply).expire(bound, dry_run=not apply)
    make_output(output).document(str(report), dataclasses.asdict(report))
