"""What a version costs to read, and a commit to write, counted at the object store."""

from __future__ import annotations

import dataclasses

import pytest

from tessel.store.history.changes import Replacement
from tessel.store.history.committed_changes import CommittedChange
from tessel.store.names import log_name
from tessel.store.repository import Repository
from tests.store.helpers import read
from tests.store.history.helpers import CountingObjects, changes_of, put, small_nodes, state, values


def _store(symbols: int) -> tuple[Repository, CountingObjects]:
    objects = CountingObjects()
    repository = Repository(objects, "id", read_only=False)
    if symbols:
        put(repository.history, "main", {f"s{n:06}": n for n in range(symbols)})
    objects.forget()
    return repository, objects


def _reopened(objects: CountingObjects, branch: str = "main") -> Repository:
    return Repository(objects, "id", read_only=True, branch=branch)


@pytest.mark.parametrize(("symbols", "leaves"), [(0, 0), (1_000, 1), (20_000, 2)])
def test_a_cold_open_reads_the_first_row_with_six_requests(symbols: int, leaves: int) -> None:
    repository, objects = _store(symbols)
    repository.write("prices", {"t": range(100), "x": range(100)}, index="t")
    objects.forget()
    assert read(_reopened(objects).view("prices")).num_rows == 100
    kinds = [name.split("/")[0] for name in objects.reads]
    assert kinds[:2] == ["list log", "log"]
    # A small index of symbols rides in the log entry; a small manifest is read whole.
    assert kinds[2 : 3 + leaves] == ["leaf"] * leaves + ["man"]
    assert set(kinds[3 + leaves :]) == {"seg"}
    assert len(objects.reads) <= 6


def test_a_deep_index_of_symbols_leaves_a_cold_open_at_six_requests() -> None:
    with small_nodes():
        repository, objects = _store(30)
        repository.write("prices", {"t": range(100), "x": range(100)}, index="t")
        objects.forget()
        assert read(_reopened(objects).view("prices")).num_rows == 100
    kinds = [name.split("/")[0] for name in objects.reads]
    assert kinds.count("leaf") == 2
    assert len(kinds) <= 6


def test_another_branch_or_a_tag_costs_the_refs_and_one_entry() -> None:
    repository, objects = _store(1_000)
    repository.create_branch("dev")
    repository.create_tag("v1", at=1)
    for _ in range(3):
        put(repository.history, "main", {"s000001": 0})
    for branch, as_of in (("dev", None), ("main", "v1")):
        objects.forget()
        assert _reopened(objects, branch).at(as_of).snapshot["s000007"].metadata == {"value": 7}
        kinds = [name.split("/")[0] for name in objects.reads]
        assert kinds == ["list log", "log", "refs", "log", "leaf"]


@pytest.mark.parametrize(("symbols", "objects_put"), [(0, 1), (10, 1), (1_000, 2), (20_000, 2)])
def test_a_commit_of_one_symbol_puts_one_object_and_the_entry(
    symbols: int, objects_put: int
) -> None:
    repository, objects = _store(symbols)
    for number in range(5):
        objects.forget()
        put(repository.history, "main", {f"s{7 * number:06}": "new"})
        assert sum(objects.put_kinds.values()) == objects_put
        assert objects.puts[-1][0].startswith("log/")
        assert objects.puts[-1][1] < 12 * 1024
        assert sum(size for _, size in objects.puts) < 64 * 1024


def test_a_commit_of_a_thousand_symbols_puts_one_object_and_the_entry() -> None:
    repository, objects = _store(2_000)
    objects.forget()
    put(repository.history, "main", {f"s{n:06}": "new" for n in range(0, 2_000, 2)})
    assert objects.put_kinds["log"] == 1
    assert objects.put_kinds["leaf"] <= 2


def test_a_lost_race_costs_the_leaf_and_the_entry_again() -> None:
    repository, objects = _store(2_000)
    other = Repository(objects, "id", read_only=False)
    base = repository.history.newest("main")
    lost: list[int] = []

    def overtake(name: str) -> None:
        if name.startswith("log/") and len(lost) < 3:
            objects.before_put = lambda name: None
            lost.append(put(other.history, "main", {f"s{len(lost):06}": "theirs"}))
            objects.before_put = overtake
            objects.forget()

    objects.before_put = overtake
    landed = repository.history.commit(base, changes_of({"s001999": "ours"}), "")
    assert (lost, landed.number) == ([2, 3, 4], 5)
    # Counted since the last loss: the put that lost, and one more try.
    assert objects.put_kinds == {"log": 2, "leaf": 1}
    assert sum(name.startswith("log/") for name in objects.reads) <= 3
    assert values(repository.at(5))["s000002"] == "theirs"
    assert values(repository.at(5))["s001999"] == "ours"


def test_a_commit_on_what_is_known_to_be_old_is_not_tried_in_vain() -> None:
    repository, objects = _store(0)
    history = repository.history
    base = history.newest("main")
    put(Repository(objects, "id", read_only=False).history, "main", {"a": 1})
    objects.forget()
    assert history.commit(base, changes_of({"b": 1}), "").number == 2
    assert [name for name, _ in objects.puts] == [log_name(2)]


def test_what_was_just_written_is_not_read_again() -> None:
    repository, objects = _store(2_000)
    put(repository.history, "main", {"s000100": 1})
    objects.forget()
    put(repository.history, "main", {"s000100": 2})
    assert [name.split("/")[0].split()[0] for name in objects.reads] == ["list", "exists"]


def test_an_instant_is_found_with_few_entries() -> None:
    repository, objects = _store(0)
    numbers = [put(repository.history, "main", {"a": n}) for n in range(600)]
    moments = {v.number: v.timestamp for v in repository.log()}
    for number in (1, 2, 300, 599, 600):
        objects.forget()
        assert _reopened(objects).at(moments[number]).number == number
        assert len(objects.reads) <= 4 * 10, "log2(600) is 9.2"
    assert numbers == list(range(1, 601))


def test_instants_on_a_branch_jump_over_other_branches() -> None:
    repository, objects = _store(0)
    history = repository.history
    on_main = [put(history, "main", {"a": n}) for n in range(200)]
    repository.create_branch("dev")
    on_dev = []
    for n in range(200):
        put(history, "main", {"a": n})
        on_dev.append(put(history, "dev", {"b": n}))
    dev = repository.on_branch("dev")
    moments = {v.number: v.timestamp for v in dev.log()}
    assert list(moments) == [*on_dev[::-1], 201, *on_main[::-1]]
    for number in (on_main[3], on_main[-1], 201, on_dev[0], on_dev[100], on_dev[-1]):
        objects.forget()
        assert _reopened(objects, "dev").at(moments[number]).number == number
        assert len(objects.reads) <= 40


def test_every_jump_leads_to_an_ancestor() -> None:
    repository, _ = _store(0)
    history = repository.history
    for n in range(70):
        put(history, "main", {"a": n})
        if n in (10, 40):
            repository.create_branch(f"b{n}")
        if n > 40:
            put(history, "b10", {"b": n})
    for branch in repository.branches():
        line = [entry.number for entry in history.line(history.newest(branch))]
        for depth, number in enumerate(reversed(line), start=1):
            entry = history.entry(number)
            assert entry.depth == depth
            assert entry.jump == 0 or entry.jump in line
            assert entry.jump <= entry.parent < number


def test_one_branch_among_many_does_not_write_the_refs() -> None:
    repository, objects = _store(0)
    for n in range(30):
        repository.create_branch(f"b{n}")
    objects.forget()
    for _ in range(4):
        for n in range(10):
            put(repository.history, f"b{n}", {"a": n})
    assert objects.put_kinds == {"log": 40}
    objects.forget()
    for n in range(30):
        put(repository.history, f"b{n}", {"a": n})
    assert objects.put_kinds["refs"] <= 3
    expected = {f"b{n}": {"a": n} for n in range(30)}
    found = {b: values(_reopened(objects).on_branch(b).at(None)) for b in expected}
    assert found == expected


def test_a_symbol_of_many_columns_is_one_of_its_leaf() -> None:
    repository, objects = _store(100)
    base = repository.history.newest("main")
    wide = dataclasses.replace(state("wide", columns=400), metadata={"note": "x" * 50_000})
    repository.history.commit(base, [Replacement("wide", wide)], "")
    found = _reopened(objects).at(None).snapshot["wide"]
    assert found == dataclasses.replace(wide, changed=2)


def test_an_entry_that_is_read_for_its_place_decodes_no_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository, objects = _store(0)
    for first in range(4):
        put(repository.history, "main", {f"s{n:06}": first for n in range(1_000)})
    decoded = []
    read_change = CommittedChange.read
    monkeypatch.setattr(
        CommittedChange, "read", lambda each: decoded.append(each) or read_change(each)
    )
    again = Repository(objects, "id", read_only=False)
    for number in range(5):  # to where entries of many changes are what the jump leads over
        put(again.history, "main", {"s000001": number})
    assert log_name(3) in objects.reads
    assert not decoded
    assert len(list(again.history.entry(4).changes)) == len(decoded) == 1_000
    assert len(list(again.history.entry(4).changes)) == len(decoded), "they are decoded once"


def test_inner_nodes_stay_while_the_leaves_of_a_large_store_come_and_go() -> None:
    with small_nodes(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("tessel.store.history.tree._CACHED_LEAVES", 8)
        repository, objects = _store(600)
        names = [f"s{7 * n % 600:06}" for n in range(600)]
        for number, name in enumerate(names):
            put(repository.history, "main", {name: number})
    nodes = [name for name in objects.reads if name.startswith("leaf/")]
    assert len(nodes) <= len(names), "one leaf each, and nothing above it"
