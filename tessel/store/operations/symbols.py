"""delete, rename_symbol, set_metadata: a symbol as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tessel.errors import InvalidInputError, SymbolNameError
from tessel.store.names import check_symbol_name
from tessel.store.operations.incoming import checked_metadata
from tessel.store.operations.stage import Stage

__all__ = ["delete", "rename_symbol", "set_metadata"]


def delete(stage: Stage, symbol: str) -> None:
    """Delete a symbol; see ``Repository.delete``."""
    stage.remove(stage.existing(symbol))


def rename_symbol(stage: Stage, symbol: str, to: str) -> None:
    """Give a symbol another name; see ``Repository.rename_symbol``."""
    working = stage.existing(symbol)
    check_symbol_name(to)
    if to == symbol:
        return
    if stage.find(to) is not None:
        raise SymbolNameError(
            f"symbol {symbol!r} cannot be renamed: there is a symbol {to!r}",
            hint="delete that one first, in the same transaction if you like",
            symbol=to,
        )
    stage.rename(working, to)


def set_metadata(stage: Stage, symbol: str, metadata: Mapping[str, Any]) -> None:
    """Replace the metadata of a symbol; see ``Repository.set_metadata``."""
    working = stage.existing(symbol)
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(
            f"the metadata of a symbol are a mapping, not {metadata!r}",
            hint="{} clears them",
        )
    working.change_metadata(checked_metadata(metadata))
