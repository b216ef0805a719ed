"""The small metadata of a store as JSON: sealed with a checksum, checked when read.

A document is one line of JSON with sorted keys, a line feed, and the CRC-32C of that line as eight
hexadecimal digits. Nothing of it is believed before checksum, shape and types have been checked.
The first one is ``store.json``, which is only ever created: it makes a place a store.
"""

from __future__ import annotations

import json
import operator
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Protocol, TypeVar

import pyarrow as pa

from tessel.errors import (
    ConditionalWriteError,
    CorruptStoreError,
    FormatVersionError,
    NotAStoreError,
    NotFoundError,
    StoreNotFoundError,
    StoreNotVisibleError,
)
from tessel.lazy import dataclass
from tessel.store.names import STORE, new_id
from tessel.store.objects.base import ObjectStore, SupportsReserve, VerifiesPuts, checksum

FORMAT = "tessel"
FORMAT_VERSION = (1, 0)
"""Major and minor. A release reads its own major up to its own minor, for ever; a newer minor adds
what older releases would pass over, so they refuse it."""

HEADER: Final = {"format": FORMAT, "version": list(FORMAT_VERSION)}
"""What documents that can be read alone begin with; :func:`check_format` checks it."""

_READABLE_BEFORE_ONE = ((0, 4),)
"""Versions before 1.0 with the same bytes."""

_LARGEST_DOCUMENT = 1 << 30


@dataclass(frozen=True, slots=True)
class Reference:
    """What a parent remembers of a child: name, length in bytes, CRC-32C of them."""

    object: str
    length: int
    checksum: int

    def to_json(self) -> dict[str, Any]:
        """Return the reference as plain data."""
        return fields_of(self)

    @classmethod
    def read(cls, fields: Fields) -> Reference:
        """Read a reference from a document."""
        return cls(fields.text("object"), fields.integer("length"), fields.integer("checksum"))


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a record with slots; :func:`seal` writes those with ``to_json``."""
    return {name: getattr(record, name) for name in record.__slots__}


_plain = operator.methodcaller("to_json")


def seal(document: Mapping[str, Any]) -> bytes:
    """Return a document as the bytes that are stored; it may hold what has ``to_json``."""
    line = json.dumps(
        document, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain
    ).encode()
    return line + b"\n%08x" % checksum(line)


def unseal(data: pa.Buffer, name: str) -> Fields:
    """Return the document in stored bytes; raises ``CorruptStoreError`` where there is none."""
    if data.size > _LARGEST_DOCUMENT:  # nothing is copied of what cannot be one
        damaged(name, f"it has {data.size} bytes, and no document has so many")
    raw = data.to_pybytes()
    line, separator, digits = raw.rpartition(b"\n")
    if not separator or digits != b"%08x" % checksum(line):
        damaged(name, "its checksum is wrong")
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorruptStoreError(f"{name} is damaged: {error}", object=name) from error
    return Fields(document, name)


class Identified(Protocol):
    """Something that is of one store."""

    @property
    def id(self) -> str:
        """The id of the store."""


Opened = TypeVar("Opened", bound=Identified)


def reopened(uri: str, identity: str, opened: Callable[[], Opened]) -> Opened:
    """Return a store that another process has opened before; it is the same one, or an error.

    Raises StoreNotVisibleError where there is no store; NotAStoreError where there is another one.
    """
    try:
        found = opened()
    except StoreNotFoundError as error:
        raise StoreNotVisibleError.from_here(uri) from error
    check_same(uri, found.id, identity)
    return found


def check_same(uri: str, found: str, identity: str) -> None:
    """Raise ``NotAStoreError`` where a store has another id than it had elsewhere."""
    if found != identity:
        raise NotAStoreError(
            f"{uri!r} holds another store here than in the process that opened it first",
            hint="put the store where the driver and every worker see it under one path",
            uri=uri,
        )


def fetch(objects: ObjectStore, reference: Reference, *, offset: int = 0) -> Fields:
    """Read a child document and verify it against what its parent remembers.

    Parameters
    ----------
    reference
        The object, and length and checksum of the document.
    """
    if not 0 < reference.length <= _LARGEST_DOCUMENT:
        damaged(reference.object, f"its parent says it has {reference.length} bytes")
    try:
        data = objects.get_range(reference.object, offset, reference.length)
    except NotFoundError as error:
        raise CorruptStoreError.for_object(reference.object, "is missing") from error
    if checksum(data) != reference.checksum:
        damaged(reference.object, "its checksum is wrong")
    return unseal(data, reference.object)


def damaged(name: str, what: str) -> NoReturn:
    """Raise the error for an object whose content is wrong."""
    raise CorruptStoreError.for_object(name, f"is damaged: {what}")


def check_format(fields: Fields) -> None:
    """Check format and version of a document.

    Raises NotAStoreError when it is a document of something else; FormatVersionError when it was
    written by another version of the format.
    """
    if fields.value("format") != FORMAT:
        raise NotAStoreError(
            f"{fields.name} belongs to something other than a store",
            hint="open another place; this one was left as it is",
            object=fields.name,
        )
    version = fields.integers("version")
    major, minor = FORMAT_VERSION
    ours = len(version) == 2 and version[0] == major and 0 <= version[1] <= minor
    if not ours and tuple(version) not in _READABLE_BEFORE_ONE:
        written = ".".join(str(part) for part in version)
        known = ".".join(str(part) for part in FORMAT_VERSION)
        raise FormatVersionError(
            f"{fields.name} has format version {written}; this release reads {known}",
            hint="a newer release wrote it: install that one"
            if tuple(version) > FORMAT_VERSION
            else "use the release that wrote it, or write the data anew",
            found=version,
            readable=list(FORMAT_VERSION),
        )


class Fields:
    """A JSON object of which every field is checked when it is asked for."""

    def __init__(self, document: Any, name: str) -> None:
        if not isinstance(document, dict):
            damaged(name, f"{document!r:.50} is no JSON object")
        self._document: dict[str, Any] = document
        self.name = name

    def __iter__(self) -> Any:
        return iter(self._document)

    def value(self, key: str) -> Any:
        """Return a field of any type; None where there is none."""
        return self._document.get(key)

    def text(self, key: str) -> str:
        """Return a field that is text."""
        found = self._document.get(key)
        return found if isinstance(found, str) else self._wrong(key, "text")

    def integer(self, key: str) -> int:
        """Return a field that is an integer, not negative, below 2⁶⁴."""
        found = self._document.get(key)
        if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 2**64:
            self._wrong(key, "a number")
        return found

    def optional_integer(self, key: str) -> int | None:
        """Return a field that is an integer of 64 signed bits, or null."""
        found = self._document.get(key)
        if found is None:
            return None
        if not isinstance(found, int) or isinstance(found, bool) or abs(found) > 2**63:
            self._wrong(key, "a number or null")
        return found

    def optional_text(self, key: str) -> str | None:
        """Return a field that is text, or null."""
        return None if self._document.get(key) is None else self.text(key)

    def integers(self, key: str) -> list[int]:
        """Return a field that is a list of integers."""
        found = self.sequence(key)
        if (
            set(map(type, found)) - {int}
            or not 0 <= min(found, default=0) <= max(found, default=0) < 2**63
        ):
            self._wrong(key, "a list of numbers")
        return found

    def sequence(self, key: str) -> list[Any]:
        """Return a field that is a list."""
        found = self._document.get(key)
        return found if isinstance(found, list) else self._wrong(key, "a list")

    def fields(self, key: str) -> Fields:
        """Return a field that is an object."""
        return Fields(self._document.get(key), self.name)

    def objects(self, key: str) -> list[Fields]:
        """Return a field that is a list of objects."""
        return [Fields(item, self.name) for item in self.sequence(key)]

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a field that is an object, as a dictionary."""
        found = self._document.get(key)
        return found if isinstance(found, dict) else self._wrong(key, "an object")

    def _wrong(self, key: str, expected: str) -> NoReturn:
        damaged(self.name, f"its field {key!r} is not {expected}")


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The random id of a store, 32 hexadecimal digits."""

    id: str


def open_store(objects: ObjectStore, *, create: bool, read_only: bool) -> StoreIdentity:
    """Return the identity of the store at a place, made there where that is wanted.

    Raises StoreNotFoundError when there is nothing, and none is to be made; NotAStoreError when
    there is something else; it is left as it is; FormatVersionError when another version of the
    format wrote it; CorruptStoreError when ``store.json`` is damaged; ConditionalWriteError when a
    store was to be made on a server that overwrites what it must not; none is left.
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
    document = {**HEADER, "id": new_id().hex(), "created_us": time.time_ns() // 1000}
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
