"""FileSink: events go to a file, which ``LiveStore.load`` and a journal read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tessel.closing import Closing
from tessel.errors import ForkUnsafeError, InvalidInputError
from tessel.store.events.batch import EventBatch
from tessel.store.events.event_file import Journal


class FileSink(Closing):
    """Appends events to a file; close it after the recorder.

    Parameters
    ----------
    path
        The file: a new one, or one that holds events. A batch that was torn at its end is cut off.
    durable
        ``"process"``: what :meth:`insert` took survives ``kill -9``; ``"power"``: also that the
        power fails.

    Raises
    ------
    StoreBusyError
        While another process has the file open.
    NotAStoreError, FormatVersionError, CorruptStoreError
        For a file that holds something else, or damaged events.

    Examples
    --------
    >>> with FileSink("run.events") as sink, Recorder(sink) as recorder:
    ...     recorder.log("robot/arm", {"angle": 0.5}, frame=42)

    Notes
    -----
    Events are written as they come; a live store that loads the file takes each once.
    """

    def __init__(
        self, path: str | Path, *, durable: Literal["process", "power"] = "process"
    ) -> None:
        if durable not in ("process", "power"):
            raise InvalidInputError(f"durable is {durable!r}", hint='it is "process" or "power"')
        self._journal = Journal(path, sync=durable == "power")
        try:
            for _ in self._journal.replay():
                pass
        except BaseException:
            self._journal.close()
            raise

    @property
    def path(self) -> Path:
        """The file."""
        return self._journal.path

    def insert(self, events: Sequence[EventBatch], /) -> int:
        """Write events, all of them or none; return how many.

        Raises
        ------
        ForkUnsafeError
            In a forked child: the file is its parent's.
        OSError
            Where the file cannot be written; it is as it was.
        """
        if not self._journal.is_ours:
            raise ForkUnsafeError(
                f"the file {str(self.path)!r} is written by the process that opened it",
                hint="open a FileSink of another path after the fork",
            )
        batches = [batch for batch in events if len(batch)]
        if batches:
            self._journal.append(batches)
        return sum(map(len, batches))

    def close(self) -> None:
        """Let the file go."""
        self._journal.close()
