"""Where bytes live: named objects, written once, on a local disk or in memory.

Only the store enters here; everything above it deals in segments and symbols.
"""

from tessel.store.objects.base import ObjectStore, check_name, checksum, put_all
from tessel.store.objects.local import LocalObjects
from tessel.store.objects.memory import MemoryObjects
from tessel.store.objects.open import open_objects

__all__ = [
    "LocalObjects",
    "MemoryObjects",
    "ObjectStore",
    "check_name",
    "checksum",
    "open_objects",
    "put_all",
]
