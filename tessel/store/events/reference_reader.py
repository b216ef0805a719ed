"""ReferenceReader: fetches what references name, from the places that it was given and no others.

References come from whoever logs, over a socket too: so nothing in them is trusted. What they may
name is below the roots that the reader was made with; a range is held against the object, and the
bytes against the checksum, before anybody sees them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import google_crc32c
import pyarrow as pa

from tessel.errors import (
    CorruptStoreError,
    InvalidInputError,
    ReferenceChangedError,
    StoreAccessError,
)
from tessel.errors.arguments import checks_arguments
from tessel.store.events.extension_types import Reference, ReferenceType
from tessel.store.events.queries import Found
from tessel.store.events.row import Cell
from tessel.store.lru_cache import ByteLruCache
from tessel.store.objects.base import ForeignObjects
from tessel.store.objects.foreign import foreign_name, open_foreign

References: TypeAlias = Found | Cell | pa.Array | pa.ChunkedArray | Iterable[Reference | None]
"""What holds references: an answer, a cell, a column of a query's result, or a list."""


@checks_arguments
class ReferenceReader:
    """Fetches the bytes that references name.

    Parameters
    ----------
    roots
        The places that may be read: absolute paths, ``s3://bucket/folder``, ``memory://name``, or
        what :func:`tessel.store.objects.open_foreign` returns, for credentials of their own.
    max_bytes
        The most that one reference may name.
    cache_bytes
        How much of what was fetched is kept, what was used last the longest. Only references with
        a checksum are kept: their bytes cannot be others.

    Raises
    ------
    InvalidInputError
        For a root that is none, and numbers that cannot be.

    Examples
    --------
    >>> reader = ReferenceReader(["/data/videos", "s3://bucket/scans"])
    >>> reader.fetch(Reference("/data/videos/run7.mp4", 4096, 65_536))
    """

    def __init__(
        self,
        roots: Iterable[str | os.PathLike[str] | ForeignObjects],
        *,
        max_bytes: int = 256 << 20,
        cache_bytes: int = 64 << 20,
    ) -> None:
        if isinstance(roots, str | os.PathLike):
            raise InvalidInputError(
                f"the roots of a reader are several, not {os.fspath(roots)!r}", hint="give a list"
            )
        if max_bytes < 1 or cache_bytes < 0:
            raise InvalidInputError(
                f"max_bytes={max_bytes} and cache_bytes={cache_bytes}", hint="give positive numbers"
            )
        self._roots = tuple(
            open_foreign(root) if isinstance(root, str | os.PathLike) else root for root in roots
        )
        self._max_bytes = max_bytes
        self._kept = ByteLruCache[Reference, pa.Buffer](cache_bytes, lambda data: int(data.size))

    @property
    def roots(self) -> list[str]:
        """The URIs of the places that may be read."""
        return [root.uri for root in self._roots]

    @property
    def kept_bytes(self) -> int:
        """How many bytes of what was fetched are kept."""
        return self._kept.nbytes

    def fetch(self, reference: Reference) -> pa.Buffer:
        """Return the bytes that a reference names.

        Raises
        ------
        StoreAccessError
            For an object below none of the roots, or one that is no plain file.
        NotFoundError
            For an object that is not there.
        ReferenceChangedError
            For an object that ends before the bytes do, or whose bytes have another checksum.
        InvalidInputError
            For a URI that is none, and for more bytes than ``max_bytes``.
        """
        kept = self._kept.get(reference)
        if kept is not None:
            return kept
        data = self._read(reference)
        if reference.checksum is not None:
            found = int(google_crc32c.value(data))
            if found != reference.checksum:
                raise ReferenceChangedError(
                    f"the bytes of {reference.uri!r} are not those that were referred to: their "
                    f"checksum is {found}, not {reference.checksum}",
                    hint="the object was changed, or the reference is of another",
                    uri=reference.uri,
                )
            self._kept.put(reference, data)
        return data

    def fetch_all(self, references: References) -> Iterator[pa.Buffer | None]:
        """Give the bytes of many references, one after another, None for those that are null.

        Parameters
        ----------
        references
            An answer or a cell of a live store, a column of a query's result (of structs, or of
            lists of them, which are taken end to end), or a list.

        Raises
        ------
        InvalidInputError
            For what holds no references; otherwise as :meth:`fetch`, when it comes to it.
        """
        return (None if each is None else self.fetch(each) for each in _references(references))

    def _read(self, reference: Reference) -> pa.Buffer:
        objects, name = self._place(reference)
        try:
            length = reference.length
            if length is None:
                length = objects.size(name) - reference.offset
            if length > self._max_bytes:
                raise InvalidInputError(
                    f"the reference to {reference.uri!r} is of {length} bytes, and "
                    f"{self._max_bytes} are fetched at once",
                    hint="make the ReferenceReader with larger max_bytes",
                    uri=reference.uri,
                )
            return objects.get_range(name, reference.offset, length)
        except CorruptStoreError as error:
            size = error.attributes.get("size")
            wanted = "all" if reference.length is None else reference.length
            raise ReferenceChangedError(
                f"{reference.uri!r} has {size} bytes, and the reference is to {wanted} from "
                f"{reference.offset} on",
                hint="the object was changed, or the reference is of another",
                uri=reference.uri,
            ) from error

    def _place(self, reference: Reference) -> tuple[ForeignObjects, str]:
        for root in self._roots:
            name = foreign_name(root.uri, reference.uri)
            if name is not None:
                return root, name
        raise StoreAccessError(
            f"the reference to {reference.uri!r} lies in no place that may be read",
            hint=f"make the ReferenceReader with its root; it has {self.roots}",
            uri=reference.uri,
        )


def _references(held: References) -> Iterator[Reference | None]:
    if isinstance(held, Found):
        held = held.cell
    if isinstance(held, Cell):
        held = held.values
    if not isinstance(held, pa.Array | pa.ChunkedArray):
        return iter(held)
    kind = held.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        chunks = held.chunks if isinstance(held, pa.ChunkedArray) else [held]
        return (each for chunk in chunks for each in _references(chunk.flatten()))
    if kind == ReferenceType():
        return iter(held.to_pylist())
    if kind != ReferenceType.storage:
        raise InvalidInputError(
            f"values of {kind} are no references", hint="give a column of references"
        )
    return (None if each is None else Reference.from_struct(each) for each in held.to_pylist())
