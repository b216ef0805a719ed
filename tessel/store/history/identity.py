"""What makes a place a store: the create-only ``store.json``."""

from __future__ import annotations

import time

from tessel.errors import (
    ConditionalWriteError,
    CorruptStoreError,
    NotAStoreError,
    NotFoundError,
    StoreNotFoundError,
)
from tessel.lazy import dataclass
from tessel.store.history.documents import FORMAT, FORMAT_VERSION, check_format, seal, unseal
from tessel.store.names import STORE, new_id
from tessel.store.objects.base import ObjectStore, SupportsReserve, VerifiesPuts

__all__ = ["StoreIdentity", "open_store"]


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The random id of a store, 32 hexadecimal digits."""

    id: str


def open_store(objects: ObjectStore, *, create: bool, read_only: bool) -> StoreIdentity:
    """Return the identity of the store at a place, made there where that is wanted.

    Raises
    ------
    StoreNotFoundError
        When there is nothing, and none is to be made.
    NotAStoreError
        When there is something else; it is left as it is.
    FormatVersionError
        When another version of the format wrote it.
    CorruptStoreError
        When ``store.json`` is damaged.
    ConditionalWriteError
        When a store was to be made on a server that overwrites what it must not; none is left.
    """
    try:
        return _read(objects)
    except NotFoundError:
        pass
    stranger = next(iter(objects.list(limit=1)), None)
    if stranger is not None:
        # A store that another process is making right now begins with its store.json.
        try:
            return _read(objects)
        except NotFoundError:
            raise NotAStoreError(
                f"{objects.uri!r} holds something that is no store, such as {stranger!r}",
                hint="open an empty or new directory; this one was left as it is",
                uri=objects.uri,
            ) from None
    if read_only or not create:
        raise StoreNotFoundError.at(objects.uri, read_only=read_only)
    document = {
        "format": FORMAT,
        "version": list(FORMAT_VERSION),
        "id": new_id().hex(),
        "created_us": time.time_ns() // 1000,
    }
    made = objects.put_if_absent(STORE, seal(document))
    if isinstance(objects, SupportsReserve):
        objects.keep_reserve()
    if isinstance(objects, VerifiesPuts):
        try:
            objects.verify_put_if_absent(STORE)
        except ConditionalWriteError:
            if made:
                objects.delete(STORE)
            raise
    return _read(objects)


_LOOKED_AT_BYTES = 4096
"""Of a file that is no document: whether it says that it is of a store."""


def _read(objects: ObjectStore) -> StoreIdentity:
    data = objects.get(STORE)
    try:
        fields = unseal(data, STORE)
    except CorruptStoreError:
        if FORMAT.encode() in bytes(memoryview(data)[:_LOOKED_AT_BYTES]):
            raise
        raise NotAStoreError(
            f"{objects.uri!r} holds a {STORE} of something that is no store",
            hint="open an empty or new directory; this one was left as it is",
            uri=objects.uri,
        ) from None
    check_format(fields)
    return StoreIdentity(fields.text("id"))
