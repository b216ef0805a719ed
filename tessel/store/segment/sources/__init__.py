"""Where segments' bytes are read from: one file per source, behind one protocol.

The I/O queue and the reader of segments enter here; ``open_source`` chooses.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "base": (
            "KEPT_WHOLE LOCAL REMOTE ByteRanges CoalesceLimits Integers ReadAnswer ReadSource "
            "Viewing failed"
        ),
        "memory": "MemorySource",
        "mmap": "MmapSource",
        "object_store": "ObjectStoreSource",
        "open": "AUTO SOURCES default_source open_source",
        "pread": "PreadSource",
    },
)
