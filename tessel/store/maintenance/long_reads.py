"""Leases for reads that last: short ones cost an entry in a dictionary, and write nothing.

A query reads one version, which may expire while it runs, and be collected under it. Whoever knows
that asks for a lease before. For all others a thread of this process looks from time to time which
reads have gone on for long, and leases their versions until they end. It harms no read: where a
lease cannot be had, the read goes on without one.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tessel.errors import TesselError
from tessel.forking import after_fork
from tessel.store.history.versions import seconds
from tessel.store.maintenance import LEASE_SECONDS
from tessel.store.objects.base import ObjectStore
from tessel.telemetry import emit

if TYPE_CHECKING:
    from tessel.store.history.history import History
    from tessel.store.maintenance.leases import Lease

_LEASED_AFTER_SECONDS: Final = 60.0
_LOOKED_AT_SECONDS: Final = 15.0
_RENEWED_AFTER_SECONDS: Final = LEASE_SECONDS / 4


@contextlib.contextmanager
def leased_if_long(
    objects: ObjectStore, history: History, versions: set[int], *, at_once: bool = False
) -> Iterator[None]:
    """Lease versions for the rest of a block, once it has lasted for a minute.

    Parameters
    ----------
    objects, history
        The store; it can be written to.
    versions
        What is read; more may be added to it.
    at_once
        Lease them when the block begins: whoever knows that it will last.
    """
    read = _Read(objects, history, versions)
    if at_once:
        read.keep_up()
    _watch.begin(read)
    try:
        yield
    finally:
        _watch.end(read)
        read.end()


class _Read:
    """One read, and the leases that it has come to."""

    def __init__(self, objects: ObjectStore, history: History, versions: set[int]) -> None:
        self._objects = objects
        self._history = history
        self._versions = versions
        self._began = seconds()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._ended = False
        self._leases: dict[int, tuple[Lease, float]] = {}

    def is_long(self) -> bool:
        """Whether it has lasted so long that it is to be leased."""
        return seconds() - self._began >= _LEASED_AFTER_SECONDS

    def keep_up(self) -> None:
        """Lease its versions, or begin the time of the leases anew."""
        for version in self._versions.copy():
            with self._lock:
                if self._ended:
                    return
                try:
                    self._keep(version)
                except TesselError as error:
                    emit("lease.failed", version=version, kind=error.kind, message=error.message)

    def _keep(self, version: int) -> None:
        lease, since = self._leases.get(version, (None, 0.0))
        now = seconds()
        if lease is None:
            from tessel.store.maintenance.leases import Lease, inventory_of

            inventory_of(self._objects)
            self._leases[version] = Lease(self._objects, self._history, version, LEASE_SECONDS), now
            emit("lease.taken", version=version)
        elif now - since >= _RENEWED_AFTER_SECONDS:
            lease.renew()
            self._leases[version] = lease, now

    def end(self) -> None:
        """Give the leases back; one that cannot be given back ends by itself."""
        if os.getpid() != self._process:
            return  # a forked child lets go of what its parent still reads
        with self._lock:
            self._ended = True
            for lease, _ in self._leases.values():
                with contextlib.suppress(TesselError):
                    lease.release()


class _Watch:
    """The thread that looks after reads; it begins with the first of them."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a forked child does: there are no threads, and no reads of its own."""
        self._lock = threading.Lock()
        self._reads: dict[int, _Read] = {}
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def begin(self, read: _Read) -> None:
        """Look after a read from now on."""
        with self._lock:
            self._reads[id(read)] = read
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="tessel-long-reads", daemon=True
                )
                self._thread.start()

    def end(self, read: _Read) -> None:
        """Look after a read no longer; a forked child may not know it."""
        with self._lock:
            self._reads.pop(id(read), None)

    def _run(self) -> None:
        stopped = self._stopped
        while not stopped.wait(_LOOKED_AT_SECONDS):
            with self._lock:
                reads = list(self._reads.values())
            for read in reads:
                if read.is_long():
                    read.keep_up()


_watch = _Watch()
after_fork(_watch, _Watch.forget)
