"""From a URI to the place it names, the one list of schemes; and from a place to its address.

Whoever hands work to other processes takes an address: plain data by which another process opens a
store. Options of a cloud store go along. Credentials do not: a plan is shown, logged and kept by
those who run it. The other process uses what its own environment offers.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tessel.errors import InvalidInputError, NotAStoreError, StoreAccessError, UnicodeTextError
from tessel.store.objects.base import ObjectStore
from tessel.store.objects.local import LocalObjects
from tessel.store.objects.memory import MemoryObjects

if TYPE_CHECKING:
    from tessel.store.objects.cloud_place import CloudOptions
    from tessel.store.objects.credentials import CredentialsSource

_KINDS = "a path, file:///path, memory://name, s3://bucket/folder, gs://… or az://…"


def open_objects(
    uri: str | os.PathLike[str],
    *,
    credentials: CredentialsSource | None = None,
    options: CloudOptions | dict[str, Any] | None = None,
) -> ObjectStore:
    """Return the objects at a URI; nothing is written or checked yet.

    Raises InvalidInputError for something that is no such URI, for a scheme that is not known, for
    credentials of another provider, and for either argument where there is no cloud. Also for a URI
    that could hold a secret, which the error does not show; OptionError or NameNotFoundError for an
    option that cannot be; NotAStoreError for the path of a file; MissingDependencyError for a
    cloud, without the extra ``cloud``; ForkUnsafeError for a cloud, in a process forked from one
    that had used a cloud.

    Parameters
    ----------
    uri
        A path, ``file:///path``, ``memory://name``, ``memory://`` for a new store in memory, or
        ``s3://bucket/folder``, ``gs://…``, ``az://container/folder``.
    credentials
        For a cloud: typed credentials, or a function that returns them; by default what the
        environment offers.
    options
        For a cloud: how it is reached; :class:`CloudOptions`, or a mapping of its fields.
    """
    if isinstance(uri, os.PathLike):
        uri = os.fspath(uri)
    if not isinstance(uri, str) or not uri or "\0" in uri:
        # Of what is no text only the type is shown: it may hold a password.
        shown = repr(uri) if isinstance(uri, str) else f"an object of type {type(uri).__name__}"
        raise InvalidInputError(f"{shown} names no store", hint=_KINDS)
    try:
        os.fsencode(uri)  # names of files hold bytes that are no text as halves of surrogate pairs
    except UnicodeEncodeError:
        UnicodeTextError.require(uri, "the URI of a store")
    if re.match("(s3|gs|az|file|memory):", uri) and "://" not in uri:  # a slip, and no directory
        raise InvalidInputError(f"{uri.partition(':')[0]}: is followed by //", hint=_KINDS)
    scheme, separator, rest = uri.partition("://")
    if separator:
        from tessel.store.objects.cloud_place import CLOUDS, CloudOptions, CloudPlace

        if scheme in CLOUDS:
            from tessel.store.objects.cloud import CloudObjects

            place = CloudPlace.parse(uri)
            return CloudObjects(place, credentials=credentials, options=CloudOptions.of(options))
    if credentials is not None or options is not None:
        from tessel.store.objects.cloud_place import CLOUDS

        raise InvalidInputError(
            "credentials and options are for stores in a cloud, and this is none",
            hint="; ".join(f"{name}:// is {cloud}" for name, cloud in CLOUDS.items()),
        )
    if not separator:
        return _local(uri)
    if scheme == "memory":
        return MemoryObjects.named(rest)
    if scheme == "file":
        return _local(_file_path(uri))
    # Only the scheme is shown: what follows may hold a password.
    raise InvalidInputError(
        f"no such kind of store: {scheme}://",
        hint=f"did you mean {_MEANT[scheme]}://?" if scheme in _MEANT else _KINDS,
        scheme=scheme,
    )


_MEANT = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "az", "abfss": "az", "azure": "az"}


def _local(path: str) -> LocalObjects:
    path = _expanded(path)
    if os.path.exists(path) and not os.path.isdir(path):
        raise NotAStoreError(
            f"{path!r} is a file, and a store is a directory",
            hint="name an empty or new directory; the file was left as it is",
            uri=path,
        )
    return LocalObjects(path)


def _expanded(path: str) -> str:
    """Return a path with the home directory in place of a leading ``~`` or ``~user``."""
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise InvalidInputError(
            f"{path!r} is in a home directory that is not known",
            hint=f"write ./{path} for a directory of that name, or the path in full",
            uri=path,
        )
    return expanded


def _file_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise InvalidInputError(
            "a file:// URI with a host names no file here", hint="write file:///absolute/path"
        )
    return unquote(parts.path)


_FIELDS = {"uri", "options"}


def address_of(objects: ObjectStore) -> dict[str, Any]:
    """Return plain data for :func:`open_address` in another process.

    Raises StoreAccessError for a store that was opened with credentials, which stay in this
    process.
    """
    from tessel.store.objects.cloud import CloudObjects

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

    Raises InvalidInputError for what is no address; otherwise as :func:`open_objects`.
    """
    if not isinstance(address, Mapping) or set(address) != _FIELDS:
        raise InvalidInputError("this is no address of a store", hint="pass on that of address_of")
    return open_objects(address["uri"], options=address["options"])
