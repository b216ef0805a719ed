"""RowStream: a stream of bytes, cut anywhere, as whole rows."""

from __future__ import annotations

from tessel.errors import InvalidInputError, RowFormatError
from tessel.store.rows.rows import BytesLike, Rows
from tessel.store.rows.schema import Layout, RowSchema
from tessel.store.rows.wire import (
    BATCH_HEADER,
    batch_length,
    check_place,
    next_row_length,
    whole_rows,
)


class RowStream:
    """Takes bytes as they come from a socket or file, and gives the rows that are whole.

    Parameters
    ----------
    schema
        Of packed batches, or of aligned or foreign rows end to end.
    max_batch_bytes
        The longest packed batch, or aligned row, that is waited for.

    Notes
    -----
    Half a row is kept until the rest arrives, and reported by :meth:`close`. After an error nothing
    more is taken: where the next row would begin is not known.
    """

    def __init__(self, schema: RowSchema, *, max_batch_bytes: int = 256 << 20) -> None:
        if max_batch_bytes < 1:
            raise InvalidInputError(f"batches of at most {max_batch_bytes} bytes")
        self.schema = schema
        self._max_batch_bytes = max_batch_bytes
        self._held = bytearray()
        self._needed = 1
        self._position = 0
        self._failed: RowFormatError | None = None

    @property
    def position(self) -> int:
        """Bytes of the stream that have become rows."""
        return self._position

    @property
    def held_bytes(self) -> int:
        """Bytes that wait for the rest of their row."""
        return len(self._held)

    def feed(self, data: BytesLike) -> list[Rows]:
        """Take bytes; return the rows that are whole now, in order.

        Raises
        ------
        RowFormatError
            For bytes that are not rows of the schema. Rows that stand before them in the same call
            are returned, and the error is raised by the next call; but not the packed batch just
            before them, which may be the damaged one.
        """
        if self._failed is not None:
            raise self._failed
        self._held += data
        if len(self._held) < self._needed:
            return []
        content = bytes(self._held)
        held, found, at = memoryview(content), list[Rows](), 0
        try:
            while length := self._next_length(held[at:]):
                if self.schema.layout is Layout.PACKED:
                    check_place(self.schema, content, at, at + length)
                found.append(Rows.from_bytes(self.schema, held[at : at + length]))
                at += length
        except RowFormatError as error:
            self._failed = error.with_context(position=str(self._position + at))
            if not found:
                raise
        del self._held[:at]
        self._position += at
        return found

    def close(self) -> None:
        """End the stream.

        Raises
        ------
        RowFormatError
            Where half a row is left, with where it begins; or the error that ended the stream.
        """
        if self._failed is not None:
            raise self._failed
        if self._held:
            raise RowFormatError(
                f"the stream ends with {len(self._held)} bytes that are no whole row",
                hint=f"the last whole row ends at byte {self._position} of the stream",
                position=self._position,
            )

    def _next_length(self, held: memoryview) -> int:
        """Return the bytes of the next batch, or of all whole rows; 0 where more is needed."""
        if self.schema.layout is Layout.PACKED:
            self._needed = BATCH_HEADER.size
            if len(held) >= BATCH_HEADER.size:
                self._needed = batch_length(self.schema, held)
            self._check_length(self._needed, "a batch")
            return self._needed if len(held) >= self._needed else 0
        length = whole_rows(self.schema, held)
        self._needed = 1 if length else next_row_length(self.schema, held)
        self._check_length(self._needed, "a row")
        return length

    def _check_length(self, length: int, what: str) -> None:
        if length > self._max_batch_bytes:
            raise RowFormatError(
                f"{what} of {length} bytes, and {self._max_batch_bytes} are waited for",
                hint="give a larger max_batch_bytes, or send smaller batches",
            )
