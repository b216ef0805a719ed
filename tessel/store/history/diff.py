"""Which symbols differ between two versions, without reading what the versions share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tessel.store.history.snapshot import Snapshot
from tessel.store.history.symbol import SymbolState
from tessel.store.history.tree import differences

__all__ = ["changed_symbols"]


def changed_symbols(
    before: Snapshot, after: Snapshot
) -> Iterator[tuple[str, SymbolState | None, SymbolState | None]]:
    """Yield name, earlier and later state of each symbol that differs, sorted by name.

    None stands for a symbol that is not there. A symbol that was changed and changed back does not
    differ; nor does one whose rows are the same, only packed in other manifests.
    """
    for name, left, right in differences(after.nodes, before.root, after.root):
        was = None if left is None else left.state(name)
        becomes = None if right is None else right.state(name)
        if was is None or becomes is None or not _same(was, becomes):
            yield name, was, becomes


def _same(was: SymbolState, becomes: SymbolState) -> bool:
    # What one commit made of a symbol is one content, wherever it was packed since.
    if was.changed and (was.id, was.changed) == (becomes.id, becomes.changed):
        return True
    return _essence(was) == _essence(becomes)


def _essence(state: SymbolState) -> SymbolState:
    return dataclasses.replace(state, changed=0, next_column_id=0)
