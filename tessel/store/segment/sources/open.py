"""Which source reads a store: the one function that a new source registers with."""

from __future__ import annotations

from functools import singledispatch

from tessel.store.objects.base import ObjectStore
from tessel.store.objects.local import LocalObjects
from tessel.store.objects.memory import MemoryObjects
from tessel.store.segment.sources.base import LOCAL, ReadSource


@singledispatch
def open_source(objects: ObjectStore) -> ReadSource:
    """Return the source that suits a kind of store; a store of another kind registers its own."""
    from tessel.store.segment.sources.requests import ObjectStoreSource

    return ObjectStoreSource(objects)


@open_source.register
def _(objects: LocalObjects) -> ReadSource:
    if objects.mapped:
        from tessel.store.segment.sources.views import MmapSource

        return MmapSource(objects)
    from tessel.store.segment.sources.requests import ObjectStoreSource

    return ObjectStoreSource(objects, in_flight=8, limits=LOCAL)


@open_source.register
def _(objects: MemoryObjects) -> ReadSource:
    from tessel.store.segment.sources.views import MemorySource

    return MemorySource(objects)
