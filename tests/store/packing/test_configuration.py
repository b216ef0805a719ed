"""The configuration of a store: kept, checked, overridden; what is fetched at open."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tessel
from tessel.errors import CorruptStoreError, OptionError, ReadOnlyStoreError
from tessel.store.history.documents import Fields
from tessel.store.history.refs import Refs
from tessel.store.manifest.packing import ManifestConfiguration, ManifestRule, ManifestSet, Preload
from tessel.store.manifest.packing.preload import Preloader, chosen_manifests
from tessel.store.repository import Repository
from tessel.telemetry import Event, subscribe
from tests.store.helpers import assert_same, new_place, read
from tests.store.packing.laws import check_limits

ROWS = pa.table({"x": pa.array([1, 2, 3], pa.int64())})
AXES = ManifestConfiguration(
    (ManifestSet("axes", max_segments=10),), (ManifestRule("axes", symbols="axis.*"),)
)


def _store() -> Repository:
    return Repository(new_place("memory://configuration"), "id", read_only=False)


def _sets(store: Repository, symbol: str) -> set[str | None]:
    return {extent.set for extent in store.at(None).snapshot[symbol].manifests}


def test_a_configuration_is_a_commit_that_all_branches_and_sessions_see() -> None:
    store = _store()
    store.write("axis", ROWS)
    store.create_branch("dev")
    assert store.manifest_configuration == ManifestConfiguration()
    version = store.set_manifest_configuration(AXES.to_json())
    assert version == store.newest
    assert [each.change for each in store.log(limit=1)] == ["configure-manifests"]
    again = Repository(store.objects, "id", read_only=True, branch="dev")
    assert again.manifest_configuration == AXES
    dev = store.on_branch("dev")
    for each in (store, dev):
        assert _sets(each, "axis") == {None}
        each.write("axis", ROWS)
        assert _sets(each, "axis") == {"axes"}
    store.set_manifest_configuration(None)
    assert again.manifest_configuration == ManifestConfiguration()


def test_what_cannot_be_is_refused_with_its_path_and_nothing_changes() -> None:
    store = _store()
    store.write("axis", ROWS)
    wrong: list[Any] = [
        ({"sets": [{"name": "a", "overflow_to": "b"}]}, r"sets\[0\].overflow_to"),
        ({"rules": [{"target": "small", "symbols": "("}]}, r"rules\[0\].symbols"),
        ({"set": []}, "set"),
        (7, "manifests=7"),
    ]
    for configuration, path in wrong:
        for verb in (store.set_manifest_configuration, store.repack):
            with pytest.raises(OptionError, match=path):
                verb(configuration)
        with pytest.raises(OptionError, match=path):
            tessel.open("memory://", manifests=configuration)
    assert store.newest == 1
    reader = Repository(store.objects, "id", read_only=True)
    with pytest.raises(ReadOnlyStoreError):
        reader.set_manifest_configuration(AXES)
    with pytest.raises(ReadOnlyStoreError):
        reader.repack()
    assert reader.repack(AXES, dry_run=True).symbols == 1


def test_a_damaged_configuration_is_noticed() -> None:
    document = Refs(manifests=AXES).to_json()
    assert Refs.read(Fields(document, "refs/x")).manifests == AXES
    document["manifests"]["sets"][0]["overflow_to"] = "nowhere"
    with pytest.raises(CorruptStoreError, match="nowhere"):
        Refs.read(Fields(document, "refs/x"))


def test_a_session_can_override_the_configuration(tmp_path: Path) -> None:
    uri = str(tmp_path / "store")
    with tessel.open(uri, manifests=AXES).transaction() as changes:
        changes.write("axis", ROWS)
        changes.write("other", ROWS)
    store = tessel.open(uri)
    assert store.manifest_configuration == ManifestConfiguration()
    assert (_sets(store, "axis"), _sets(store, "other")) == ({"axes"}, {"default"})
    store.create_branch("dev")
    assert tessel.open(uri, branch="dev", manifests=AXES).manifest_configuration == AXES


def test_repack_reports_and_applies_a_configuration() -> None:
    store = _store()
    with store.transaction() as changes:
        for number in range(30):
            changes.write(f"axis{number:02}", ROWS)
    store.append("axis07", ROWS)
    planned = store.repack(AXES, dry_run=True)
    assert (planned.dry_run, planned.version, planned.symbols) == (True, 2, 30)
    assert store.newest == 2
    done = store.repack(AXES)
    assert (done.version, done.symbols, len(done.plan.written)) == (
        3,
        30,
        len(planned.plan.written),
    )
    assert "repack" in tessel.display.render_text(done.describe())
    assert store.repack(AXES).version == 3
    check_limits(store, AXES)
    assert_same(read(store.view("axis07")), pa.concat_tables([ROWS, ROWS]))
    assert_same(read(store.view("axis07", as_of=2)), pa.concat_tables([ROWS, ROWS]))


def test_symbols_that_change_sets_are_counted() -> None:
    store = _store()
    store.write("axis", ROWS)
    store.repack()
    assert _sets(store, "axis") == {"small"}
    events: list[Event] = []
    with subscribe(events.append):
        store.repack(AXES)
    (packed,) = [each for each in events if each.name == "manifests.pack"]
    assert (packed.attributes["flipped"], packed.attributes["written"]) == (1, 1)


# --- preload --------------------------------------------------------------------------------------


@pytest.fixture
def events() -> Iterator[list[Event]]:
    found: list[Event] = []
    with subscribe(found.append):
        yield found


def _named(events: list[Event], name: str) -> list[dict[str, Any]]:
    return [each.attributes for each in events if each.name == f"manifests.{name}"]


def _wait_for(preloader: Preloader) -> None:
    """Wait until all that a process has begun to fetch is there."""
    for thread in list(preloader._threads.values()):
        thread.join()


def test_opening_fetches_what_the_configuration_wants(tmp_path: Path, events: list[Event]) -> None:
    uri = str(tmp_path / "store")
    store = Repository.open(uri)
    with store.transaction() as changes:
        for name in ("a", "b"):
            changes.write(name, ROWS)
    store.create_branch("dev")
    store.create_tag("v1")
    (extent,) = store.at(None).snapshot["a"].manifests
    opened = Repository.open(uri, read_only=True)
    assert opened._preloader is not None
    _wait_for(opened._preloader)
    assert len(opened._manifests) == 1
    assert opened._manifests.get(extent.reference.object) is not None
    dev = opened.on_branch("dev")
    assert dev._preloader is not None
    _wait_for(dev._preloader)
    assert len(dev._manifests) == 1
    assert dev._manifests.get(extent.reference.object) is not None
    opened.view("a", as_of="v1")
    _wait_for(opened._preloader)
    sessions = [each["session"] for each in _named(events, "preloaded")]
    assert sessions[-3:] == ["main", "dev", "v1"]
    none = Repository.open(uri, manifests=ManifestConfiguration(preload=Preload(max_manifests=0)))
    assert none._preloader is not None
    _wait_for(none._preloader)
    assert not none._manifests


def test_only_small_manifests_of_named_symbols_are_chosen() -> None:
    store = _store()
    sets = (ManifestSet("axes"),)
    rules = (ManifestRule("axes", symbols="axis.*"),)
    store.set_manifest_configuration(ManifestConfiguration(sets, rules))
    with store.transaction() as changes:
        for number in range(5):
            changes.write(f"axis{number}", ROWS)
        changes.write("quotes", ROWS)
    snapshot = store.at(None).snapshot
    place = {name: state.manifests[0].reference for name, state in snapshot.items()}
    for preload, expected in [
        (Preload(), ["axis0"]),
        (Preload(max_manifests=None), ["axis0", "quotes"]),
        (Preload(("q.*",)), ["quotes"]),
        (Preload(("q.*", "axis3"), None, 2), ["quotes", "axis0"]),
        (Preload(max_segments=4), ["quotes"]),
        (Preload(max_manifests=0), []),
    ]:
        chosen = chosen_manifests(ManifestConfiguration(sets, rules, preload), snapshot)
        assert chosen == [place[name] for name in expected], preload


def test_a_failure_to_preload_fails_no_read_and_is_reported(events: list[Event]) -> None:
    store = _store()
    store.write("a", ROWS)

    def broken(reference: object) -> Any:
        raise OSError("the network is down")

    store._preloader = Preloader(broken)
    store.preload()
    _wait_for(store._preloader)
    assert [each["error"] for each in _named(events, "preload-failed")] == ["the network is down"]
    assert_same(read(store.view("a")), ROWS)


def test_a_forked_child_reads_and_preloads_anew() -> None:
    store = _store()
    store.write("a", ROWS)
    started, release = threading.Event(), threading.Event()
    manifest = store.manifest

    def slow(reference: Any) -> Any:
        started.set()
        release.wait()
        return manifest(reference)

    store._preloader = Preloader(slow)
    store.preload()
    assert started.wait(60)
    child = os.fork()
    if not child:
        code = 1
        try:
            release.set()
            assert read(store.view("a")).num_rows == 3
            store.preload()
            assert len(store._preloader._threads) == 1
            _wait_for(store._preloader)
            code = 0
        finally:
            os._exit(code)
    release.set()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    _wait_for(store._preloader)
