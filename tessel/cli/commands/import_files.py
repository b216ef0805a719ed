"""``tessel import``: files into a symbol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tessel.cli.arguments import Form, StoreUri
from tessel.cli.output import OutputFormat, make_output

__all__ = ["import_files"]


def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="CSV (also .csv.gz), Parquet or Feather files of one schema, in order.",
            show_default=False,
        ),
    ],
    store: StoreUri,
    symbol: Annotated[
        str, typer.Option("--symbol", help="The symbol to write.", show_default=False)
    ],
    index: Annotated[
        str | None, typer.Option("--index", metavar="COLUMN", help="The time index.")
    ] = None,
    sort: Annotated[
        bool, typer.Option("--sort", help="Sort the rows by the index first (stable).")
    ] = False,
    missing: Annotated[
        list[str] | None,
        typer.Option("--missing", metavar="TEXT", help="CSV text that means missing."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and write nothing.")
    ] = False,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Write files as a new version of a symbol."""
    import tessel as ts
    from tessel.cli.files import read_files

    table = read_files(files, missing=("", *(missing or ("NA", "null"))))
    # A dry run is the same write into memory: every check of the real one, and nothing on disk.
    target = ts.open("memory://" if dry_run else store)
    version = target.write(symbol, table, index=index, sort=sort)
    make_output(output).facts(
        {
            "symbol": symbol,
            "rows": table.num_rows,
            "columns": table.num_columns,
            "index": index,
            "version": "none: dry run" if dry_run else version,
        }
    )
