"""What a disk may hold after power was lost: calls recorded while they are made, and replayed.

The model is that of a file system that promises no more than POSIX does. A file's bytes are safe
once it was synced after they were written; before that, any part of them may be there. A name is
safe once its directory was synced after the name was made or removed; before that, each change of
a directory may have happened or not, whatever order they were made in.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

CALLS = ("open", "write", "fsync", "link", "unlink", "mkdir", "rename", "replace", "rmdir")


class ProcessDied(BaseException):
    """Stands for the end of the process: nothing of the library catches it."""


@dataclass(frozen=True)
class Call:
    """One change of the disk: what, the path, and a second path or the bytes written."""

    what: str
    path: str
    more: Any = None


SHORT_WRITES = 4


@dataclass
class Recorder:
    """Notes what is done below a directory; can fail or die at one of the calls."""

    root: str
    calls: list[Call] = field(default_factory=list)
    files: dict[int, str] = field(default_factory=dict)
    fail_at: int | None = None
    failure: Callable[[], BaseException] = ProcessDied
    count: int = 0
    dead: bool = False

    def step(self, call: Call) -> None:
        """Count a call that is about to be made; raise instead where one is to fail."""
        if self.dead:
            # A dead process makes no further calls, so its clean-up does nothing either.
            raise ProcessDied
        at, self.count = self.count, self.count + 1
        if at == self.fail_at:
            error = self.failure()
            self.dead = isinstance(error, ProcessDied)
            raise error

    def inside(self, path: Any) -> bool:
        return isinstance(path, str) and path.startswith(self.root)

    def open(self, path: Any, flags: int, *rest: Any, **named: Any) -> int:
        makes = bool(flags & os.O_CREAT)
        if self.inside(path) and makes:
            self.step(Call("create", path))
        descriptor = _REAL["open"](path, flags, *rest, **named)
        if self.inside(path):
            self.files[descriptor] = path
            if makes:
                self.calls.append(Call("create", path))
        else:
            self.files.pop(descriptor, None)
        return descriptor

    def write(self, descriptor: int, data: Any) -> int:
        path = self.files.get(descriptor)
        if path is None:
            return _REAL["write"](descriptor, data)
        self.step(Call("write", path))
        # Short writes on purpose: a file is torn at more places then. As many of them whatever the
        # length: entries differ in some bytes, and a commit must have its calls at the same places.
        before = sum(call.what == "write" and call.path == path for call in self.calls)
        length = max(1, len(data) // 2) if before < SHORT_WRITES else len(data)
        written = _REAL["write"](descriptor, bytes(data)[:length])
        self.calls.append(Call("write", path, bytes(data)[:written]))
        return written

    def fsync(self, descriptor: int) -> None:
        path = self.files.get(descriptor)
        if path is None:
            _REAL["fsync"](descriptor)
            return
        self.step(Call("sync", path))
        self.calls.append(Call("sync", path))

    def link(self, source: str, target: str, **named: Any) -> None:
        self.step(Call("link", target, source))
        _REAL["link"](source, target, **named)
        self.calls.append(Call("link", target, source))

    def unlink(self, path: str, **named: Any) -> None:
        self.step(Call("unlink", path))
        _REAL["unlink"](path, **named)
        self.calls.append(Call("unlink", path))

    def mkdir(self, path: str, *rest: Any, **named: Any) -> None:
        self.step(Call("mkdir", path))
        _REAL["mkdir"](path, *rest, **named)
        self.calls.append(Call("mkdir", path))

    def refuse(self, *arguments: Any, **named: Any) -> None:
        raise AssertionError("the model knows no such call")


_REAL: dict[str, Any] = {name: getattr(os, name) for name in CALLS}


@contextmanager
def recorded(root: Path, **settings: Any) -> Iterator[Recorder]:
    """Record, and perhaps fail, the calls made below ``root`` while the block runs."""
    recorder = Recorder(str(root), **settings)
    with mock.patch.multiple(
        os, **{name: getattr(recorder, name, recorder.refuse) for name in CALLS}
    ):
        yield recorder


@dataclass
class _File:
    """The bytes of a file, and how many of its writes are safe."""

    writes: list[bytes] = field(default_factory=list)
    safe: int = 0


def crashes(calls: list[Call], root: str, chance: random.Random, each: int) -> Iterator[State]:
    """Yield states of the disk that power loss after these calls may leave.

    Of the unsafe names, none and all of them are kept, and ``each`` combinations in between (all,
    where there are not more); their bytes are lost, whole, or torn.
    """
    files: dict[int, _File] = {}
    names: dict[str, int | None] = {root: None}
    safe: dict[str, int | None] = {root: None}
    pending: list[tuple[str, int | None, bool]] = []
    for call in calls:
        if call.what == "create":
            number = len(files)
            files[number] = _File()
            names[call.path] = number
            pending.append((call.path, number, True))
        elif call.what == "write":
            files[_number(names, call.path)].writes.append(call.more)
        elif call.what == "link":
            names[call.path] = names[call.more]
            pending.append((call.path, names[call.path], True))
        elif call.what == "unlink":
            pending.append((call.path, names.pop(call.path), False))
        elif call.what == "mkdir":
            names[call.path] = None
            pending.append((call.path, None, True))
        elif names.get(call.path) is not None:
            file = files[_number(names, call.path)]
            file.safe = len(file.writes)
        else:
            for path, number_or_none, made in pending:
                if os.path.dirname(path) == call.path:
                    _apply(safe, path, number_or_none, made)
            pending = [item for item in pending if os.path.dirname(item[0]) != call.path]
    choices = list(itertools.product((False, True), repeat=min(len(pending), 12)))
    if len(choices) > each:
        choices = [choices[0], choices[-1], *chance.sample(choices, each)]
    for chosen in choices:
        state = dict(safe)
        for (path, number_or_none, made), happened in zip(pending, chosen, strict=False):
            if happened:
                _apply(state, path, number_or_none, made)
        for keeps in (0.0, 1.0, chance.random()):
            yield {
                path: None if number is None else _bytes(files[number], keeps, chance)
                for path, number in state.items()
                if _reachable(state, path, root)
            }


State = dict[str, bytes | None]
"""The bytes of each file, None for a directory, by path."""


def _apply(names: dict[str, int | None], path: str, number: int | None, made: bool) -> None:
    if made:
        names[path] = number
    else:
        names.pop(path, None)


def _number(names: dict[str, int | None], path: str) -> int:
    found = names[path]
    assert found is not None
    return found


def _reachable(names: dict[str, int | None], path: str, root: str) -> bool:
    while path != root:
        path = os.path.dirname(path)
        if path not in names:
            return False
    return True


def _bytes(file: _File, keeps: float, chance: random.Random) -> bytes:
    kept = b"".join(file.writes[: file.safe])
    unsafe = b"".join(file.writes[file.safe :])
    torn = bytearray(unsafe[: round(len(unsafe) * keeps)])
    if torn and 0 < keeps < 1:
        # Blocks reach a disk in any order: the length may be there before the bytes are.
        start = chance.randrange(len(torn))
        torn[start:] = bytes(len(torn) - start)
    return kept + bytes(torn)


def restore(state: State, old_root: str, new_root: Path) -> Path:
    """Write a state of the disk below a new directory."""
    for path in sorted(state):
        target = new_root / os.path.relpath(path, old_root)
        data = state[path]
        if data is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.write_bytes(data)
    return new_root
