"""What a read plan would do, as data and as a document. Nothing is read.

``explain`` enters here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tessel.display.documents import Document, Table
from tessel.store.segment.coalesce import CoalesceLimits, coalesce
from tessel.store.segment.read_plan import DICTIONARY_PAGE, ReadPlan

__all__ = ["ColumnRead", "PrunedPages", "ReadExplanation", "explain_read", "read_document"]


@dataclass(frozen=True, slots=True)
class ColumnRead:
    """What is read of one physical column.

    Attributes
    ----------
    name
        Its name, or its node number where no name is known.
    pages, pages_read
        Pages that it has, and those of which something is read; a dictionary is not counted.
    bytes_wanted
        Of these pages, and of the dictionary.
    """

    name: str
    pages: int
    pages_read: int
    bytes_wanted: int


@dataclass(frozen=True, slots=True)
class PrunedPages:
    """Pages of one column that are not read, and why."""

    column: str
    reason: str
    pages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ReadExplanation:
    """A read plan in numbers.

    Attributes
    ----------
    pages, pages_read
        Pages that the columns have, and those of which something is read.
    bytes_wanted, bytes_read
        Bytes that the plan needs, and those that are read for it, gaps included.
    requests_before, requests_after
        Ranges wanted, and what they are put together to.
    columns
        The same by column, in the order of their numbers; only those with wanted pages or pruned
        ones.
    pruned
        What is not read, and why.
    """

    pages: int
    pages_read: int
    bytes_wanted: int
    bytes_read: int
    requests_before: int
    requests_after: int
    columns: tuple[ColumnRead, ...]
    pruned: tuple[PrunedPages, ...]


def explain_read(
    plan: ReadPlan, limits: CoalesceLimits, *, column_names: Mapping[int, str] | None = None
) -> ReadExplanation:
    """Tell what a plan reads.

    Parameters
    ----------
    plan
        Of one segment or of several.
    limits
        Those of the source that it would be read from.
    column_names
        Names of physical columns by node number.
    """
    names = column_names or {}
    parts = coalesce(plan.ranges, limits)
    pages_of = {dropped.node: 0 for dropped in plan.pruned}
    for dropped in plan.pruned:
        pages_of[dropped.node] += dropped.pages
    columns = []
    for node in sorted({*plan.column.tolist(), *pages_of}):
        here = plan.column == node
        # Node, page and object: the same page number means another page in another segment.
        read = {*plan.request[here & (plan.page != DICTIONARY_PAGE)].tolist()}
        columns.append(
            ColumnRead(
                names.get(node, str(node)),
                pages_of.get(node, 0) + len(read),
                len(read),
                int((plan.end - plan.start)[here].sum()),
            )
        )
    return ReadExplanation(
        pages=plan.pages,
        pages_read=sum(column.pages_read for column in columns),
        bytes_wanted=parts.wanted_bytes,
        bytes_read=parts.bytes,
        requests_before=parts.wanted_ranges,
        requests_after=len(parts),
        columns=tuple(columns),
        pruned=tuple(
            PrunedPages(
                names.get(dropped.node, str(dropped.node)),
                dropped.reason,
                dropped.pages,
                dropped.bytes,
            )
            for dropped in plan.pruned
        ),
    )


def read_document(explanation: ReadExplanation, title: str = "read plan") -> Document:
    """Return an explanation as a document."""
    columns = Table(
        "columns",
        ("column", "pages", "read", "bytes"),
        tuple((c.name, c.pages, c.pages_read, c.bytes_wanted) for c in explanation.columns),
        (
            f"pages: {explanation.pages_read:,} of {explanation.pages:,}",
            f"bytes: {explanation.bytes_wanted:,} wanted, {explanation.bytes_read:,} read",
            f"requests: {explanation.requests_before:,} → {explanation.requests_after:,}",
        ),
    )
    pruned = Table(
        "not read",
        ("column", "pages", "bytes", "why"),
        tuple((p.column, p.pages, p.bytes, p.reason) for p in explanation.pruned),
    )
    return Document(title, (columns, pruned) if explanation.pruned else (columns,))
