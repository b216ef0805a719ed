"""``tessel diff``: what differs between two versions."""

from __future__ import annotations

from typing import Annotated, Any

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
    rows = [{"symbol": name, "change": "added"} for name in found.added]
    rows += [{"symbol": name, "change": "removed"} for name in found.removed]
    rows += [_changed(symbol) for symbol in found.changed]
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
    rows.sort(key=lambda row: row["symbol"])
    make_output(output).table(pa.Table.from_pylist(rows, schema=schema))


def _changed(symbol: Any) -> dict[str, Any]:
    columns = [f"+{name}" for name in symbol.columns_added]
    columns += [f"-{name}" for name in symbol.columns_removed]
    columns += [f"{old} → {new}" for old, new in symbol.columns_renamed]
    columns += [f"{name}: {old} → {new}" for name, old, new in symbol.columns_retyped]
    return {
        "symbol": symbol.symbol,
        "change": "recreated" if symbol.recreated else "changed",
        "rows_before": symbol.rows_before,
        "rows_after": symbol.rows_after,
        "segments_removed": len(symbol.segments_removed),
        "segments_added": len(symbol.segments_added),
        "columns": ", ".join(columns) or None,
    }
