"""Commits against a server that fails at any of their puts: won, lost or unknown, and no other.

A dry run counts the puts of a commit. Then each of them fails in each way, once or for good, and
afterwards, with the server well again, the log is asked what is true.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tessel.errors import CommitConflictError, CommitUnknownError, StoreError
from tessel.store import Repository
from tessel.store.history.log import CommitLog, LogEntry
from tessel.store.objects import cloud
from tests.store.helpers import read
from tests.store.objects.scripted import Fault, Rule, ScriptedServer, scripted_server
from tests.store.objects.servers import CREDENTIALS

BEFORE = pa.table({"x": [1, 2, 3]})
AFTER = pa.table({"x": [4, 5, 6, 7]})
PUTS_OF_A_COMMIT = 3
ANY_NUMBER = 1_000

HANGS = (Fault.HANG, Fault.HANG_AFTER, Fault.LATE)
FAULTS = [
    Fault.REPLY_LOST,
    Fault.DROPPED,
    Fault.ERROR_500_AFTER,
    Fault.ERROR_500,
    Fault.CONFLICT_409,
    Fault.THROTTLED_429,
    Fault.FORBIDDEN_403,
    Fault.HANG_AFTER,
    Fault.LATE,
    Fault.WRONG_LENGTH,
    Fault.SHORT_BODY,
]
LOG = r"^log/"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    monkeypatch.setattr(cloud, "_FIRST_PAUSE_SECONDS", 0.001)
    with scripted_server() as made:
        yield made


def seconds(fault: Fault) -> float:
    return 0.5 if fault in HANGS else 30.0


def open_at(server: ScriptedServer, fault: Fault | None = None) -> Repository:
    options = server.options(30.0 if fault is None else seconds(fault), attempts=2)
    return Repository.open("s3://bucket/store", credentials=CREDENTIALS, options=options)


def test_how_many_puts_a_commit_has(server: ScriptedServer) -> None:
    repository = open_at(server)
    repository.write("a", BEFORE)
    server.log.clear()
    repository.write("a", AFTER)
    puts = [key.partition("/")[0] for method, key in server.log if method == "PUT"]
    assert len(puts) == PUTS_OF_A_COMMIT
    assert puts[-1] == "log", "the log entry decides, so it comes last"


def _check(server: ScriptedServer, before: dict[str, bytes], said: str, commit: str = "") -> None:
    """Check with a server that is well what the log says, against what the writer was told."""
    server.rules.clear()
    for key, data in server.late.items():
        server.put(key, data, conditional=True)
    assert server.count("DELETE") == 0
    assert all(server.objects[key] == data for key, data in before.items())
    repository = open_at(server)
    landed = repository.newest == 2
    assert landed or repository.newest == 1
    if said == "unknown":
        assert repository.resolve(commit) == (2 if landed else None)
    else:
        assert landed == (said == "won")
    assert read(repository.view("a")).equals(AFTER if landed else BEFORE)
    assert read(repository.view("a", as_of=1)).equals(BEFORE)
    assert repository.write("b", AFTER) == repository.newest == 2 + landed


def _commit(repository: Repository) -> tuple[str, str]:
    try:
        assert repository.write("a", AFTER) == 2
    except CommitUnknownError as error:
        return "unknown", error.attributes["commit"]
    except StoreError:
        return "failed", ""
    return "won", ""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("put", range(PUTS_OF_A_COMMIT))
def test_a_put_fails_once(server: ScriptedServer, put: int, fault: Fault) -> None:
    repository = open_at(server, fault)
    repository.write("a", BEFORE)
    before = dict(server.objects)
    server.rules.append(Rule("PUT", fault, first=put))
    said, commit = _commit(repository)
    # The log entry is tried again whatever the answer was; other objects only where that can help.
    refused = fault is Fault.FORBIDDEN_403 and put < PUTS_OF_A_COMMIT - 1
    assert said == ("failed" if refused else "won")
    _check(server, before, said, commit)


@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in HANGS])
@pytest.mark.parametrize("put", range(PUTS_OF_A_COMMIT))
def test_the_puts_fail_for_good_from_one_on(server: ScriptedServer, put: int, fault: Fault) -> None:
    _for_good(server, put, fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", HANGS)
@pytest.mark.parametrize("put", range(PUTS_OF_A_COMMIT))
def test_the_server_hangs_for_good_from_one_put_on(
    server: ScriptedServer, put: int, fault: Fault
) -> None:
    _for_good(server, put, fault)


def _for_good(server: ScriptedServer, put: int, fault: Fault) -> None:
    repository = open_at(server, fault)
    repository.write("a", BEFORE)
    before = dict(server.objects)
    server.rules.append(Rule("PUT", fault, first=put, times=ANY_NUMBER))
    said, commit = _commit(repository)
    lands = fault in (Fault.REPLY_LOST, Fault.ERROR_500_AFTER, Fault.HANG_AFTER)
    if lands or fault in (Fault.WRONG_LENGTH, Fault.SHORT_BODY):
        assert said == "won"
    elif fault in (Fault.DROPPED, Fault.ERROR_500, Fault.HANG):
        assert said == ("unknown" if put == PUTS_OF_A_COMMIT - 1 else "failed")
    elif fault is not Fault.LATE:
        assert said == "failed"
    _check(server, before, said, commit)


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.DROPPED, Fault.ERROR_500_AFTER])
def test_the_log_entry_cannot_be_read_back(server: ScriptedServer, fault: Fault) -> None:
    repository = open_at(server, fault)
    repository.write("a", BEFORE)
    before = dict(server.objects)
    server.rules += [
        Rule("PUT", fault, key=LOG, times=ANY_NUMBER),
        Rule("GET", Fault.ERROR_500, key=LOG, times=ANY_NUMBER),
    ]
    said, commit = _commit(repository)
    assert said == "unknown"
    _check(server, before, said, commit)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("symbol", ["a", "b"])
def test_another_commit_came_first(server: ScriptedServer, fault: Fault, symbol: str) -> None:
    """The other one changed the same symbol, or another; the put of the log entry fails."""
    repository, other = open_at(server, fault), open_at(server)
    repository.write("a", BEFORE)
    said = "won"
    try:
        with repository.transaction() as transaction:
            transaction.write("a", AFTER)
            other.write(symbol, BEFORE)
            server.rules.append(Rule("PUT", fault, key=LOG))
    except CommitConflictError:
        said = "conflict"
    except CommitUnknownError:
        said = "unknown"
    except StoreError:
        said = "failed"
    server.rules.clear()
    repository = open_at(server)
    assert said == ("conflict" if symbol == "a" else "won")
    assert repository.newest == (3 if said == "won" else 2)
    assert read(repository.view("a")).equals(AFTER if said == "won" else BEFORE)
    assert read(repository.view(symbol, as_of=2)).equals(BEFORE)
    assert server.count("DELETE") == 0


# --- the put of a log entry by itself -------------------------------------------------------------


@pytest.fixture
def entries() -> tuple[LogEntry, LogEntry]:
    """Two first entries of different writers."""
    found = []
    for _ in range(2):
        repository = Repository.open("memory://")
        repository.write("a", BEFORE)
        found.append(CommitLog(repository.objects).read(1))
    return found[0], found[1]


@pytest.mark.parametrize("fault", [*FAULTS, Fault.HANG, Fault.SLOW_DOWN_503])
@pytest.mark.parametrize("times", [1, ANY_NUMBER])
@pytest.mark.parametrize("read_back", [True, False])
@pytest.mark.parametrize("taken", [True, False])
def test_the_answer_is_one_of_three_and_true(
    server: ScriptedServer,
    entries: tuple[LogEntry, LogEntry],
    fault: Fault,
    times: int,
    read_back: bool,
    taken: bool,
) -> None:
    mine, theirs = entries
    open_at(server)
    if taken:
        assert CommitLog(server.open()).put(theirs)
    server.rules.append(Rule("PUT", fault, times=times))
    if not read_back:
        server.rules.append(Rule("GET", Fault.ERROR_500, times=ANY_NUMBER))
    log = CommitLog(server.open(seconds=seconds(fault), attempts=2))
    try:
        said, facts = "won" if log.put(mine) else "lost", {}
    except CommitUnknownError as error:
        said, facts = "unknown", error.attributes
    except StoreError as error:
        said, facts = "failed", error.attributes
    if said == "unknown":
        assert facts["commit"] == mine.commit
    if said == "failed":
        # Refused each time by an answer that says so: it did not land, and never will.
        assert facts["landed"] == "no"
    server.rules.clear()
    for key, data in server.late.items():
        server.put(key, data, conditional=True)
    log = CommitLog(server.open())
    there = log.read(1).commit if log.newest_number() else ""
    assert server.count("DELETE") == 0
    if taken:
        assert there == theirs.commit
        assert said != "won"
    if said in ("won", "lost"):
        assert there == (mine.commit if said == "won" else theirs.commit)
    if said == "failed":
        assert there == ""
    if read_back and times == 1 and fault is not Fault.FORBIDDEN_403:
        assert said == ("lost" if taken else "won")
