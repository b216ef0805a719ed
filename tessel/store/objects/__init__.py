"""Where bytes live: named objects, written once, on a local disk, in memory, or in a cloud.

Only the store enters here; everything above it deals in segments and symbols.
"""

from tessel.store.objects.address import address_of, open_address
from tessel.store.objects.base import (
    ObjectFacts,
    ObjectStore,
    ParallelPuts,
    SupportsDurableNames,
    SupportsInventory,
    SupportsLeftovers,
    SupportsReserve,
    VerifiesPuts,
    check_name,
    checksum,
    freeing,
    put_all,
)
from tessel.store.objects.cloud import CloudObjects
from tessel.store.objects.cloud_place import CloudOptions
from tessel.store.objects.credentials import (
    AzureCredentials,
    CredentialsSource,
    GoogleCredentials,
    S3Credentials,
)
from tessel.store.objects.foreign import ForeignObjects, foreign_name, open_foreign
from tessel.store.objects.local import LocalObjects
from tessel.store.objects.memory import MemoryObjects
from tessel.store.objects.open import open_objects

__all__ = [
    "AzureCredentials",
    "CloudObjects",
    "CloudOptions",
    "CredentialsSource",
    "ForeignObjects",
    "GoogleCredentials",
    "LocalObjects",
    "MemoryObjects",
    "ObjectFacts",
    "ObjectStore",
    "ParallelPuts",
    "S3Credentials",
    "SupportsDurableNames",
    "SupportsInventory",
    "SupportsLeftovers",
    "SupportsReserve",
    "VerifiesPuts",
    "address_of",
    "check_name",
    "checksum",
    "foreign_name",
    "freeing",
    "open_address",
    "open_foreign",
    "open_objects",
    "put_all",
]
