"""``tessel fsck``: whether a store is sound."""

from __future__ import annotations

import dataclasses
from typing import Any

import typer

from tessel.cli.arguments import Form, StoreUri, open_existing
from tessel.cli.exit_codes import STORE_DAMAGED
from tessel.cli.output import OutputFormat, make_output

__all__ = ["fsck"]


def fsck(store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """Read and verify everything that the kept versions of a store refer to; change nothing.

    Exits with 5 where something is damaged, and says which symbols, versions and rows are lost.
    """
    import pyarrow as pa

    report = open_existing(store).check()
    counted = (
        f"{report.versions} versions, {report.manifests} manifests, {report.segments} "
        f"segments, {report.bytes:,} bytes"
    )
    if report.orphans:
        counted += f"; {report.orphans} objects that no version needs"
    if not report.damages:
        facts = dataclasses.asdict(report)
        make_output(output).document(f"{counted}: all sound", facts)
        return
    schema = pa.schema(
        [
            ("version", pa.int64()),
            ("symbol", pa.string()),
            ("rows", pa.string()),
            ("versions", pa.string()),
            ("object", pa.string()),
            ("message", pa.string()),
        ]
    )
    rows = [_row(damage) for damage in report.damages]
    title = f"{counted}: {len(rows)} damaged"
    make_output(output).table(pa.Table.from_pylist(rows, schema=schema), title=title)
    raise typer.Exit(STORE_DAMAGED)


def _row(damage: Any) -> dict[str, Any]:
    row = dataclasses.asdict(damage)
    row["rows"] = ", ".join(f"{start}:{stop}" for start, stop in damage.rows)
    row["versions"] = ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in damage.versions
    )
    return row
