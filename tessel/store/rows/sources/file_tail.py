"""FileTail: the rows of a file that somebody else goes on writing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from tessel.errors import InvalidInputError, RowFormatError
from tessel.store.objects.mapped import open_regular
from tessel.store.rows.rows import Rows
from tessel.store.rows.schema import RowSchema
from tessel.store.rows.stream import RowStream

_READ_BYTES = 1 << 20


class FileTail:
    """Reads rows from a file, and waits for more at its end.

    Parameters
    ----------
    path
        The file.
    schema
        Of the rows in it.
    position
        The byte to begin at: what :attr:`position` said when an earlier tail ended.
    poll_seconds
        How often the end is looked at.

    Examples
    --------
    >>> tail = FileTail("trades.rows", schema)
    >>> for rows in tail.follow(stop):
    ...     bridge.extend(rows)
    """

    def __init__(
        self,
        path: str | Path,
        schema: RowSchema,
        *,
        position: int = 0,
        poll_seconds: float = 0.2,
    ) -> None:
        if position < 0 or not poll_seconds > 0:
            raise InvalidInputError(
                f"a tail from byte {position} that looks every {poll_seconds} seconds"
            )
        self._path = Path(path)
        self._schema = schema
        self._position = position
        self._poll_seconds = poll_seconds

    @property
    def position(self) -> int:
        """The byte after the rows that were given last: where another tail can go on."""
        return self._position

    def read(self) -> Iterator[Rows]:
        """Give what is there now, to the end of the file.

        Raises
        ------
        RowFormatError
            For bytes that are not rows of the schema, or half a row at the end.
        """
        yield from self.follow(_set())

    def follow(self, stop: threading.Event) -> Iterator[Rows]:
        """Give rows as they are written until ``stop`` is set, and then what is there still.

        Raises
        ------
        RowFormatError
            For bytes that are not rows of the schema; for half a row at the end when it stops; for
            a file that became shorter than what was read of it.
        NotAStoreError
            For a pipe or a device.
        """
        stream = RowStream(self._schema)
        with open(open_regular(self._path), "rb", buffering=0) as file:
            file.seek(self._position)
            while True:
                stopped = stop.is_set()  # asked first: what was written before is read after
                while data := file.read(_READ_BYTES):
                    for rows in stream.feed(data):
                        # Not the position of the stream, which is past rows not given yet.
                        self._position += rows.nbytes
                        yield rows
                self._check_length(os.fstat(file.fileno()).st_size, file.tell())
                if stopped:
                    stream.close()
                    return
                stop.wait(self._poll_seconds)

    def _check_length(self, length: int, read: int) -> None:
        if length < read:
            raise RowFormatError(
                f"{str(self._path)!r} has {length} bytes now, and {read} of it were read",
                hint="it was cut or written anew: begin another tail at position 0",
            )


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event
