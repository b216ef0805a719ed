"""The state of every symbol after one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tessel.store.history.documents import Fields
from tessel.store.history.symbol import SymbolState

__all__ = ["Snapshot"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All symbols after one commit, by name."""

    symbols: Mapping[str, SymbolState] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the snapshot as plain data."""
        return {"symbols": {name: state.to_json() for name, state in self.symbols.items()}}

    @classmethod
    def read(cls, fields: Fields) -> Snapshot:
        """Read a snapshot from a document."""
        symbols = fields.fields("symbols")
        return cls({name: SymbolState.read(symbols.fields(name)) for name in symbols})
