"""``tessel tag``: names of versions that stay."""

from __future__ import annotations

from typing import Annotated

import typer

from tessel.cli.arguments import Form, StoreUri, open_existing, version_of
from tessel.cli.output import OutputFormat, make_output

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The tag.", show_default=False)]
_At = Annotated[
    str | None,
    typer.Option("--at", metavar="VERSION", help="What it names.", show_default="the newest"),
]


group = typer.Typer(name="tag", no_args_is_help=True, help="Names of versions, for ever.")


@group.command("list")
def list_tags(store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """List the tags and the versions that they name."""
    import pyarrow as pa

    found = sorted(open_existing(store).tags().items())
    schema = pa.schema([("tag", pa.string()), ("version", pa.int64())])
    rows = [{"tag": name, "version": version} for name, version in found]
    make_output(output).table(pa.Table.from_pylist(rows, schema=schema))


@group.command()
def create(name: _Name, store: StoreUri, at: _At = None, output: Form = OutputFormat.TABLE) -> None:
    """Name a version; the name can never mean another one."""
    opened = open_existing(store, read_only=False)
    opened.create_tag(name, version_of(at))
    make_output(output).facts({"tag": name, "version": opened.tags()[name]})


@group.command()
def delete(name: _Name, store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """Delete a tag; its name is not used again."""
    made = open_existing(store, read_only=False).delete_tag(name)
    make_output(output).facts({"tag": name, "version": made})
