"""Writes that have a name of the caller's, each done once, however often it is asked for.

The log entry of a write tells its id. The metadata of the symbol keep the last ones with their
numbers of rows, so that the log need not be searched to know that an id is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tessel.errors import InvalidInputError
from tessel.store.history.log import LogEntry
from tessel.store.operations.staged import StagedRows

__all__ = ["WRITE_IDS", "check_write_id", "id_of", "is_written", "version_of", "with_write"]

WRITE_IDS = "write_ids"
"""The key of a commit's metadata under which it tells its id, by symbol."""

_KEPT = "tessel.writes"
"""The key of a symbol's metadata: a list of ids with their rows, the newest last."""

_MOST_KEPT = 1_000
_ID_CHARACTERS = 200


def check_write_id(write_id: object) -> str:
    """Return the id of a write; ``InvalidInputError`` for anything but a short text."""
    if not isinstance(write_id, str) or not 0 < len(write_id) <= _ID_CHARACTERS:
        raise InvalidInputError(
            f"write_id={write_id!r:.60} names no write",
            hint=f"give text of 1 to {_ID_CHARACTERS} characters, the same when it is tried again",
        )
    return write_id


def is_written(
    metadata: Mapping[str, Any], symbol: str, write_id: str, staged: Sequence[StagedRows]
) -> bool:
    """Return whether a symbol has a write already.

    Parameters
    ----------
    metadata, symbol
        The metadata of the symbol, and its name.
    write_id, staged
        The write.

    Raises
    ------
    InvalidInputError
        Where the id was used for another number of rows.
    """
    rows = sum(each.rows for each in staged)
    for known, before in _kept(metadata):
        if known != write_id:
            continue
        if before != rows:
            raise InvalidInputError(
                f"write_id {write_id!r} stands for {before} rows that symbol {symbol!r} has "
                f"already, and now for {rows}",
                hint="give every write an id of its own; the same id repeats a write",
                symbol=symbol,
                write_id=write_id,
            )
        return True
    return False


def with_write(
    before: Mapping[str, Any],
    metadata: Mapping[str, Any],
    write_id: str | None,
    staged: Sequence[StagedRows],
) -> dict[str, Any]:
    """Return metadata that tell of the writes that a symbol had before, and of one with an id."""
    kept = _kept(before)
    if write_id is not None:
        kept.append((write_id, sum(each.rows for each in staged)))
    told = {_KEPT: [list(each) for each in kept[-_MOST_KEPT:]]} if kept else {}
    return {**metadata, **told}


def version_of(entries: Iterable[LogEntry], symbol: str, write_id: str) -> int | None:
    """Return the version that a write became; None where it has expired.

    Parameters
    ----------
    entries
        The versions of the branch, the newest first.
    symbol, write_id
        The write.
    """
    return next((entry.number for entry in entries if id_of(entry, symbol) == write_id), None)


def id_of(entry: LogEntry, symbol: str) -> str | None:
    """Return the id of the write that a version is; None for any other version."""
    found = entry.metadata.get(WRITE_IDS)
    return found.get(symbol) if isinstance(found, Mapping) else None


def _kept(metadata: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the writes that metadata tell of; what users have put there in their stead is none."""
    found = metadata.get(_KEPT)
    pairs = found if isinstance(found, list) else []
    return [
        (each[0], each[1])
        for each in pairs
        if isinstance(each, list) and list(map(type, each)) == [str, int]
    ]
