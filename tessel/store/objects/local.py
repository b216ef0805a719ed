"""Objects as files under one directory, put so that neither ``kill -9`` nor power loss tears one.

A put writes a temporary file, syncs it, and gives it its name with ``link``, which fails where the
name exists: that answer is the commit primitive. Then the directory is synced, and its parents
where they are new. Files never change or shrink afterwards, so reads map them.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import threading
import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tessel.errors import DiskFullError, NotAStoreError, StoreError
from tessel.options import current
from tessel.store.objects.base import (
    ObjectFacts,
    check_name,
    irregular_object,
    object_absent,
    short_object,
)
from tessel.store.objects.mapped import NO_ROOM, file_bytes, open_regular, sync_directory, write_all

TEMPORARY = ".tessel-tmp"
"""Folder of files that have no name yet; what is left there after a crash means nothing."""

_LEFTOVER = re.compile(r"[0-9]+-[0-9a-f]{32}")

_RESERVE = "reserve"
"""Among the temporary files, so that releases that do not know it leave it alone."""

_RESERVE_BYTES = 1 << 20
"""Some hundred log entries: what it takes to delete, to expire and to collect."""

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class LocalObjects:
    """A directory of objects; satisfies :class:`~tessel.store.objects.base.ObjectStore`.

    Parameters
    ----------
    root
        The directory; it is made by the first put.
    mapped
        Whether large reads map the file. Off, everything is read with ``pread``: the choice for
        disks that one does not trust, since a file cut under a map ends the process.

    Attributes
    ----------
    uri
        The absolute path of the directory.
    """

    def __init__(self, root: str | os.PathLike[str], *, mapped: bool = True) -> None:
        self.uri = os.path.abspath(os.fspath(root))
        self.mapped = mapped
        self._durable: set[str] = set()
        self._reserve = os.path.join(self.uri, TEMPORARY, _RESERVE)
        self._freeing: set[object] = set()
        self._reserved = self._given_back = False

    def __repr__(self) -> str:
        return f"<LocalObjects {self.uri!r}>"

    # --- writing ----------------------------------------------------------------------------------

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        """Write an object unless one of that name exists.

        Raises
        ------
        StoreError
            When the disk refuses; when the file system has no hard links; with the attribute
            ``landed="unknown"`` when the object has its name but may not survive power loss.
        """
        target = object_path(self.uri, name)
        durable = current().fsync
        temporary = os.path.join(self.uri, TEMPORARY, f"{os.getpid()}-{uuid.uuid4().hex}")
        try:
            self._write(temporary, target, data, durable)
        except OSError as error:
            if not self._freeing or error.errno not in NO_ROOM:
                raise self._not_written(name, error) from error
            _remove(self._reserve)
            self._given_back = True
            try:
                self._write(temporary, target, data, durable)
            except OSError as again:
                raise self._not_written(name, again) from again
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        except OSError as error:
            raise (
                _no_links(self.uri, error)
                if error.errno in _NO_LINKS
                else object_failed("name", name, error)
            ) from error
        finally:
            _remove(temporary)
        if durable:
            try:
                sync_directory(os.path.dirname(target))
            except OSError as error:
                failure = object_failed("sync", name, error)
                failure.attributes["landed"] = "unknown"
                raise failure from error
        return True

    def _write(self, temporary: str, target: str, data: bytes | pa.Buffer, durable: bool) -> None:
        """Write a temporary file and make the directory of its target; on an error, no file."""
        try:
            self._make_directory(os.path.dirname(temporary), durable)
            self._make_directory(os.path.dirname(target), durable)
            _write_file(temporary, data, durable)
        except OSError:
            _remove(temporary)
            raise

    @contextlib.contextmanager
    def freeing(self) -> Iterator[None]:
        """Let the puts of a block, which frees room, use the reserve; it is made anew after it."""
        block = object()
        self._freeing.add(block)
        try:
            yield
        finally:
            self._freeing.discard(block)
            if self._given_back and not self._freeing:
                self._given_back = self._reserved = False
                self.keep_reserve()

    def keep_reserve(self) -> None:
        """Make the reserve, or what there is room for; looked at once, and after it was used."""
        if self._reserved or self._freeing:
            return
        self._reserved = True
        with contextlib.suppress(OSError):
            missing = _RESERVE_BYTES
            with contextlib.suppress(FileNotFoundError):
                missing -= os.stat(self._reserve).st_size
            if missing > 0:
                _extend(self._reserve, missing)

    def _not_written(self, name: str, error: OSError) -> StoreError:
        if error.errno not in NO_ROOM:
            return object_failed("write", name, error)
        reserve = os.path.exists(self._reserve)
        return DiskFullError.at(self.uri, name, error.errno, reserve=reserve)

    def make_durable(self, name: str) -> None:
        """Sync the directory of an object, which its writer may not have done yet."""
        if current().fsync:
            with _telling("sync", name):
                sync_directory(os.path.dirname(object_path(self.uri, name)))

    def delete(self, name: str) -> None:
        """Remove an object."""
        with _telling("remove", name), contextlib.suppress(FileNotFoundError):
            os.unlink(object_path(self.uri, name))

    def _make_directory(self, path: str, durable: bool) -> None:
        """Make a directory and its parents, and sync each parent once: others may have made it."""
        if path in self._durable:
            return
        parent = os.path.dirname(path)
        if (path != self.uri and path.startswith(self.uri)) or not os.path.isdir(parent):
            self._make_directory(parent, durable)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
        if durable:
            sync_directory(parent)
            self._durable.add(path)

    # --- reading ----------------------------------------------------------------------------------

    def get(self, name: str) -> pa.Buffer:
        """Return the bytes of an object."""
        return self._read(name, 0, None)

    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return part of an object: a view of the mapped file, or a copy of a small range."""
        return self._read(name, offset, length)

    def _read(self, name: str, offset: int, length: int | None) -> pa.Buffer:
        descriptor = open_object(self.uri, name)
        try:
            with _telling("read", name):
                size = os.fstat(descriptor).st_size
                length = size - offset if length is None else length
                if offset < 0 or length < 0 or offset + length > size:
                    raise short_object(name, offset, length, size)
                data = file_bytes(descriptor, offset, length, mapped=self.mapped)
        finally:
            os.close(descriptor)
        if data.size != length:
            raise short_object(name, offset, length, offset + data.size)
        return data

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[str]:
        """Yield the names that start with ``prefix``, sorted; folders are read as they are met."""
        yield from itertools.islice(self._walk(prefix, after), limit)

    def _walk(self, prefix: str, after: str | None) -> Iterator[str]:
        folder = os.path.join(self.uri, *prefix.split("/")[:-1]) if prefix else self.uri
        try:
            with os.scandir(folder) as entries:
                # Names are compared with their "/" so that the order is that of whole names.
                found = [
                    f"{e.name}/" if e.is_dir(follow_symlinks=False) else e.name for e in entries
                ]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise object_failed("list", prefix, error) from error
        for entry in sorted(found):
            name = prefix + entry
            if not prefix and entry == TEMPORARY + "/":
                continue
            if entry.endswith("/"):
                if after is None or name > after or after.startswith(name):
                    yield from self._walk(name, after)
            elif after is None or name > after:
                yield name

    def size(self, name: str) -> int:
        """Return the length of an object in bytes."""
        try:
            return os.stat(object_path(self.uri, name)).st_size
        except (FileNotFoundError, NotADirectoryError):
            raise object_absent(name, self.uri) from None
        except OSError as error:
            raise object_failed("look at", name, error) from error

    def exists(self, name: str) -> bool:
        """Return whether there is an object of that name."""
        return os.path.isfile(object_path(self.uri, name))

    def inventory(self, prefix: str = "") -> Iterator[ObjectFacts]:
        """Yield names, sizes and times of writing."""
        for name in self.list(prefix):
            # Not checked: names that no object can have are listed too.
            found = _facts(os.path.join(self.uri, *name.split("/")), name)
            if found is not None:
                yield found

    def modified_us(self, name: str) -> int:
        """Return when the file was written; giving it its name leaves that as it is."""
        found = _facts(object_path(self.uri, name), name)
        if found is None:
            raise object_absent(name, self.uri)
        return found.modified_us

    def leftovers(self) -> Iterator[ObjectFacts]:
        """Yield the temporary files that are there; locks are none."""
        folder = os.path.join(self.uri, TEMPORARY)
        names: Iterable[str] = ()
        with _telling("list", TEMPORARY), contextlib.suppress(FileNotFoundError):
            names = sorted(os.listdir(folder))
        for name in names:
            found = _facts(os.path.join(folder, name), name) if _LEFTOVER.fullmatch(name) else None
            if found is not None:
                yield found

    def remove_leftover(self, name: str) -> None:
        """Remove a temporary file."""
        with _telling("remove", name), contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.uri, TEMPORARY, name))


def object_path(root: str, name: str) -> str:
    """Return the path of an object's file."""
    return os.path.join(root, *check_name(name).split("/"))


def open_object(root: str, name: str) -> int:
    """Return a descriptor of an object's file, for reading.

    Raises NotFoundError where there is no such object; StoreError where the disk refuses.
    """
    try:
        return open_regular(object_path(root, name))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise object_absent(name, root) from None
    except NotAStoreError as error:
        raise irregular_object(name, error) from error
    except OSError as error:
        raise object_failed("open", name, error) from error


def _facts(path: str, name: str) -> ObjectFacts | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise object_failed("look at", name, error) from error
    return ObjectFacts(name, found.st_size, found.st_mtime_ns // 1000)


def _extend(path: str, missing: int) -> None:
    """Make a file longer, as far as there is room."""
    with open(path, "ab", buffering=0) as file:
        # Random: file systems that compress would keep nothing back for zeros.
        rest = memoryview(os.urandom(missing))
        while len(rest):
            rest = rest[file.write(rest) :]


def _write_file(path: str, data: bytes | pa.Buffer, durable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        write_all(descriptor, data)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


@contextlib.contextmanager
def _telling(what: str, name: str) -> Iterator[None]:
    """Tell what the disk refuses to do in a block."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise object_failed(what, name, error) from error


def object_failed(what: str, name: str, error: OSError) -> StoreError:
    """Make the error for what the disk refuses to do with an object."""
    hint = _HINTS.get(error.errno or 0) if error.filename else None
    return StoreError(
        f"could not {what} object {name!r}: {error.strerror or error}",
        hint=hint and hint.format(error.filename),
        object=name,
        errno=error.errno,
        thread=threading.current_thread().name,
    )


_HINTS = {
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "this user lacks permission at {!r}: mend it, or to read alone: open(…, read_only=True)",
    ),
    errno.ENOTDIR: "a part of {!r} is a file, and no folder",
}


def _no_links(root: str, error: OSError) -> StoreError:
    return StoreError(
        f"the file system of {root!r} has no hard links ({error.strerror}), "
        "without which no commit on it is safe",
        hint="keep the store on a local file system such as ext4, xfs, btrfs or APFS",
        errno=error.errno,
        uri=root,
    )
