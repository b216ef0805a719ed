"""Links on a file system over a network: done, and the answer lost, or seen late by others.

A client of NFS sends a request again whose answer did not come. The server then finds the name that
it made itself, and answers EEXIST (RFC 1813, section 4.5, and open(2) on O_EXCL): what the caller
hears is the opposite of what is so. A lookup may also answer from a cache that is seconds old.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from tessel.errors import CommitUnknownError, NotFoundError, StoreError
from tessel.store import Repository
from tessel.store.maintenance.fsck import check_store
from tests.store.helpers import read

BEFORE = pa.table({"x": [1, 2, 3]})
AFTER = pa.table({"x": [4, 5, 6, 7]})
LINKS_OF_A_COMMIT = 3

_link = os.link
_open = os.open

Failure = Callable[[str], OSError]

REPLIES: dict[str, Failure] = {
    "EEXIST": lambda path: FileExistsError(errno.EEXIST, "File exists", path),
    "EIO": lambda path: OSError(errno.EIO, "Input/output error", path),
    "ETIMEDOUT": lambda path: TimeoutError(errno.ETIMEDOUT, "Connection timed out", path),
    "ESTALE": lambda path: OSError(errno.ESTALE, "Stale file handle", path),
    "ENOENT": lambda path: FileNotFoundError(errno.ENOENT, "No such file or directory", path),
}


@dataclass
class Network:
    """Which link fails, how, and whether it was done all the same."""

    at: int
    reply: Failure
    done: bool
    times: int = 1
    links: int = 0
    unseen: str = ""

    def link(self, source: str, target: str, **named: object) -> None:
        number, self.links = self.links, self.links + 1
        if not self.at <= number < self.at + self.times:
            _link(source, target)
            return
        if self.done:
            # Sent again after it was done: the name is there, whoever asks a second time.
            try:
                _link(source, target)
            except FileExistsError:
                if not os.path.samefile(source, target):
                    raise
        raise self.reply(target)

    def open(self, path: object, flags: int, *rest: int) -> int:
        if isinstance(path, str) and self.unseen and path.endswith(self.unseen):
            self.unseen = ""
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return _open(path, flags, *rest)  # type: ignore[arg-type]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.open(tmp_path / "store")
    made.write("a", BEFORE)
    return made


def _commit(repository: Repository, network: Network) -> tuple[str, str]:
    """Write under the faults of a network, and return what the writer was told."""
    with mock.patch.multiple(os, link=network.link, open=network.open):
        try:
            assert repository.write("a", AFTER) == 2
        except CommitUnknownError as error:
            return "unknown", error.attributes["commit"]
        except (StoreError, NotFoundError):
            # Not found: a link that says EEXIST where nothing is, which nobody can make sense of.
            return "failed", ""
    return "won", ""


def _check(repository: Repository, said: str, commit: str) -> bool:
    """Check what the writer was told against the log, and return whether the commit landed."""
    again = Repository.open(repository.uri, create=False)
    landed = again.newest == 2
    assert landed or again.newest == 1
    if said == "unknown":
        assert again.resolve(commit) == (2 if landed else None)
    else:
        assert landed == (said == "won")
    assert read(again.view("a")).equals(AFTER if landed else BEFORE)
    assert read(again.view("a", as_of=1)).equals(BEFORE)
    assert again.write("b", AFTER) == again.newest == 2 + landed
    assert check_store(again).damages == []
    return landed


def test_how_many_links_a_commit_has(repository: Repository) -> None:
    network = Network(10**6, REPLIES["EIO"], done=False)
    assert _commit(repository, network) == ("won", "")
    assert network.links == LINKS_OF_A_COMMIT


@pytest.mark.parametrize("at", range(LINKS_OF_A_COMMIT))
@pytest.mark.parametrize("reply", REPLIES)
def test_a_link_is_done_and_its_reply_lost(repository: Repository, reply: str, at: int) -> None:
    said, commit = _commit(repository, Network(at, REPLIES[reply], done=True))
    landed = _check(repository, said, commit)
    if at == LINKS_OF_A_COMMIT - 1 or reply == "EEXIST":
        # The entry is read back, and so is an object that is said to exist already.
        assert landed
        assert said == "won"


@pytest.mark.parametrize("at", range(LINKS_OF_A_COMMIT))
@pytest.mark.parametrize("reply", REPLIES)
def test_a_link_is_not_done(repository: Repository, reply: str, at: int) -> None:
    said, commit = _commit(repository, Network(at, REPLIES[reply], done=False))
    assert said == "won" or not _check(repository, said, commit)


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("done", [True, False])
def test_no_reply_ever_comes(repository: Repository, reply: str, done: bool) -> None:
    network = Network(LINKS_OF_A_COMMIT - 1, REPLIES[reply], done, times=100)
    said, commit = _commit(repository, network)
    landed = _check(repository, said, commit)
    assert landed == done
    assert said == ("won" if done else said)


@pytest.mark.parametrize("reply", REPLIES)
def test_a_name_is_seen_late(repository: Repository, reply: str) -> None:
    """The entry is named, its reply lost, and the first look at it answers from an old cache."""
    network = Network(LINKS_OF_A_COMMIT - 1, REPLIES[reply], done=True, unseen="/999999999/997")
    said, commit = _commit(repository, network)
    assert network.unseen == "", "the entry was looked for"
    assert _check(repository, said, commit)
    assert said in ("won", "unknown")


@pytest.mark.parametrize("reply", REPLIES)
def test_another_writer_took_the_number(repository: Repository, reply: str) -> None:
    """A lost reply is never taken for a victory where somebody else's entry has the number."""
    other = Repository.open(repository.uri)
    network = Network(LINKS_OF_A_COMMIT - 1, REPLIES[reply], done=False)
    transaction = repository.transaction()
    transaction.append("a", AFTER)
    other.write("c", BEFORE)
    with mock.patch.object(os, "link", network.link), contextlib.suppress(StoreError):
        transaction.commit()
    again = Repository.open(repository.uri, create=False)
    assert again.symbols() == ["a", "c"]
    assert read(again.view("a")).num_rows in (3, 7)
    assert again.newest == (2 if read(again.view("a")).num_rows == 3 else 3)


@pytest.mark.parametrize("at", range(2))
def test_the_reply_to_the_creation_is_lost(tmp_path: Path, at: int) -> None:
    network = Network(at, REPLIES["EEXIST"], done=True)
    with mock.patch.object(os, "link", network.link):
        made = Repository.open(tmp_path / "new")
        made.write("a", BEFORE)
    again = Repository.open(tmp_path / "new", create=False)
    assert again.id == made.id
    assert read(again.view("a")).equals(BEFORE)
