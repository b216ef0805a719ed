"""What machine code this process has loaded, and the thread that sees to what is missing.

Making it takes seconds, so that no query waits for it: it is made by another process, one a
directory, which outlives this one (:mod:`tessel.kernels.making`), and loaded by a thread of this
process when it is there. A *room* is a module of this package with its compiled twin. Of a room
that is loaded a sample has been run and compared with numpy. Whatever goes wrong, the room stays
with numpy, and why can be asked for.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tessel.user_cache import cache_folders, holds_private, is_private, make_private

if TYPE_CHECKING:
    from subprocess import Popen

fcntl: Any = None  # not on Windows: there each process that asks makes its own
with contextlib.suppress(ImportError):
    fcntl = importlib.import_module("fcntl")

__all__ = [
    "BUSY",
    "MachineCode",
    "cache_directory",
    "digest_of",
    "is_made",
    "lock_of",
    "machine_code",
    "note_made",
]

_logger = logging.getLogger("tessel")

BUSY = 3
"""The code with which the process ends that finds another one at work."""

_LOOK_SECONDS = 0.05
_MOST_SECONDS_TO_FORK = 10.0
_BEING_MADE = "its machine code is being made or loaded"


class MachineCode:
    """The rooms whose machine code is loaded, wanted, and not to be had."""

    def __init__(self) -> None:
        self._module: ModuleType | None = None
        self._loaded: frozenset[str] = frozenset()
        self._failed: dict[str, str] = {}
        self._wanted: dict[str, None] = {}  # in the order in which they were asked for
        self._lock = threading.Lock()
        self._loading = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_forked = False
        self._is_held = False
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork_in_parent,
            after_in_child=self._after_fork,
        )
        atexit.register(self._end)

    @property
    def is_there(self) -> bool:
        """Whether numba and the kernels are imported."""
        return self._module is not None

    def module(self) -> ModuleType:
        """Return the module of the compiled kernels; they import numba where it is installed."""
        if self._module is None:
            with self._loading:
                has_numba()
                found = importlib.import_module("tessel.kernels.compiled")
                self._module = found
        return self._module

    def ask(self, rooms: Iterable[str]) -> str:
        """Return why a room is not to be used, nothing where all are; what is missing is made."""
        if self._loaded.issuperset(rooms):
            return ""
        missing = [room for room in rooms if room not in self._loaded]
        for room in missing:
            if room in self._failed:
                return self._failed[room]
        with self._lock:
            self._wanted.update(dict.fromkeys(missing))
            if self._thread is None:
                self._stop.clear()
                self._thread = threading.Thread(
                    target=self._work, name="tessel-machine-code", daemon=True
                )
                self._thread.start()
        return _BEING_MADE

    def wait(self, seconds: float | None = None) -> None:
        """Wait until nothing is being made or loaded any more."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _work(self) -> None:
        maker = _Maker()
        while True:
            is_at_work = maker.is_at_work()  # whoever ends is fetched, or it would stay as a zombie
            with self._lock:
                if self._stop.is_set() or not (self._wanted or is_at_work):
                    maker.let_go()
                    self._thread = None
                    return
                wanted = list(self._wanted)
            try:
                is_done = self._look(wanted, maker)
            except Exception as error:  # a thread that fails must not be asked again and again
                _logger.info("machine code cannot be loaded", exc_info=True)
                self._fail(wanted, f"its machine code cannot be loaded: {error!r}")
                is_done = True
            if not is_done or is_at_work:
                self._stop.wait(_LOOK_SECONDS)

    def _look(self, wanted: list[str], maker: _Maker) -> bool:
        """Load what is made; return whether there is no need to wait for the rest."""
        directory = cache_directory()
        with self._loading:
            if not has_numba():
                self._fail(wanted, "numba is not installed")
                return True
        if directory is None:
            self._fail(wanted, "machine code can be kept nowhere")
            return True
        left = []
        for room in wanted:
            if self._stop.is_set():
                return True
            with self._loading:
                made = is_made(directory, room)
                if made:
                    self._load(room)
            if not made:
                left.append(room)
        if not left:
            return True
        if self._is_forked:
            self._fail(left, "machine code is not made in forked processes")
            return True
        why = maker.see_to(directory, left)
        if why:
            self._fail([room for room in left if not is_made(directory, room)], why)
        return bool(why)

    def _load(self, room: str) -> None:
        from tessel.kernels.samples import agrees

        self.module()
        if agrees(room):
            with self._lock:
                self._loaded |= {room}
                self._wanted.pop(room, None)
        else:
            self._fail([room], "its machine code gave another answer than numpy")

    def _fail(self, rooms: Iterable[str], why: str) -> None:
        with self._lock:
            for room in rooms:
                self._failed[room] = why
                self._wanted.pop(room, None)

    def _end(self) -> None:
        """End the thread, under which the interpreter must not go away.

        A program that asked one question and ends has machine code made for the next one.
        """
        self._stop.set()
        self.wait()
        directory = cache_directory() if self._wanted and not self._is_forked else None
        if directory is not None:
            unmade = [room for room in self._wanted if not list(directory.glob(f"{room}.*"))]
            maker = _Maker()
            with contextlib.suppress(OSError):
                if unmade:
                    maker.see_to(directory, unmade)
            maker.let_go()

    def _before_fork(self) -> None:
        """Let a child not be forked while numba is at work here, whose locks it could not free."""
        self._is_held = self._loading.acquire(timeout=_MOST_SECONDS_TO_FORK)

    def _after_fork_in_parent(self) -> None:
        if self._is_held:
            self._loading.release()

    def _after_fork(self) -> None:
        """Give a child locks that nobody holds; the thread is not there, what is loaded is."""
        self._lock, self._loading = threading.Lock(), threading.RLock()
        self._stop, self._thread, self._wanted = threading.Event(), None, {}
        self._is_forked = True


class _Maker:
    """The process that makes machine code, while a thread waits for it."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        self._asked: set[str] = set()
        self._code = 0

    def is_at_work(self) -> bool:
        """Whether it has not ended."""
        if self._process is not None and self._process.poll() is not None:
            self._code, self._process = self._process.returncode, None
        return self._process is not None

    def let_go(self) -> None:
        """Leave it to itself: its end is not waited for, of which Python would warn."""
        if self._process is not None:
            self._process.returncode = 0

    def see_to(self, directory: Path, rooms: list[str]) -> str:
        """Have rooms made; return why there is no use in waiting for them, or nothing."""
        if self.is_at_work():
            return ""
        if self._code == BUSY:
            self._code = 0
            self._asked.clear()
        elif self._code and self._asked.issuperset(rooms):
            return f"what makes machine code ended with code {self._code}"
        if _is_locked(directory):
            return ""  # by another process: one at a time
        if self._asked.issuperset(rooms):
            return "its machine code could not be made"
        self._asked.update(rooms)
        interpreter = _interpreter()
        if not interpreter:
            return "there is no interpreter to make machine code with"
        # Few processes come here, and to import it takes a millisecond.
        import subprocess

        places = [str(Path(__file__).parents[2]), *map(os.path.abspath, sys.path)]
        self._process = subprocess.Popen(
            [interpreter, "-m", "tessel.kernels.making", *rooms],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=os.path.abspath(os.sep),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            start_new_session=True,  # it is to be done with its work though we are ended
        )
        return ""


def _interpreter() -> str:
    """Return the program that runs modules; where Python is built into another, nothing."""
    program = sys.executable or ""
    is_python = os.path.basename(program).startswith(("python", "pypy"))
    return program if is_python and not getattr(sys, "frozen", False) else ""


@functools.cache
def has_numba() -> bool:
    """Whether it can be imported, by doing so.

    That is done on a thread, since Python interrupts the main thread only: numpy's C interface,
    which numba uses, makes an ImportError of a Ctrl-C, and numba would be taken for absent.
    """
    imported: list[str] = []

    def run() -> None:
        with contextlib.suppress(ImportError):
            imported.append(importlib.import_module("numba").__name__)

    thread = threading.Thread(target=run, name="tessel-import-numba")
    thread.start()
    thread.join()
    return bool(imported)


# --- the directory --------------------------------------------------------------------------------


@functools.cache
def cache_directory() -> Path | None:
    """Return where machine code is kept: in ``$XDG_CACHE_HOME``, else in ``~/.cache``.

    Where neither can be written, or other users could have put files there, it is a directory of
    the user's among the temporary files, and None where there is none either. The last part of the
    name is a digest of the sources: numba sees when the file of a function changes, but not when
    that of another does which it calls.
    """
    name = f"kernels-{digest_of(Path(__file__).parent / 'compiled')}"
    for folder in cache_folders(os.environ):
        with contextlib.suppress(OSError):
            make_private(folder)
            if _can_use(folder / name):
                return folder / name
    user = os.getuid() if hasattr(os, "getuid") else 0
    with contextlib.suppress(OSError):
        shared = Path(tempfile.gettempdir()) / f"tessel-{user}"
        with contextlib.suppress(FileExistsError):
            shared.mkdir(mode=0o700)
        if is_private(shared) and _can_use(shared / name):
            return shared / name
    return None


def digest_of(sources: Path) -> str:
    """Return a digest of all sources of a directory."""
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted(sources.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _can_use(directory: Path) -> bool:
    """Whether it can be written by this user and by no other, who could have us run anything."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not holds_private(directory):
        _logger.info("machine code in %s is not used: others can or could write it", directory)
        return False
    tempfile.TemporaryFile(dir=directory).close()
    return True


def is_made(directory: Path, room: str) -> bool:
    """Whether a room's machine code lies there, made for this machine by this numba."""
    return _mark(directory, room).exists()


def note_made(directory: Path, room: str) -> None:
    """Note that it does."""
    _mark(directory, room).touch()


def _mark(directory: Path, room: str) -> Path:
    from tessel.kernels.kept_code import made_for

    return directory / f"{room}.{made_for()}"


@contextlib.contextmanager
def lock_of(directory: Path, *, wait: bool = False) -> Iterator[bool]:
    """Lock a directory for who makes machine code; whether it could be.

    The lock is the process's, not that of who opened the file: children do not have it.
    """
    if fcntl is None:
        yield True
        return
    with open(directory / "lock", "ab") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            yield False
            return
        yield True


def _is_locked(directory: Path) -> bool:
    with lock_of(directory) as is_locked:
        return not is_locked


machine_code = MachineCode()
"""Of this process."""
