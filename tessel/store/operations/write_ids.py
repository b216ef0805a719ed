"""Writes that have a name of the caller's, each done once, however often it is asked for.

The log entry of a write tells its id. The metadata of the symbol keep the last ones with their
numbers of rows, so that the log need not be searched to know that an id is new. The batches of a
stream are numbered, so of them the metadata keep the last one of each stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tessel.errors import InvalidInputError, UnicodeTextError
from tessel.lazy import dataclass
from tessel.store.history.log import LogEntry
from tessel.store.operations.staged import StagedRows

WRITE_IDS = "write_ids"
"""The key of a commit's metadata under which it tells its id, by symbol."""

_KEPT = "tessel.writes"
"""The key of a symbol's metadata: a list of ids with their rows, the newest last."""

_STREAMS = "tessel.streams"
"""The key of a symbol's metadata: by id of a stream its last batch, as ``_last_batch`` has it."""

_MOST_KEPT = 1_000
_ID_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of a stream as the name of a write: what follows the last one, once.

    Attributes
    ----------
    stream
        What the user calls the stream.
    number
        The number of the batch; each is one more than that before.
    query
        The id of the run of batches that numbers them, which a restart from its checkpoint keeps;
        None where nobody knows it.
    restart
        Whether another query may go on with the stream, from whatever number.
    """

    stream: str
    number: int
    query: str | None = None
    restart: bool = False


WriteId = str | StreamBatch


def _last_batch(metadata: Mapping[str, Any], stream: str) -> tuple[int, int, str | None] | None:
    """Return number, rows and query of the last batch of a stream that a symbol has.

    None where metadata tell of none, and for what users have put there in its stead.
    """
    found = metadata.get(_STREAMS)
    match found.get(stream) if isinstance(found, Mapping) else None:
        case [int(number), int(rows), str() | None as query]:
            return number, rows, query
    return None


def check_write_id(write_id: WriteId, option: str = "write_id") -> str:
    """Return the id of a write; ``InvalidInputError`` for anything but a short text."""
    if isinstance(write_id, StreamBatch):
        return check_write_id(write_id.stream, "stream_id")
    if not isinstance(write_id, str) or not 0 < len(write_id) <= _ID_CHARACTERS:
        raise InvalidInputError(
            f"{option}={write_id!r:.60} names no {option.removesuffix('_id')}",
            hint=f"give text of 1 to {_ID_CHARACTERS} characters, the same when it is tried again",
        )
    UnicodeTextError.require(write_id, f"the {option}")
    return write_id


def is_written(
    metadata: Mapping[str, Any], symbol: str, write_id: WriteId, staged: Sequence[StagedRows]
) -> bool:
    """Return whether a symbol has a write already.

    Raises InvalidInputError where the id was used for another number of rows; for a batch that does
    not follow the last one of its stream.
    """
    rows = sum(each.rows for each in staged)
    if isinstance(write_id, StreamBatch):
        return _is_last(metadata, symbol, write_id, rows)
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


def _is_last(metadata: Mapping[str, Any], symbol: str, batch: StreamBatch, rows: int) -> bool:
    last = _last_batch(metadata, batch.stream)
    if last is None:
        return False
    number, before, query = last
    same = batch.query is None or query in (None, batch.query)  # as far as queries are known
    if same and batch.number == number:
        if rows == before:
            return True
        raise InvalidInputError(
            f"batch {batch.number} of stream {batch.stream!r} stands for {before} rows that "
            f"symbol {symbol!r} has already, and now for {rows}",
            hint="a batch that is run again must bring the same rows: let its source and what is "
            "computed from it give the same each time",
            symbol=symbol,
            stream_id=batch.stream,
            batch=batch.number,
        )
    if (same and batch.number == number + 1) or batch.restart:
        return False
    why = "does not follow" if same else "comes from another query, or another checkpoint, than"
    raise InvalidInputError(
        f"batch {batch.number} {why} batch {number} of stream {batch.stream!r}, the last one "
        f"that symbol {symbol!r} has",
        hint="go on from the checkpoint of the stream; or give the stream an id of its own; or say "
        'that it begins anew: option("stream_restart", True), and rows that both bring are there '
        "twice",
        symbol=symbol,
        stream_id=batch.stream,
        batch=batch.number,
        last=number,
    )


def with_write(
    before: Mapping[str, Any],
    metadata: Mapping[str, Any],
    write_id: WriteId | None,
    staged: Sequence[StagedRows],
) -> dict[str, Any]:
    """Return metadata that tell of the writes that a symbol had before, and of one with an id."""
    kept, streams = _kept(before), before.get(_STREAMS)
    streams = dict(streams) if isinstance(streams, Mapping) else {}
    rows = sum(each.rows for each in staged)
    if isinstance(write_id, StreamBatch):
        last = _last_batch(before, write_id.stream)
        # A batch without a task knows no query.
        query = write_id.query or (None if last is None else last[2])
        streams[write_id.stream] = [write_id.number, rows, query]
    elif write_id is not None:
        kept.append((write_id, rows))
    told: dict[str, Any] = {_KEPT: [list(each) for each in kept[-_MOST_KEPT:]]} if kept else {}
    return {**metadata, **told, **({_STREAMS: streams} if streams else {})}


def logged_id(write_id: WriteId) -> str | list[str | int]:
    """Return the id of a write as plain data, for the log."""
    return write_id if isinstance(write_id, str) else [write_id.stream, write_id.number]


def version_of(entries: Iterable[LogEntry], symbol: str, write_id: WriteId) -> int | None:
    """Return the version that a write became; None where it has expired.

    Parameters
    ----------
    entries
        The versions of the branch, the newest first.
    """
    logged = logged_id(write_id)
    return next((entry.number for entry in entries if id_of(entry, symbol) == logged), None)


def id_of(entry: LogEntry, symbol: str) -> str | list[str | int] | None:
    """Return the id, as logged, of the write that a version is; None for any other version."""
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
