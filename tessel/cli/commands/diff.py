"""``tessel diff``: what differs between two versions."""

from __future__ import annotations

from typing import Annotated

import typer

from tessel.cli.arguments import Form, StoreUri, open_existing, version_of
from tessel.cli.output import OutputFormat, make_output

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
    import pyarrow as pa

    found = open_existing(store).diff(version_of(before), version_of(after))
    schema = pa.schema(
        [
            ("symbol", pa.string()),
            ("change", pa.string()),
            ("rows_before", pa.int64()),
            ("rows_after", pa.int64()),
            ("segments_removed", pa.int64()),
            ("segments_added", pa.int64()),
            ("columns", pa.string()),
        ]
    )
    make_output(output).table(pa.Table.from_pylist(found.rows, schema=schema))
