"""``tessel branch``: lines of versions beside one another."""

from __future__ import annotations

from typing import Annotated

import typer

from tessel.cli.arguments import Form, StoreUri, open_existing, version_of
from tessel.cli.output import OutputFormat, make_output

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The branch.", show_default=False)]
_At = Annotated[
    str | None,
    typer.Option("--at", metavar="VERSION", help="Where it begins.", show_default="the newest"),
]
_To = Annotated[str, typer.Option("--to", metavar="VERSION", help="The version to set it to.")]


group = typer.Typer(name="branch", no_args_is_help=True, help="Lines of versions of a store.")


@group.command("list")
def list_branches(store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """List the branches and their newest versions."""
    import pyarrow as pa

    found = sorted(open_existing(store).branches().items())
    schema = pa.schema([("branch", pa.string()), ("version", pa.int64())])
    rows = [{"branch": name, "version": version} for name, version in found]
    make_output(output).table(pa.Table.from_pylist(rows, schema=schema))


@group.command()
def create(name: _Name, store: StoreUri, at: _At = None, output: Form = OutputFormat.TABLE) -> None:
    """Begin a branch at a version."""
    made = open_existing(store, read_only=False).create_branch(name, version_of(at))
    make_output(output).facts({"branch": name, "version": made})


@group.command()
def reset(name: _Name, store: StoreUri, to: _To, output: Form = OutputFormat.TABLE) -> None:
    """Set a branch to another version; its later ones are only reached by number."""
    made = open_existing(store, read_only=False).reset_branch(name, version_of(to))
    make_output(output).facts({"branch": name, "version": made})


@group.command()
def delete(name: _Name, store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """Delete a branch."""
    made = open_existing(store, read_only=False).delete_branch(name)
    make_output(output).facts({"branch": name, "version": made})
