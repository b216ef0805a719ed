"""``tessel revert``: go back to what a version held, as a new version."""

from __future__ import annotations

from typing import Annotated

import typer

from tessel.cli.arguments import Form, StoreUri, open_existing, version_of
from tessel.cli.output import OutputFormat, make_output

_To = Annotated[str, typer.Argument(metavar="VERSION", help="The version to go back to.")]
_Message = Annotated[str, typer.Option("--message", "-m", help="Why.")]


def revert(
    to: _To, store: StoreUri, message: _Message = "", output: Form = OutputFormat.TABLE
) -> None:
    """Commit the state of an earlier version; nothing of what came since is lost."""
    made = open_existing(store, read_only=False).revert(version_of(to), message)
    make_output(output).facts({"reverted_to": to, "version": made})
