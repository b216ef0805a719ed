"""``tessel log``: what was done to a store, commit by commit."""

from __future__ import annotations

import dataclasses

from tessel.cli.arguments import Form, StoreUri, open_existing
from tessel.cli.output import OutputFormat, make_output

__all__ = ["log"]


def log(store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """List what every commit did to which symbol, newest first."""
    import pyarrow as pa

    rows = [dataclasses.asdict(entry) for entry in open_existing(store).log()]
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
    make_output(output).table(pa.Table.from_pylist(rows, schema=schema))
