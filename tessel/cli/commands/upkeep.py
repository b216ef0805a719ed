"""``tessel fsck``, ``compact``, ``expire``, ``gc``: upkeep of a store, beginning with its check."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from tessel.cli.arguments import (
    Form,
    StoreUri,
    Symbol,
    open_existing,
    read_age,
    read_older_than,
)
from tessel.cli.exit_codes import STORE_DAMAGED
from tessel.cli.output import OutputFormat, make_output


def fsck(store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """Read and verify everything that the kept versions of a store refer to; change nothing.

    Exits with 5 where something is damaged, and says which symbols, versions and rows are lost.
    """
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
    rows = [_row(damage) for damage in report.damages]
    title = f"{counted}: {len(rows)} damaged"
    columns = "version:int64 symbol rows versions object message"
    make_output(output).rows(rows, columns, title=title)
    raise typer.Exit(STORE_DAMAGED)


def _row(damage: Any) -> dict[str, Any]:
    row = dataclasses.asdict(damage)
    row["rows"] = ", ".join(f"{start}:{stop}" for start, stop in damage.rows)
    row["versions"] = ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in damage.versions
    )
    return row


def compact(
    symbol: Symbol,
    store: StoreUri,
    target: Annotated[
        int | None,
        typer.Option(
            "--target",
            metavar="ROWS",
            help="Rows of a full segment.",
            show_default="the option segment_rows",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Merge small segments of a symbol, and what edits left of others; no answer changes."""
    opened = open_existing(store, read_only=dry_run)
    report = opened.compact(symbol, target=target, dry_run=dry_run)
    make_output(output).document(str(report), dataclasses.asdict(report))


def expire(
    older_than: Annotated[
        str,
        typer.Argument(
            metavar="OLDER_THAN",
            help="A version (120, which is kept), an age (30d, 36h) or an instant "
            "(2024-01-31T12:00Z).",
            show_default=False,
        ),
    ],
    store: StoreUri,
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Give them up; else only say which.")
    ] = False,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Give up old versions, besides those with a tag and the newest ones of branches.

    Nothing is deleted before the next `tessel gc`.
    """
    bound = read_older_than(older_than)
    report = open_existing(store, read_only=not apply).expire(bound, dry_run=not apply)
    make_output(output).document(str(report), dataclasses.asdict(report))


def gc(
    store: StoreUri,
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Delete what is dead; else only count it.")
    ] = False,
    minimum_age: Annotated[
        str,
        typer.Option("--minimum-age", metavar="AGE", help="Leave alone what is younger: 36h, 2d."),
    ] = "24h",
    output: Form = OutputFormat.TABLE,
) -> None:
    """Delete the objects that no kept version refers to.

    If anything cannot be read, nothing is deleted.
    """
    age = read_age(minimum_age)
    opened = open_existing(store, read_only=not apply)
    report = opened.gc(minimum_age=age, dry_run=not apply)
    names = ("live", "dead", "young", "leased")
    counts = " ".join(f"{name}:int64 {name}_bytes:int64" for name in names)
    make_output(output).rows(report.rows(), f"kind {counts}", title=str(report))
