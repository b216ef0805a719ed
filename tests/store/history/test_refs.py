"""Names of branches and tags, what cannot be asked, what is damaged or has expired."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.errors import (
    CorruptStoreError,
    FormatVersionError,
    InvalidInputError,
    ReadOnlyStoreError,
    RefExistsError,
    RefNameError,
    RefNotFoundError,
    SnapshotExpiredError,
    StoreError,
    SymbolNotFoundError,
    TesselError,
    VersionNotFoundError,
)
from tessel.store.history.documents import Fields, open_store, seal
from tessel.store.history.log import LogEntry
from tessel.store.history.refs import Refs
from tessel.store.history.versions import timestamp_of
from tessel.store.maintenance.fsck import check_store
from tessel.store.names import STORE, check_ref_name, log_name
from tessel.store.repository import Repository
from tests.store.history.helpers import CountingObjects, changes_of, put, small_nodes, values
from tests.store.maintenance.helpers import AgingObjects, opened


def _repository() -> Repository:
    """Return a store with versions 1 to 3, a branch and a tag."""
    repository = Repository(CountingObjects(), "id", read_only=False)
    put(repository.history, "main", {"a": 1})
    repository.create_branch("feature")
    repository.create_tag("release", at=1)
    return repository


GOOD_NAMES = ["a", "main", "v1.0", "release/2026-01", "_x", "été", "数据", "x" * 200, "1a", "A"]
BAD_NAMES = ["", "12", "-a", ".", "..", "/a", "a b", "a\n", "a\0", "a\\b", "x" * 201, "\ud800",
             "a:b", "٣", 7, None, b"a"]  # fmt: skip


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_names_that_can_be_taken(name: str) -> None:
    assert check_ref_name(name) == name
    repository = Repository(CountingObjects(), "id", read_only=False)
    if name != "main":
        repository.create_tag(name)
    assert Repository(repository.objects, "id", read_only=False).at(name).number == 0 or (
        name == "main"
    )


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_names_that_cannot(name: Any) -> None:
    repository = _repository()
    for act in (
        lambda: repository.create_branch(name),
        lambda: repository.create_tag(name),
        lambda: repository.delete_branch(name),
        lambda: repository.delete_tag(name),
        lambda: repository.reset_branch(name, 1),
        lambda: Repository.open("memory://", branch=name),
    ):
        with pytest.raises(RefNameError):
            act()
    assert repository.history.newest_number == 3


BAD: dict[str, tuple[Callable[[Repository], Any], type[TesselError], str]] = {
    "unknown branch": (lambda r: r.on_branch("featur"), RefNotFoundError, "did you mean 'feature'"),
    "unknown name": (lambda r: r.at("Release"), RefNotFoundError, "did you mean 'release'"),
    "a tag is no branch": (lambda r: r.on_branch("release"), RefNotFoundError, "no branch"),
    "delete unknown": (lambda r: r.delete_branch("x"), RefNotFoundError, "branches: feature, main"),
    "delete unknown tag": (lambda r: r.delete_tag("feature"), RefNotFoundError, "tags: release"),
    "delete main": (lambda r: r.delete_branch("main"), InvalidInputError, "cannot be deleted"),
    "branch of a version to come": (
        lambda r: r.create_branch("x", at=9),
        VersionNotFoundError,
        "0 (empty) to 3",
    ),
    "tag of a version to come": (
        lambda r: r.create_tag("x", at=-1),
        VersionNotFoundError,
        "-1",
    ),
    "reset to nothing": (
        lambda r: r.reset_branch("feature", "x"),
        RefNotFoundError,
        "no branch or tag 'x'",
    ),
    "a branch twice": (lambda r: r.create_branch("feature"), RefExistsError, "at version 2"),
    "a branch like a tag": (lambda r: r.create_branch("release"), RefExistsError, "a tag"),
    "main again": (lambda r: r.create_branch("main"), RefExistsError, "'main'"),
    "revert to nothing": (lambda r: r.revert(None), InvalidInputError, "revert(to=version)"),
    "limit": (lambda r: r.log(limit=0), InvalidInputError, "limit=0"),
    "as_of without zone": (lambda r: r.at(datetime(2030, 1, 1)), InvalidInputError, "zone"),
    "as_of of another type": (lambda r: r.at(1.5), InvalidInputError, "no version"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_changes_nothing(case: str) -> None:
    repository = _repository()
    act, error, text = BAD[case]
    with pytest.raises(error) as caught:
        act(repository)
    assert type(caught.value) is error
    assert text in str(caught.value)
    assert repository.history.newest_number == 3


def test_text_is_a_name_and_else_a_time() -> None:
    repository = _repository()
    repository.create_tag("2999-01-01", at=1)
    moments = {number: timestamp_of(repository.history.entry(number)) for number in range(1, 5)}
    for number, moment in moments.items():
        for form in ("%Y-%m-%dT%H:%M:%S.%f+00:00", "%Y-%m-%d %H:%M:%S.%f", "%Y%m%dT%H%M%S.%fZ"):
            at = {1: 1, 2: 1, 3: 3, 4: 4}[number]  # version 2 is of another branch
            assert repository.at(f"{moment:{form}}").number == at, form
        before = (moment - timedelta(microseconds=1)).isoformat()
        assert repository.at(before).number == {1: 0, 2: 1, 3: 1, 4: 3}[number]
    last = moments[4]
    for form in ("%Y-%m", "%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M"):
        assert repository.at(f"{last:{form}}").number == 4, form  # its last instant
    assert repository.at(last.date()).number == 4
    assert repository.at(moments[1].date() - timedelta(days=1)).number == 0
    assert repository.at("9999-12-31").number == 4
    assert repository.at("2999-01-01").number == 1  # the name wins
    assert repository.at("2999-01-02").number == 4
    assert repository.at("3").number == 3
    repository.delete_tag("2999-01-01")
    with pytest.raises(RefNotFoundError, match="the tag '2999-01-01' was deleted"):
        repository.at("2999-01-01")


@pytest.mark.parametrize(
    "text", ["", "a b", "2024-13-01", "2024-01-01 25:00", "10:00", "9" * 5_000]
)
def test_text_that_is_neither_says_both(text: str) -> None:
    with pytest.raises(RefNotFoundError, match=r"no branch or tag .* no date or time") as caught:
        _repository().at(text)
    assert "feature, main, release" in str(caught.value)
    assert "2024-01-31T12:00" in str(caught.value)


def test_the_name_of_a_deleted_tag_is_never_used_again() -> None:
    repository = _repository()
    repository.delete_tag("release")
    for act in (repository.create_tag, repository.create_branch):
        with pytest.raises(RefExistsError, match="never used again"):
            act("release")
    again = Repository(repository.objects, "id", read_only=False)
    with pytest.raises(RefExistsError, match="never used again"):
        again.create_tag("release")
    assert again.tags() == {}
    with pytest.raises(RefNotFoundError):
        again.at("release")


def test_a_read_only_store_keeps_its_refs() -> None:
    repository = _repository()
    reader = Repository(repository.objects, "id", read_only=True)
    acts: list[Callable[[], int]] = [
        lambda: reader.create_branch("x"),
        lambda: reader.create_tag("x"),
        lambda: reader.delete_branch("feature"),
        lambda: reader.delete_tag("release"),
        lambda: reader.reset_branch("main", 0),
        lambda: reader.revert(1),
    ]
    for act in acts:
        with pytest.raises(ReadOnlyStoreError):
            act()
    assert reader.branches() == {"feature": 2, "main": 3}
    assert reader.tags() == {"release": 1}


def test_a_branch_is_written_and_read_through_open() -> None:
    main = Repository.open("memory://")
    main.write("a", {"x": [1]})
    main.create_branch("dev")
    dev = Repository.open(main.uri, branch="dev")
    assert repr(dev) == f"<Repository {main.uri!r} branch 'dev'>"
    dev.write("a", {"x": [2]})
    dev.write("b", {"x": [3]})
    assert (main.newest, dev.newest) == (1, 4)
    assert (main.symbols(), dev.symbols()) == (["a"], ["a", "b"])
    assert main.symbols(as_of="dev") == main.symbols(as_of=4) == ["a", "b"]
    main.reset_branch("main", "dev")
    assert main.symbols() == ["a", "b"]
    with pytest.raises(RefNotFoundError, match="did you mean 'dev'"):
        Repository.open(main.uri, branch="Dev")


def test_the_log_tells_what_was_done_to_branches_and_tags() -> None:
    repository = _repository()
    told = [(v.number, v.symbol, v.change, v.branch, v.message) for v in repository.log()]
    assert told == [
        (3, "", "create-tag", "main", "create tag release at version 1"),
        (1, "a", "write", "main", ""),
    ]
    feature = repository.on_branch("feature")
    assert [(v.number, v.change) for v in feature.log()] == [(2, "create-branch"), (1, "write")]
    assert [v.number for v in feature.log("a")] == [1]


@pytest.mark.parametrize(
    "ask",
    [
        lambda repository: repository.view("symbol07777x"),
        lambda repository: repository.versions("symbol07777x"),
        lambda repository: repository.delete("symbol07777x"),
        lambda repository: repository.append("symbol07777x", {"v": [1]}),
    ],
    ids=["view", "versions", "delete", "append"],
)
def test_unknown_symbols_of_a_large_store_are_answered_from_one_leaf(
    ask: Callable[[Repository], object],
) -> None:
    repository = Repository(CountingObjects(), "id", read_only=False)
    put(repository.history, "main", {f"symbol{n:05}": n for n in range(12_000)})
    again = Repository(repository.objects, "id", read_only=False)
    repository.objects.forget()  # type: ignore[attr-defined]
    with pytest.raises(SymbolNotFoundError, match="symbol0777"):
        ask(again)
    assert len(repository.objects.reads) <= 5  # type: ignore[attr-defined]


# --- expiry ---------------------------------------------------------------------------------------


def _expired() -> Repository:
    """Return a store whose versions 1 to 9 are gone, but for the tag on 3 and the branch at 5."""
    repository = Repository(CountingObjects(), "id", read_only=False)
    for number in range(1, 5):
        put(repository.history, "main", {"a": number})
    repository.create_branch("old")
    for number in range(6, 13):
        put(repository.history, "main", {"a": number})
    repository.create_tag("v3", at=3)
    repository.history.expire_before(10)
    for number in (1, 2, 4, 6, 7, 8, 9):
        repository.objects.delete(log_name(number))
    return Repository(repository.objects, "id", read_only=False)


def test_versions_that_have_expired_say_so() -> None:
    repository = _expired()
    for number in (1, 2, 4, 6, 9):
        with pytest.raises(SnapshotExpiredError, match=f"version {number} was expired") as caught:
            repository.at(number)
        assert isinstance(caught.value, VersionNotFoundError)
        assert "10 to 14 are kept" in str(caught.value)
    kept = {n: values(repository.at(n)).get("a") for n in (0, 3, 5, 10, 11, 12, 14)}
    assert kept == {0: None, 3: 3, 5: 4, 10: 10, 11: 11, 12: 12, 14: 12}
    assert values(repository.at("v3")) == {"a": 3}
    assert values(repository.at("old")) == {"a": 4}
    with pytest.raises(SnapshotExpiredError, match="of 2000-01-01"):
        repository.at(datetime(2000, 1, 1, tzinfo=UTC))
    assert [v.number for v in repository.log()] == [14, 13, 12, 11, 10]
    assert [v.number for v in repository.on_branch("old").log()] == [5]
    assert repository.on_branch("old").at(datetime.now(UTC)).number == 5


def test_a_version_that_expires_while_it_is_looked_for_says_so() -> None:
    repository = Repository(CountingObjects(), "id", read_only=False)
    for number in range(1, 9):
        put(repository.history, "main", {"a": number})
    reader = Repository(repository.objects, "id", read_only=True).history
    head = reader.head()
    repository.history.expire_before(7)
    for number in range(1, 7):
        repository.objects.delete(log_name(number))
    assert reader.tip(head, "main") == 8
    with pytest.raises(SnapshotExpiredError, match="version 3 was expired"):
        reader.entry(3)
    repository.objects.delete(log_name(7))
    with pytest.raises(CorruptStoreError, match="version 7, is missing"):
        reader.entry(7)


def test_branches_with_an_expired_past_go_on() -> None:
    repository = _expired()
    old = repository.on_branch("old")
    number = put(old.history, "old", {"b": 1})
    assert values(old.at(None)) == {"a": 4, "b": 1}
    for value in range(20):
        put(old.history, "old", {"b": value})
    assert old.at(old.log()[5].timestamp).number == old.log()[5].number
    # What the branch began with is no longer its newest version, and so not kept either.
    assert [v.number for v in old.log()][-1] == number
    with pytest.raises(SnapshotExpiredError):
        old.at(5)


def test_a_commit_that_may_have_expired_is_not_said_to_have_failed() -> None:
    repository = _expired()
    with pytest.raises(SnapshotExpiredError, match="if it landed before version 10"):
        repository.resolve("0" * 32)


def test_expiry_never_goes_back() -> None:
    repository = _expired()
    with pytest.raises(SnapshotExpiredError):
        repository.history.expire_before(6)
    assert repository.history.refs().oldest == 10


# --- what is read is checked ----------------------------------------------------------------------

_REFS = Refs({"main": 3, "dev": 2}, {"v1": 1}, frozenset({"v0"}), 1)
FORGED_REFS = {
    "no main branch": {"branches": {"dev": 1}},
    "a bad name": {"branches": {"main": 1, "..": 1}},
    "a number that is text": {"tags": {"v1": "1"}},
    "a negative number": {"tags": {"v1": -1}},
    "tags that are a list": {"tags": []},
    "retired that are numbers": {"retired": [1]},
    "no oldest": {"oldest": None},
}


def test_refs_come_back_as_they_are() -> None:
    assert Refs.read(Fields(_REFS.to_json(), "refs/x")) == _REFS


@pytest.mark.parametrize("case", FORGED_REFS)
def test_forged_refs_are_refused(case: str) -> None:
    document = {**_REFS.to_json(), **FORGED_REFS[case]}  # type: ignore[dict-item]
    with pytest.raises(CorruptStoreError, match="refs/forged is damaged"):
        Refs.read(Fields(document, "refs/forged"))


FORGED_ENTRIES = {
    "another number": {"number": 3},
    "a parent after it": {"parent": 2},
    "a jump after its parent": {"jump": 2},
    "a time after all": {"timestamp_us": 2**62},
    "an unknown act": {"act": "burn"},
    "a branch that is ahead": {"moved": {"dev": 2}},
    "a branch without a name": {"moved": {"": 1}},
    "no root": {"root": None},
    "refs that are text": {"refs": "x"},
    "metadata that are text": {"metadata": "x"},
}


@pytest.mark.parametrize("case", FORGED_ENTRIES)
def test_forged_entries_are_refused(case: str) -> None:
    repository = _repository()
    entry = repository.history.entry(2)
    document = unsealed(entry) | FORGED_ENTRIES[case]  # type: ignore[operator]
    with pytest.raises(CorruptStoreError, match="is damaged"):
        LogEntry.read(Fields(document, log_name(2)), 2)


FORGED_CHANGES = {
    "a change that is text": ["x"],
    "a change that is empty": [{}],
    "a kind that is none": [{"kinds": ["burn"], "edits": [], "name": "a", "symbol": 1, "rows": 1}],
    "an edit of two numbers": [{"kinds": ["write"], "edits": [[0, 1]], "name": "a"}],
}


@pytest.mark.parametrize("case", FORGED_CHANGES)
def test_forged_changes_are_refused_where_they_are_asked_for(case: str) -> None:
    objects = AgingObjects()
    open_store(objects, create=True, read_only=False)
    history = opened(objects).history
    history.commit(history.newest(), changes_of({"a": 1}), "")
    document = unsealed(history.entry(1)) | {"changes": FORGED_CHANGES[case]}
    forged = opened(objects.replaced(log_name(1), seal(document)))
    assert forged.symbols() == ["a"]
    with pytest.raises(CorruptStoreError, match="is damaged"):
        forged.log()
    assert log_name(1) in {damage.object for damage in check_store(forged).damages}


def unsealed(entry: LogEntry) -> dict[str, Any]:
    """Return the document of an entry."""
    found: dict[str, Any] = json.loads(entry.to_bytes().rpartition(b"\n")[0])
    return found


def test_entries_come_back_as_they_are() -> None:
    repository = _repository()
    history = repository.history
    base = history.newest()
    history.commit(base, changes_of({"b": 1}), "hello", metadata={"ticket": [1, None, "é"]})
    again = Repository(repository.objects, "id", read_only=True).history
    for number in range(1, 5):
        found, kept = again.entry(number), history.entry(number)
        assert found.to_bytes() == kept.to_bytes()
        nothing = dataclasses.replace(found, root=kept.root, lookup=kept.lookup)
        assert nothing == kept
    assert again.entry(4).metadata == {"ticket": [1, None, "é"]}


def test_refs_of_another_format_are_refused() -> None:
    with pytest.raises(FormatVersionError):
        Refs.read(Fields({**_REFS.to_json(), "version": [0, 2]}, "refs/x"))


def _everything(objects: CountingObjects) -> list[Any]:
    history = Repository(objects, "id", read_only=True).history
    told: list[Any] = []
    for entry in history.entries():
        told.append((entry.number, entry.commit, entry.act, entry.message))
        told.append((values(history.at(entry.number)), history.refs_at(entry)))
    return told


@functools.cache
def _contents() -> dict[str, bytes]:
    with small_nodes():
        repository = _repository()
        for number in range(4):
            put(repository.history, "feature", {f"s{n:02}": n for n in range(number, 40, 4)})
    objects = repository.objects
    return {name: objects.get(name).to_pybytes() for name in objects.list()}


@settings(max_examples=60)
@given(data=st.data())
def test_every_flipped_bit_is_noticed(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["log/", "leaf/", "refs/"]))
    name = data.draw(st.sampled_from([n for n in _contents() if n.startswith(kind)]))
    bit = data.draw(st.integers(0, 8 * len(_contents()[name]) - 1))
    flipped = bytearray(_contents()[name])
    flipped[bit // 8] ^= 1 << bit % 8
    damaged = CountingObjects()
    for other, whole in _contents().items():
        damaged.put_if_absent(other, bytes(flipped) if other == name else whole)
    with pytest.raises(StoreError):
        _everything(damaged)


def test_what_is_not_damaged_is_read() -> None:
    sound = CountingObjects()
    for name, whole in _contents().items():
        sound.put_if_absent(name, whole)
    told = _everything(sound)
    assert [one[0] for one in told[::2]] == [7, 6, 5, 4, 3, 2, 1]
    assert {name.split("/")[0] for name in _contents()} == {"log", "leaf", "refs", STORE}
