"""Where bytes live: named objects, written once, on a local disk, in memory, or in a cloud.

Only the store enters here; everything above it deals in segments and symbols.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "base": "ForeignObjects ObjectStore ParallelPuts SupportsInventory "
        "SupportsLeftovers put_all",
        "cloud": "CloudObjects",
        "cloud_place": "CloudOptions",
        "credentials": "AzureCredentials GoogleCredentials S3Credentials",
        "foreign": "foreign_name open_foreign",
        "local": "LocalObjects",
        "memory": "MemoryObjects",
        "open": "address_of open_address open_objects",
    },
)
