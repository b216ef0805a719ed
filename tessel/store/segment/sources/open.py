"""Which source reads a store: the one list that a new source joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from types import MappingProxyType
from typing import Final

from tessel.errors import NameNotFoundError, OptionError
from tessel.store.objects.base import ObjectStore
from tessel.store.objects.local import LocalObjects
from tessel.store.objects.memory import MemoryObjects
from tessel.store.segment.sources.base import ReadSource

__all__ = ["AUTO", "SOURCES", "default_source", "open_source"]

AUTO: Final = "auto"
"""The kind that leaves the choice to the store."""


def _local(objects: ObjectStore, kind: str) -> LocalObjects:
    if not isinstance(objects, LocalObjects):
        raise OptionError(
            f"the source {kind!r} reads files, and {objects.uri!r} is no local directory",
            hint=f"leave the choice to the store with {AUTO!r}",
            source=kind,
        )
    return objects


def _memory(objects: ObjectStore) -> ReadSource:
    from tessel.store.segment.sources.views import MemorySource

    return MemorySource(objects)


def _mmap(objects: ObjectStore) -> ReadSource:
    from tessel.store.segment.sources.views import MmapSource

    return MmapSource(_local(objects, "mmap"))


def _object_store(objects: ObjectStore) -> ReadSource:
    from tessel.store.segment.sources.requests import ObjectStoreSource

    return ObjectStoreSource(objects)


def _pread(objects: ObjectStore) -> ReadSource:
    from tessel.store.segment.sources.requests import PreadSource

    return PreadSource(_local(objects, "pread"))


SOURCES: Final[Mapping[str, Callable[[ObjectStore], ReadSource]]] = MappingProxyType(
    {"memory": _memory, "mmap": _mmap, "object_store": _object_store, "pread": _pread}
)
"""Every source by its kind."""


@singledispatch
def default_source(objects: ObjectStore) -> ReadSource:
    """Return the source that suits a kind of store; a store of another kind registers its own."""
    return _object_store(objects)


@default_source.register
def _(objects: LocalObjects) -> ReadSource:
    return _mmap(objects) if objects.mapped else _pread(objects)


@default_source.register
def _(objects: MemoryObjects) -> ReadSource:
    return _memory(objects)


def open_source(objects: ObjectStore, kind: str = AUTO) -> ReadSource:
    """Return a source for a store.

    Parameters
    ----------
    objects
        Where the bytes are.
    kind
        One of :data:`SOURCES`, or ``"auto"``.

    Raises
    ------
    NameNotFoundError
        For an unknown kind, with the nearest.
    OptionError
        For a kind that reads files, where the store has none.
    """
    if kind == AUTO:
        return default_source(objects)
    if kind not in SOURCES:
        raise NameNotFoundError.for_name("read source", kind, [AUTO, *SOURCES])
    return SOURCES[kind](objects)
