"""Versions as they are listed for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from tessel.lazy import dataclass
from tessel.store.history.log import ATTACHED, LogEntry
from tessel.store.history.refs import MAIN
from tessel.store.history.versions import timestamp_of

__all__ = ["Version"]


@dataclass(frozen=True, slots=True)
class Version:
    """What one version did to one symbol, or to branches and tags.

    Attributes
    ----------
    number
        Number of the commit: the version of the whole store.
    timestamp
        When it landed, UTC.
    message
        What the writer said.
    symbol
        The symbol that it touched; ``""`` for an act on branches or tags.
    change
        What it did to the symbol, such as ``"write"``, ``"append"`` or ``"delete"``; or to branches
        and tags, such as ``"create-tag"``.
    rows
        Rows of the symbol afterwards.
    branch
        The branch that it was made on.
    metadata
        What the writer attached to the commit: plain JSON.
    """

    number: int
    timestamp: datetime
    message: str
    symbol: str
    change: str
    rows: int
    branch: str = MAIN
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, entry: LogEntry, symbol: str | None = None) -> Iterator[Version]:
        """Yield what an entry did: to one symbol, or to all and to branches and tags."""
        moment = timestamp_of(entry)
        metadata = entry.metadata.get(ATTACHED, {})
        for change in entry.changes:
            if symbol is None or symbol in change.names:
                yield cls(
                    entry.number,
                    moment,
                    entry.message,
                    change.name,
                    change.kind,
                    change.rows,
                    entry.branch,
                    metadata,
                )
        if symbol is None and entry.act != "commit":
            act = entry.act
            yield cls(entry.number, moment, entry.message, "", act, 0, entry.branch, metadata)
