"""Single requests against a server that fails as it is told: what each method then says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tessel.errors import (
    CorruptStoreError,
    NotFoundError,
    StoreAccessError,
    StoreBusyError,
    StoreError,
    StoreNotFoundError,
)
from tessel.store.objects import cloud
from tessel.telemetry import Event, subscribe
from tests.store.objects.scripted import Fault, Rule, ScriptedServer, scripted_server

DATA = bytes(range(256)) * 4
HANGS = (Fault.HANG, Fault.HANG_AFTER, Fault.LATE)
NOT_LANDED = (Fault.CONFLICT_409, Fault.THROTTLED_429, Fault.SLOW_DOWN_503)
ANY_NUMBER = 1_000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    monkeypatch.setattr(cloud, "_FIRST_PAUSE_SECONDS", 0.001)
    with scripted_server() as made:
        yield made


def seconds(fault: Fault) -> float:
    """How long the client waits: short only where the server never answers."""
    return 0.5 if fault in HANGS else 30.0


@pytest.mark.parametrize("fault", [f for f in Fault if f is not Fault.FORBIDDEN_403])
def test_a_put_that_fails_once_is_known_to_have_landed(
    server: ScriptedServer, fault: Fault
) -> None:
    server.rules.append(Rule("PUT", fault))
    objects = server.open(seconds=seconds(fault))
    assert objects.put_if_absent("log/1", DATA)
    assert server.objects["log/1"] == DATA
    assert not objects.put_if_absent("log/1", b"other")
    assert server.count("DELETE") == 0


@pytest.mark.parametrize("fault", [f for f in Fault if f is not Fault.FORBIDDEN_403])
def test_a_put_of_a_name_in_use_is_known_to_have_lost(server: ScriptedServer, fault: Fault) -> None:
    server.objects["log/1"] = b"of another"
    server.rules.append(Rule("PUT", fault))
    assert not server.open(seconds=seconds(fault)).put_if_absent("log/1", DATA)
    assert server.objects["log/1"] == b"of another"


@pytest.mark.parametrize(
    "fault", [Fault.DROPPED, Fault.ERROR_500, Fault.HANG, Fault.REPLY_LOST, Fault.HANG_AFTER]
)
def test_a_put_without_an_answer_that_cannot_be_read_back_is_unknown(
    server: ScriptedServer, fault: Fault
) -> None:
    server.rules += [
        Rule("PUT", fault, times=ANY_NUMBER),
        Rule("GET", Fault.ERROR_500, times=ANY_NUMBER),
    ]
    with pytest.raises(StoreError) as caught:
        server.open(seconds=seconds(fault), attempts=2).put_if_absent("log/1", DATA)
    assert caught.value.attributes["landed"] == "unknown"
    assert server.objects.get("log/1", DATA) == DATA


@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.ERROR_500, Fault.HANG])
def test_a_put_that_never_gets_an_answer_may_land_later(
    server: ScriptedServer, fault: Fault
) -> None:
    server.rules.append(Rule("PUT", fault, times=ANY_NUMBER))
    with pytest.raises(StoreError) as caught:
        server.open(seconds=seconds(fault), attempts=2).put_if_absent("log/1", DATA)
    assert caught.value.attributes["landed"] == "unknown"
    assert server.count("PUT") == 2


@pytest.mark.parametrize("fault", [*NOT_LANDED, Fault.FORBIDDEN_403])
def test_a_put_that_is_always_refused_has_not_landed(server: ScriptedServer, fault: Fault) -> None:
    server.rules.append(Rule("PUT", fault, times=ANY_NUMBER))
    expected = {
        Fault.FORBIDDEN_403: StoreAccessError,
        Fault.CONFLICT_409: StoreError,
    }.get(fault, StoreBusyError)
    with pytest.raises(expected) as caught:
        server.open(attempts=3).put_if_absent("log/1", DATA)
    assert caught.value.attributes["landed"] == "no"
    assert server.objects == {}
    assert server.count("PUT") == (1 if fault is Fault.FORBIDDEN_403 else 3)


def test_a_clean_answer_that_the_name_is_in_use_costs_one_request(server: ScriptedServer) -> None:
    server.objects["log/1"] = b"of another"
    assert not server.open().put_if_absent("log/1", DATA)
    assert server.log == [("PUT", "log/1")]


@pytest.mark.parametrize("fault", [f for f in Fault if f is not Fault.FORBIDDEN_403])
@pytest.mark.parametrize("times", [1, ANY_NUMBER])
def test_reads_give_the_right_bytes_or_an_error(
    server: ScriptedServer, fault: Fault, times: int
) -> None:
    server.objects["seg/a"] = DATA
    for method in ("GET", "HEAD"):
        server.rules.append(Rule(method, fault, times=times))
    objects = server.open(seconds=seconds(fault), attempts=2)
    answers = []
    for act in (
        lambda: objects.get("seg/a").to_pybytes() == DATA,
        lambda: objects.get_range("seg/a", 100, 300).to_pybytes() == DATA[100:400],
        lambda: objects.size("seg/a") == len(DATA),
    ):
        try:
            answers.append(act())
        except StoreError:
            answers.append(None)
    if fault is Fault.SHORT_BODY:
        # A whole object that is short, and says so, is for the checksum of its parent to find.
        answers[0] = None
    assert False not in answers
    if fault in (Fault.SHORT_BODY, Fault.EXTRA_BYTES) and times > 1:
        assert answers[1] is None
    if times == 1 and fault is not Fault.CONFLICT_409:  # which no server answers to a read
        assert answers[2] is True


def test_a_short_answer_and_a_short_object_are_told_apart(server: ScriptedServer) -> None:
    server.objects["seg/a"] = DATA
    objects = server.open()
    with pytest.raises(CorruptStoreError, match="it has 1024"):
        objects.get_range("seg/a", 1000, 100)
    server.rules.append(Rule("GET", Fault.SHORT_BODY))
    with pytest.raises(StoreError, match=r"too few bytes|no usable answer") as caught:
        objects.get_range("seg/a", 0, 100)
    assert not isinstance(caught.value, CorruptStoreError)


def test_an_absent_object_is_not_a_failure(server: ScriptedServer) -> None:
    objects = server.open()
    for act in (objects.get, objects.size, lambda name: objects.get_range(name, 0, 5)):
        with pytest.raises(NotFoundError):
            act("seg/none")
    assert not objects.exists("seg/none")


def test_names_without_an_order_are_refused(server: ScriptedServer) -> None:
    real = sorted
    from tests.store.objects import scripted

    scripted.sorted = lambda found: real(found)[::-1]  # type: ignore[attr-defined]
    try:
        server.objects = {"b": b"", "a": b""}
        with pytest.raises(StoreError, match="without an order"):
            list(server.open().list())
    finally:
        del scripted.sorted  # type: ignore[attr-defined]


def test_listing_fails_as_a_whole(server: ScriptedServer) -> None:
    server.objects.update({f"seg/{n}": b"" for n in range(10)})
    server.rules.append(Rule("LIST", Fault.ERROR_500, times=ANY_NUMBER))
    with pytest.raises(StoreError, match="could not list"):
        list(server.open(attempts=2).list("seg/"))
    server.rules.clear()
    assert list(server.open().list("seg/")) == [f"seg/{n}" for n in range(10)]


def test_a_server_without_a_start_for_listings(server: ScriptedServer) -> None:
    server.objects.update({f"seg/{n}": b"" for n in range(10)})
    server.ignores_start = True
    assert list(server.open().list("seg/", after="seg/6", limit=2)) == ["seg/7", "seg/8"]


def test_a_bucket_that_is_not_there(moto: object) -> None:
    objects = moto.open("s3://no-such-bucket/a")  # type: ignore[attr-defined]
    for act in (
        lambda: objects.put_if_absent("a", b""),
        lambda: list(objects.list()),
        lambda: objects.get("a"),
    ):
        with pytest.raises(StoreNotFoundError, match="no bucket"):
            act()


def test_repeated_requests_are_events(server: ScriptedServer) -> None:
    server.rules.append(Rule("PUT", Fault.THROTTLED_429, times=2))
    events: list[Event] = []
    with subscribe(events.append):
        server.open().put_if_absent("log/1", DATA)
    assert [(e.name, e.attributes["status"]) for e in events] == [("objects.retry", 429)] * 2
