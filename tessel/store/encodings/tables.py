"""The contract of a whole table as bytes: columns to bytes and back, for messages and blocks."""

from __future__ import annotations

from typing import ClassVar, Protocol

import pyarrow as pa

__all__ = ["TableEncoding"]


class TableEncoding(Protocol):
    """Columns of equal length as one run of bytes.

    An encoding keeps every bit: NaN payloads, negative zeros, the values and the order of a
    dictionary. What it is given to decode is untrusted.
    """

    name: ClassVar[str]
    """The word for it, as written into files; never used again for another layout."""

    def encode(self, table: pa.Table) -> pa.Buffer:
        """Return the rows and columns of ``table`` as bytes."""

    def decode(self, data: pa.Buffer, *, where: str) -> pa.Table:
        """Rebuild a table without copying where that is possible.

        Parameters
        ----------
        data
            What ``encode`` returned, or anything else: it is checked before it is believed.
        where
            What the bytes are, for errors: the name of an object, or ``"a message"``.

        Raises
        ------
        CorruptSegmentError
            When the bytes are not what ``encode`` makes.
        """
