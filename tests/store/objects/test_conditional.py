"""A server that ignores ``If-None-Match`` is noticed before it can lose a commit."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import tessel
from tessel.errors import ConditionalWriteError, StoreError
from tessel.store.objects import cloud
from tests.store.objects.scripted import Fault, Rule, ScriptedServer, scripted_server
from tests.store.objects.servers import CREDENTIALS

ROWS = pa.table({"x": [1, 2, 3]})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    monkeypatch.setattr(cloud, "_FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(cloud, "_verified", set())
    with scripted_server() as made:
        yield made


def open_at(server: ScriptedServer) -> tessel.Store:
    return tessel.open("s3://bucket/store", credentials=CREDENTIALS, options=server.options())


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process has seen."""
    monkeypatch.setattr(cloud, "_verified", set())


def test_no_store_is_made_there(server: ScriptedServer) -> None:
    server.ignores_conditions = True
    with pytest.raises(ConditionalWriteError, match="If-None-Match") as caught:
        open_at(server)
    assert "conditional writes" in (caught.value.hint or "")
    assert server.objects == {}


def test_nothing_lands_in_a_store_that_was_made_before(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_at(server)
    assert store.write("a", ROWS) == 1
    assert store.write("a", ROWS) == 2
    server.ignores_conditions = True
    another_process(monkeypatch)
    identity = server.objects["store.json"]
    again = open_at(server)
    for act in (
        lambda: again.write("a", ROWS),
        lambda: again.create_tag("v1"),
        lambda: again.expire(2, dry_run=False),
        lambda: again.delete("a"),
    ):
        with pytest.raises(ConditionalWriteError):
            act()
    assert sum(key.startswith("log/") for key in server.objects) == 2
    assert server.objects["store.json"] == identity
    assert again.read("a").to_arrow().equals(ROWS)


def test_it_costs_one_put_a_process(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_at(server)
    for number in range(3):
        assert store.append("a", ROWS) if number else store.write("a", ROWS)
    assert server.count("PUT", "^store.json") == 2
    another_process(monkeypatch)
    again = open_at(server)
    again.read("a")
    assert server.count("PUT", "^store.json") == 2, "who only reads puts nothing"
    for _ in range(3):
        again.append("a", ROWS)
    assert server.count("PUT", "^store.json") == 3
    assert server.count("DELETE") == 0


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.CONFLICT_409, Fault.SLOW_DOWN_503])
@pytest.mark.parametrize("ignores", [False, True])
def test_an_answer_that_says_nothing_is_asked_again(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, fault: Fault, ignores: bool
) -> None:
    store = open_at(server)
    store.write("a", ROWS)
    another_process(monkeypatch)
    server.ignores_conditions = ignores
    server.rules.append(Rule("PUT", fault, key="^store.json"))
    if ignores:
        with pytest.raises(ConditionalWriteError):
            store.append("a", ROWS)
    else:
        assert store.append("a", ROWS) == 2
    another_process(monkeypatch)
    server.rules.append(Rule("PUT", fault, key="^store.json", times=1000))
    with pytest.raises(StoreError):
        store.append("a", ROWS)
