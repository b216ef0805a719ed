"""Where segments' bytes are read from: one file per source, behind one protocol.

The I/O queue and the reader of segments enter here; ``open_source`` chooses.
"""

from tessel.store.segment.sources.base import (
    KEPT_WHOLE,
    LOCAL,
    REMOTE,
    ByteRanges,
    CoalesceLimits,
    Integers,
    ReadAnswer,
    ReadSource,
    Viewing,
    failed,
)
from tessel.store.segment.sources.memory import MemorySource
from tessel.store.segment.sources.mmap import MmapSource
from tessel.store.segment.sources.object_store import ObjectStoreSource
from tessel.store.segment.sources.open import AUTO, SOURCES, default_source, open_source
from tessel.store.segment.sources.pread import PreadSource

__all__ = [
    "AUTO",
    "KEPT_WHOLE",
    "LOCAL",
    "REMOTE",
    "SOURCES",
    "ByteRanges",
    "CoalesceLimits",
    "Integers",
    "MemorySource",
    "MmapSource",
    "ObjectStoreSource",
    "PreadSource",
    "ReadAnswer",
    "ReadSource",
    "Viewing",
    "default_source",
    "failed",
    "open_source",
]
