"""From a URI to the place it names: the one list of schemes."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from tessel.errors import InvalidInputError, MissingDependencyError, NotAStoreError
from tessel.store.objects.base import ObjectStore
from tessel.store.objects.local import LocalObjects
from tessel.store.objects.memory import MemoryObjects

__all__ = ["open_objects"]

_CLOUDS = {"s3": "Amazon S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}


def open_objects(uri: str | os.PathLike[str]) -> ObjectStore:
    """Return the objects at a URI; nothing is written or checked yet.

    Parameters
    ----------
    uri
        A path, ``file:///path``, ``memory://name``, or ``memory://`` for a new store in memory.

    Raises
    ------
    InvalidInputError
        For something that is no such URI, and for a scheme that is not known.
    NotAStoreError
        For the path of a file.
    MissingDependencyError
        For ``s3://``, ``gs://`` and ``az://``, which this release does not read or write.
    """
    if isinstance(uri, os.PathLike):
        uri = os.fspath(uri)
    if not isinstance(uri, str) or not uri or "\0" in uri:
        raise InvalidInputError(
            f"{uri!r} names no store", hint="a path, file:///path, or memory://name"
        )
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return _local(uri)
    if scheme == "memory":
        return MemoryObjects.named(rest)
    if scheme == "file":
        return _local(_file_path(uri))
    if scheme in _CLOUDS:
        raise MissingDependencyError(
            f"stores on {_CLOUDS[scheme]} ({scheme}://) cannot be opened by this release",
            hint="use a path on a local disk, or memory://name",
            uri=uri,
        )
    raise InvalidInputError(
        f"no such kind of store: {scheme}:// in {uri!r}",
        hint="a path, file:///path, or memory://name",
        uri=uri,
    )


def _local(path: str) -> LocalObjects:
    if os.path.exists(path) and not os.path.isdir(path):
        raise NotAStoreError(
            f"{path!r} is a file, and a store is a directory",
            hint="name an empty or new directory; the file was left as it is",
            uri=path,
        )
    return LocalObjects(path)


def _file_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise InvalidInputError(
            f"{uri!r} names a file on another host", hint="write file:///absolute/path", uri=uri
        )
    return unquote(parts.path)
