"""Objects that others wrote and may change: parts of them are read, and nothing else is done.

A store names its own objects itself, and trusts them. Here names come from data, which anybody may
have logged: what lies below a place can be read, however a name is written, and nothing beside it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from tessel.errors import InvalidInputError, StoreAccessError, StoreError
from tessel.store.objects.base import ForeignObjects, object_absent, short_object
from tessel.store.objects.cloud import CloudObjects
from tessel.store.objects.cloud_place import CLOUDS, CloudOptions, CloudPlace
from tessel.store.objects.credentials import CredentialsSource
from tessel.store.objects.mapped import read_exactly
from tessel.store.objects.memory import MemoryObjects

_MOST_NAME_BYTES = 1024
_PART = re.compile(r"[^/\\\x00-\x1f\x7f]+")
_CLOUD_PART = re.compile(r"[\w.=+ @,()-]+", re.ASCII)
"""What the library writes into a request as it is."""


def open_foreign(
    uri: str | os.PathLike[str],
    *,
    credentials: CredentialsSource | None = None,
    options: CloudOptions | dict[str, Any] | None = None,
) -> ForeignObjects:
    """Return the objects below a place that others write to.

    Raises InvalidInputError for what names no such place.

    Parameters
    ----------
    uri
        An absolute path, ``file:///path``, ``memory://name``, or a folder of a bucket:
        ``s3://bucket/folder``, ``gs://…``, ``az://…``.
    credentials, options
        For a cloud, as ``open_objects`` takes them.
    """
    text = os.fspath(uri)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInputError(f"{uri!r} names no place", hint="give an absolute path, or a URI")
    scheme, _ = split_uri(text)
    if scheme in CLOUDS:
        place = CloudPlace.parse(text)
        options = CloudOptions.of(options)
        return CloudForeignObjects(place, credentials=credentials, options=options)
    if credentials is not None or options is not None:
        raise InvalidInputError("credentials and options are for a cloud, and this is none")
    if scheme == "memory":
        return MemoryObjects.named(text.removeprefix("memory://"))
    return LocalForeignObjects(split_uri(text)[1])


def split_uri(uri: str) -> tuple[str, str]:
    """Return the scheme of a URI, and what identifies the object: of a file the absolute path.

    Raises InvalidInputError for another scheme, and a path that is not absolute. What follows a
    scheme that is not known may be a secret, and is not shown.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, rest = "file", uri
    elif scheme == "file":
        rest = unquote(rest.removeprefix("localhost"))
    if scheme not in ("file", "memory", *CLOUDS):
        raise InvalidInputError(
            f"data at {scheme[:20]}:// are not read",
            hint="a path, file:///path, memory://name/…, s3://bucket/…, gs://… or az://…",
            scheme=scheme[:20],
        )
    if scheme == "file" and not rest.startswith("/"):
        raise InvalidInputError(
            f"{uri[:200]!r} is no absolute path", hint="write /path, or file:///path"
        )
    return scheme, rest


def foreign_name(root: str, uri: str) -> str | None:
    """Return the name of an object below a place; None where it lies elsewhere, or is none."""
    (scheme, place), (other, path) = split_uri(root), split_uri(uri)
    below = place.rstrip("/") + "/"
    if scheme != other or not path.startswith(below):
        return None
    name = path.removeprefix(below)
    return name if _is_name(name) else None


def _is_name(name: str) -> bool:
    parts = name.split("/")
    return len(name.encode(errors="replace")) <= _MOST_NAME_BYTES and all(
        _PART.fullmatch(part) and part not in (".", "..") for part in parts
    )


def _check(name: str) -> str:
    if not _is_name(name):
        raise InvalidInputError(
            f"{name[:200]!r} cannot name an object", hint="parts joined by single '/', none '..'"
        )
    return name


class CloudForeignObjects(CloudObjects):
    """A folder in a bucket, with names as others give them; only read."""

    def _check_name(self, name: str) -> str:
        _check(name)
        for part in name.split("/"):
            if not _CLOUD_PART.fullmatch(part):
                raise InvalidInputError(
                    f"{name[:200]!r} is no name that is read from a bucket",
                    hint="letters, digits, blanks and _ . = + @ , ( ) -",
                )
        return name


class LocalForeignObjects:
    """Files below a directory; satisfies :class:`ForeignObjects`.

    Links below the directory are not followed, and files that are no plain ones (pipes, devices)
    not read: whoever may log data, or write there, could name any file of the machine with them.
    Files are read and not mapped: one that is cut meanwhile would end the process.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.realpath(os.fspath(root))
        self.uri = os.path.abspath(os.fspath(root))
        """The directory, as it was given."""

    def __repr__(self) -> str:
        return f"<LocalForeignObjects {self.uri!r}>"

    def size(self, name: str) -> int:
        """Return the length of a file in bytes."""
        with self._opened(name) as descriptor:
            return os.fstat(descriptor).st_size

    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return part of a file, a copy."""
        with self._opened(name) as descriptor:
            size = os.fstat(descriptor).st_size
            if offset < 0 or length < 0 or offset + length > size:
                raise short_object(name, offset, length, size)
            data = read_exactly(descriptor, offset, length)
        if len(data) < length:  # it was cut while it was read
            raise short_object(name, offset, length, offset + len(data))
        return pa.py_buffer(data)

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        """Open a file step by step from the directory on, so that no link leads elsewhere."""
        *folders, last = _check(name).split("/")
        held: list[int] = []
        try:
            try:
                held.append(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
                for part in folders:
                    held.append(_step(part, os.O_DIRECTORY, held[-1]))
                held.append(_step(last, os.O_NONBLOCK | os.O_NOCTTY, held[-1]))
            except FileNotFoundError:
                raise object_absent(name, self.uri) from None
            except OSError as error:
                raise self._refused(name, error.strerror or str(error)) from error
            if not stat.S_ISREG(os.fstat(held[-1]).st_mode):
                raise self._refused(name, "it is no plain file")
            yield held[-1]
        except OSError as error:
            if isinstance(error, StoreError) or not error.errno:
                raise
            raise StoreError(
                f"could not read object {name!r}: {error.strerror}", object=name, uri=self.uri
            ) from error
        finally:
            for descriptor in held:
                os.close(descriptor)

    def _refused(self, name: str, why: str) -> StoreAccessError:
        return StoreAccessError(
            f"object {name!r} in {self.uri!r} is not read: {why}",
            hint="plain files are, below directories that are no links",
            object=name,
            uri=self.uri,
        )


def _step(part: str, flags: int, folder: int) -> int:
    return os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
