"""From a URI to the place it names: the one list of schemes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tessel.errors import InvalidInputError, NotAStoreError, UnicodeTextError
from tessel.store.objects.base import ObjectStore
from tessel.store.objects.local import LocalObjects
from tessel.store.objects.memory import MemoryObjects

if TYPE_CHECKING:
    from tessel.store.objects.cloud_place import CloudOptions
    from tessel.store.objects.credentials import CredentialsSource

__all__ = ["open_objects"]

_KINDS = "a path, file:///path, memory://name, s3://bucket/folder, gs://… or az://…"


def open_objects(
    uri: str | os.PathLike[str],
    *,
    credentials: CredentialsSource | None = None,
    options: CloudOptions | dict[str, Any] | None = None,
) -> ObjectStore:
    """Return the objects at a URI; nothing is written or checked yet.

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

    Raises
    ------
    InvalidInputError
        For something that is no such URI, for a scheme that is not known, for credentials of
        another provider, and for either argument where there is no cloud. Also for a URI that
        could hold a secret, which the error does not show.
    OptionError, NameNotFoundError
        For an option that cannot be.
    NotAStoreError
        For the path of a file.
    MissingDependencyError
        For a cloud, without the extra ``cloud``.
    ForkUnsafeError
        For a cloud, in a process forked from one that had used a cloud.
    """
    if isinstance(uri, os.PathLike):
        uri = os.fspath(uri)
    if not isinstance(uri, str) or not uri or "\0" in uri:
        # Of what is no text only the type is shown: it may hold a password.
        shown = repr(uri) if isinstance(uri, str) else f"a {type(uri).__name__}"
        raise InvalidInputError(f"{shown} names no store", hint=_KINDS)
    try:
        os.fsencode(uri)  # names of files hold bytes that are no text as halves of surrogate pairs
    except UnicodeEncodeError:
        UnicodeTextError.require(uri, "the URI of a store")
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
