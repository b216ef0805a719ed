"""Where a store is, as plain data by which another process opens it; no secret is among it.

Whoever hands work to other processes enters here. Options of a cloud store go along. Credentials do
not: a plan is shown, logged and kept by those who run it. The other process uses what its own
environment offers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tessel.errors import InvalidInputError, StoreAccessError
from tessel.store.objects.base import ObjectStore
from tessel.store.objects.cloud import CloudObjects
from tessel.store.objects.open import open_objects

__all__ = ["address_of", "open_address"]

_FIELDS = {"uri", "options"}


def address_of(objects: ObjectStore) -> dict[str, Any]:
    """Return plain data for :func:`open_address` in another process.

    Raises
    ------
    StoreAccessError
        For a store that was opened with credentials, which stay in this process.
    """
    if not isinstance(objects, CloudObjects):
        return {"uri": objects.uri, "options": None}
    if objects.has_credentials:
        raise StoreAccessError(
            f"{objects.uri!r} was opened with credentials=, which other processes do not get: no "
            "plan holds a secret",
            hint="let the workers have an identity of their own (that of their machines, or the "
            "provider's variables in their environment) and open the store without credentials=; "
            'or run the query locally: executor="local"',
            uri=objects.uri,
        )
    return {"uri": objects.uri, "options": dataclasses.asdict(objects.options)}


def open_address(address: Mapping[str, Any]) -> ObjectStore:
    """Return the objects at an address.

    Raises
    ------
    InvalidInputError
        For what is no address; otherwise as :func:`open_objects`.
    """
    if not isinstance(address, Mapping) or set(address) != _FIELDS:
        raise InvalidInputError("this is no address of a store", hint="pass on that of address_of")
    return open_objects(address["uri"], options=address["options"])
