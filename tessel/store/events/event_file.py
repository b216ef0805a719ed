"""Journals, which are appended to, and dumps, which are written once.

Their format is that of :mod:`tessel.store.events.event_frames`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tessel.errors import CorruptStoreError, DiskFullError, StoreBusyError, StoreError, TesselError
from tessel.forking import after_fork
from tessel.store.events.batch import EventBatch
from tessel.store.events.event_frames import (
    EventFile,
    FileKind,
    file_header,
    frame_of,
    read_bytes,
    report,
)
from tessel.store.objects.mapped import NO_ROOM, open_regular, sync_directory, write_all

_BLOCK_BYTES: Final = 1 << 20


def write_events(path: str | Path, batches: Iterable[EventBatch]) -> None:
    """Write a dump, which takes the place of what was there, whole or not at all."""
    os.close(_written(Path(path), batches, FileKind.DUMP, sync=True))


@contextlib.contextmanager
def opening(path: str | Path) -> Iterator[None]:
    """Tell by name which file the system does not let us read or write."""
    try:
        yield
    except TesselError:
        raise
    except OSError as error:
        raise StoreError.for_file(path, error) from error


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Tell by name which file the system does not write, and whether its disk is full."""
    try:
        yield
    except TesselError:
        raise
    except OSError as error:
        kind = DiskFullError if error.errno in NO_ROOM else StoreError
        raise kind(
            f"{str(path)!r:.200} cannot be written: {error.strerror or error}",
            hint="make room on its disk, or mend it; events that were not taken can be given again",
            path=str(path),
            errno=error.errno,
        ) from error


def read_events(path: str | Path, *, salvage: bool = False) -> Iterator[EventBatch]:
    """Give the batches of a journal or a dump; a torn frame is reported and left out.

    Raises NotAStoreError or FormatVersionError for a file that holds something else, or was written
    by a newer version; CorruptStoreError for damage, and for a dump that was cut off.

    Parameters
    ----------
    salvage
        Whether what is damaged is reported and left out, too.
    """
    descriptor = open_regular(path)
    try:
        file = EventFile(descriptor, path, salvage=salvage)
        if not file.end and not salvage:
            raise CorruptStoreError.for_events(path, 0, "its header is cut off")
        yield from file.batches()
        if file.torn_bytes:
            text = f"the last {file.torn_bytes} bytes of {str(path)!r} are no whole frame of events"
            report("events.torn", text, path=str(path), offset=file.end, bytes=file.torn_bytes)
    finally:
        os.close(descriptor)


class Journal:
    """A file that has every event before it is acknowledged.

    Raises StoreBusyError while another process has it open; NotAStoreError for a pipe or a device.

    Parameters
    ----------
    sync
        Whether an event is acknowledged only when the disk has it. Otherwise the operating system
        has it, which survives the end of the process and not that of the power.
    """

    def __init__(self, path: str | Path, *, sync: bool = False) -> None:
        self.path = Path(path)
        self._sync = sync
        self._process = os.getpid()
        self._descriptor = _locked(self.path)
        self._end = os.fstat(self._descriptor).st_size
        if not self._end:
            self._begin()
        after_fork(self, Journal.forget)

    @property
    def is_ours(self) -> bool:
        """Whether this process opened it, and is no forked child of the one that did."""
        return self._process == os.getpid()

    @property
    def is_closed(self) -> bool:
        """Whether the file was let go."""
        return self._descriptor < 0

    def forget(self) -> None:
        """Let go of the file, which stays locked while a forked child has it, too."""
        if not self.is_closed:
            os.close(self._descriptor)
            self._descriptor = -1

    def _begin(self) -> None:
        os.ftruncate(self._descriptor, 0)
        header = file_header(FileKind.JOURNAL)
        write_all(self._descriptor, header)
        self._end = len(header)
        if self._sync:
            os.fsync(self._descriptor)
            sync_directory(self.path.parent)

    def replay(self) -> Iterator[EventBatch]:
        """Give what is there. A torn frame is cut off, and kept in a file beside.

        Raises NotAStoreError, FormatVersionError, CorruptStoreError as :func:`read_events`; the
        file is as it was.
        """
        with opening(self.path):
            yield from self._replayed()

    def _replayed(self) -> Iterator[EventBatch]:
        file = EventFile(self._descriptor, self.path)
        yield from file.batches()
        torn = file.torn_bytes
        beside = self._keep(file.end, file.size) if torn else None
        if not file.end:
            self._begin()
        elif not file.is_current or file.kind is FileKind.DUMP:
            self.rewrite(EventFile(self._descriptor, self.path).batches())
        elif torn:
            os.ftruncate(self._descriptor, file.end)
            self._end = file.end
        if torn:
            text = (
                f"the last {torn} bytes of the journal {str(self.path)!r} were no whole frame of "
                f"events, and are kept in {str(beside)!r}"
            )
            facts = {"path": str(self.path), "kept": str(beside)}
            report("events.torn", text, offset=file.end, bytes=torn, **facts)

    def append(self, batches: Sequence[EventBatch]) -> None:
        """Write batches as one frame; all of them are there afterwards, or none.

        Raises StoreError where the file cannot be written, DiskFullError where there is no room.
        """
        data = frame_of(batches)
        with _writing(self.path):
            self._append(data)
        self._end += len(data)

    def _append(self, data: bytes) -> None:
        if os.fstat(self._descriptor).st_size > self._end:
            os.ftruncate(self._descriptor, self._end)  # what a failed append could not take back
        try:
            write_all(self._descriptor, data)
            if self._sync:
                os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._end)
            raise

    def rewrite(self, batches: Iterable[EventBatch]) -> None:
        """Hold these batches and nothing else from now on."""
        with opening(self.path):
            written = _written(self.path, batches, FileKind.JOURNAL, sync=self._sync)
        self.forget()
        self._descriptor = written
        self._end = os.fstat(written).st_size

    def close(self) -> None:
        """Let the file go."""
        if self.is_ours and not self.is_closed:
            # A child that was forked just now may not have let go of it yet: its lock is this one.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.forget()

    def __del__(self) -> None:
        if "_descriptor" in self.__dict__:
            self.forget()

    def _keep(self, start: int, stop: int) -> Path:
        """Copy the end of the file to one beside it, of a name that is free."""
        number = 0
        while True:
            suffix = f".torn-{start}" + f"-{number}" * (number > 0)
            beside = self.path.with_name(self.path.name + suffix)
            try:
                target = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                break
            except FileExistsError:
                number += 1
        try:
            for at in range(start, stop, _BLOCK_BYTES):
                write_all(target, read_bytes(self._descriptor, at, min(_BLOCK_BYTES, stop - at)))
            os.fsync(target)
        finally:
            os.close(target)
        sync_directory(beside.parent)
        return beside


# --- files ----------------------------------------------------------------------------------------


def _written(path: Path, batches: Iterable[EventBatch], kind: FileKind, *, sync: bool) -> int:
    """Write a file under another name and give it its own; return its descriptor, locked."""
    part = path.with_name(path.name + ".part")
    descriptor = _locked(part)
    try:
        with _writing(path):
            os.ftruncate(descriptor, 0)
            write_all(descriptor, file_header(kind))
            for batch in batches:
                if len(batch):
                    write_all(descriptor, frame_of([batch]))
            if kind is FileKind.DUMP:
                write_all(descriptor, frame_of([]))
            if sync:
                os.fsync(descriptor)
        part.replace(path)
        if sync:
            sync_directory(path.parent)
    except BaseException:
        os.close(descriptor)
        part.unlink(missing_ok=True)
        raise
    return descriptor


def _locked(path: Path) -> int:
    """Open and lock a file, which still has its name when the lock is there; made if need be."""
    while True:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise StoreBusyError(
                f"{str(path)!r} is open in another process, or by another journal of this one",
                hint="give each live store a journal of its own",
            ) from error
        except FileNotFoundError:  # it was removed, or renamed, meanwhile
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
