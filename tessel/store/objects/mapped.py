"""Files as memory, without a descriptor for as long as the memory lasts.

:class:`~tessel.store.objects.local.LocalObjects` and the mapped source enter here. ``mmap.mmap``
duplicates the descriptor it is given and keeps the copy, so a process with the usual limit of 1,024
cannot hold as many segments. The C library's ``mmap`` keeps none; Arrow's ``memory_map`` keeps none
either, but asks for the head of the file to be read ahead, which a narrow read must not pay for.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import stat
from typing import Any, Final

import pyarrow as pa

from tessel.errors import NotAStoreError


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Return a descriptor of a regular file.

    ``O_NONBLOCK`` lets the open of a pipe return, so that its kind can be looked at; reads and
    writes of regular files do not heed it.

    Raises NotAStoreError for a pipe, a socket or a device; OSError as ``os.open``;
    ``IsADirectoryError`` for a directory.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o644)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(os.fspath(path))
        if not stat.S_ISREG(mode):
            raise NotAStoreError.for_special_file(os.fspath(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


_MAP_BYTES: Final = 64 * 1024
"""From this length on a range is mapped: below, one ``pread`` costs less than the map."""

_MOST_MAPS: Final = 16_384
"""Linux lets a process have 65,530 maps, of which allocators and threads need their own."""

_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,  # off_t of every 64-bit Linux and macOS
]
_libc.munmap.restype = ctypes.c_int
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED: Final = ctypes.c_void_p(-1).value


_addresses: set[int] = set()
"""Where the maps lie; changed by single operations, so that it needs no lock."""


def map_count() -> int:
    """Return how many maps made here the process holds."""
    return len(_addresses)


class _Map:
    """Mapped memory, given back with the last buffer that shows it."""

    __slots__ = ("address", "size")

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size
        _addresses.add(address)

    # Bound as defaults: module globals may be gone when the interpreter ends.
    def __del__(self, munmap: Any = _libc.munmap, addresses: set[int] = _addresses) -> None:
        # Before: afterwards the address may be that of another thread's map.
        addresses.discard(self.address)
        munmap(self.address, self.size)


def file_bytes(descriptor: int, offset: int, length: int, *, mapped: bool = True) -> pa.Buffer:
    """Return bytes of an open file; the descriptor may be closed afterwards.

    Raises OSError when the file cannot be read.

    Parameters
    ----------
    offset, length
        Bytes that the file has; it is shorter than that only if it was cut meanwhile, and then so
        is the answer.
    mapped
        Whether a long range may be a view of the file. Short ones are copies, and so are all where
        the system refuses. Touching a view of a file that was cut since ends the process (SIGBUS).
    """
    size = offset + length
    address = None
    if mapped and length >= _MAP_BYTES and len(_addresses) < _MOST_MAPS:
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address is None or address == _FAILED:
        return pa.py_buffer(read_exactly(descriptor, offset, length))
    whole = pa.foreign_buffer(address, size, base=_Map(address, size))
    return whole.slice(offset) if offset else whole


NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""What the system says where a disk is full, or the quota of this user."""


def read_exactly(descriptor: int, offset: int, length: int) -> bytes:
    """Read a range with as many calls as it takes; shorter only at the end of the file."""
    parts: list[bytes] = []
    missing = length
    while missing:
        part = os.pread(descriptor, missing, offset + length - missing)
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_all(descriptor: int, data: bytes | pa.Buffer) -> None:
    """Write bytes with as many calls as it takes: the system writes at most two gigabytes each."""
    rest = memoryview(data)
    while len(rest):
        rest = rest[os.write(descriptor, rest) :]


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Let the names in a directory survive power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
