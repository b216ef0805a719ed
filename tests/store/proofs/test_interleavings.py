"""Two commits, and two creations of a store, in every order of calls: as if one came first."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from tessel.errors import CommitConflictError, RefExistsError, SymbolNotFoundError, TesselError
from tessel.store import Repository, Transaction
from tessel.store.history import committer
from tessel.store.history.documents import open_store
from tessel.store.maintenance.fsck import check_store
from tessel.store.objects import MemoryObjects, ObjectStore
from tests.store.helpers import read
from tests.store.proofs.interleaving import Run, Writer, all_orders, copied

Act = Callable[[Repository], object]
State = dict[str, tuple[list[dict[str, object]], dict[str, object]]]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a loser try again at once: its turn comes by the order alone."""
    monkeypatch.setattr(committer, "_FIRST_PAUSE_SECONDS", 0)


def _rows(*times: int, x: int = 0) -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "x": pa.array([x] * len(times), pa.int64())})


def _opened(objects: ObjectStore) -> Repository:
    identity = open_store(objects, create=True, read_only=False)
    return Repository(objects, identity.id, read_only=False)


def _found(objects: ObjectStore) -> Repository:
    """Return a store that is known to be there: opening it takes no turns."""
    return Repository(objects, "id", read_only=False)


def _prepared() -> MemoryObjects:
    place = MemoryObjects("memory://prepared")
    repository = _opened(place)
    repository.write("a", _rows(10, 20, 30, 40), index="t")
    repository.write("b", _rows(10, 20), index="t")
    return place


def _in_transaction(*acts: Callable[[Transaction], object]) -> Act:
    def act(repository: Repository) -> object:
        with repository.transaction() as transaction:
            for each in acts:
                each(transaction)
        return transaction.landed

    return act


ACTS: dict[str, Act] = {
    "append a": lambda r: r.append("a", _rows(50, x=1)),
    "append a later": lambda r: r.append("a", _rows(60, 70, x=2)),
    "append b": lambda r: r.append("b", _rows(30, x=3)),
    "write a": lambda r: r.write("a", _rows(1, x=4), index="t"),
    "create c": lambda r: r.write("c", _rows(1, 2, x=5), index="t"),
    "create c too": lambda r: r.write("c", _rows(7, x=6), index="t"),
    "update a": lambda r: r.update("a", _rows(20, 25, x=7)),
    "upsert a": lambda r: r.upsert("a", _rows(40, 45, x=8), keys=["t"]),
    "delete rows of a": lambda r: r.delete_rows("a", rows=(0, 1)),
    "delete a": lambda r: r.delete("a"),
    "rename a to c": lambda r: r.rename_symbol("a", "c"),
    "rename b to c": lambda r: r.rename_symbol("b", "c"),
    "metadata of a": lambda r: r.set_metadata("a", {"who": "me"}),
    "both": _in_transaction(
        lambda tx: tx.append("b", _rows(30, x=9)), lambda tx: tx.delete_rows("a", rows=(2, 4))
    ),
}
PAIRS = list(itertools.combinations_with_replacement(ACTS, 2))
OFTEN = [
    ("append a", "append b"),
    ("append a", "delete a"),
    ("create c", "rename a to c"),
    ("append b", "both"),
]


def _content(repository: Repository) -> State:
    views = [repository.view(name) for name in repository.symbols()]
    return {view.name: (read(view).to_pylist(), dict(view.metadata)) for view in views}


def _one_after_the_other(prepared: MemoryObjects, *acts: str) -> State | None:
    """Return what acts in a row leave; None where one of them is refused."""
    repository = _opened(copied(prepared))
    try:
        for act in acts:
            ACTS[act](repository)
    except TesselError:
        return None
    return _content(repository)


def _check_orders(prepared: MemoryObjects, acts: tuple[str, str], *, every_call: bool) -> None:
    """Check that each order leaves what the acts that landed leave one after the other.

    Whoever is told a version has it; whoever is told an error has changed nothing.
    """
    before = _opened(prepared).newest
    serial = {
        order: _one_after_the_other(prepared, *(acts[number] for number in order))
        for order in ((0, 1), (1, 0), (0,), (1,))
    }
    seen: Counter[tuple[int, ...]] = Counter()
    writers = [lambda objects, act=ACTS[act]: act(_found(objects)) for act in acts]
    for run in all_orders(prepared, writers, every_call=every_call):
        landed = {number: answer for number, answer in enumerate(run.answers) if _won(answer)}
        order = tuple(sorted(landed, key=lambda number: landed[number]))
        repository = _opened(run.place)
        assert sorted(landed.values()) == list(range(before + 1, repository.newest + 1)), run.order
        assert _content(repository) == serial[order], (order, run.order)
        assert check_store(repository).damages == [], run.order
        seen[order] += 1
    assert seen[0, 1] or seen[0,], seen
    assert seen[1, 0] or seen[1,], seen


def _won(answer: object) -> bool:
    if isinstance(answer, TesselError):
        # Too late for what the other one left, or in its way; never anything else.
        assert not isinstance(answer, OSError) or isinstance(answer, CommitConflictError), answer
        return False
    assert isinstance(answer, int)
    return True


@pytest.mark.parametrize("acts", OFTEN)
def test_two_commits_in_every_order(acts: tuple[str, str]) -> None:
    _check_orders(_prepared(), acts, every_call=False)


@pytest.mark.slow
@pytest.mark.parametrize("acts", PAIRS)
def test_any_two_commits_in_every_order(acts: tuple[str, str]) -> None:
    _check_orders(_prepared(), acts, every_call=False)


@pytest.mark.slow
@pytest.mark.parametrize("acts", OFTEN)
def test_two_commits_in_every_order_of_all_their_calls(acts: tuple[str, str]) -> None:
    """Orders of calls that commute are tried here as well: leaving them out loses no state."""
    _check_orders(_prepared(), acts, every_call=True)


# --- creation -------------------------------------------------------------------------------------


def _both_land(run: Run, *symbols: str) -> None:
    repository = _opened(run.place)
    assert sorted(run.answers) == [1, 2], run.order
    assert repository.symbols() == sorted(symbols), run.order
    assert len([name for name in run.place.list() if name == "store.json"]) == 1
    assert check_store(repository).damages == []


def _first_write(symbol: str) -> Writer:
    return lambda objects: _opened(objects).write(symbol, _rows(1, 2), index="t")


@pytest.mark.slow
def test_two_who_make_one_store_and_write_in_every_order() -> None:
    """Both find the same store, and what each writes first is there."""
    orders = 0
    for run in all_orders(MemoryObjects("memory://new"), [_first_write("a"), _first_write("b")]):
        _both_land(run, "a", "b")
        orders += 1
    assert orders > 252


def test_one_identity_whoever_makes_the_store() -> None:
    def make(objects: ObjectStore) -> str:
        return open_store(objects, create=True, read_only=False).id

    orders = 0
    for run in all_orders(MemoryObjects("memory://new"), [make, make]):
        assert len(set(run.answers)) == 1, run.order
        orders += 1
    assert orders >= 20


def test_the_first_two_commits_of_a_store_in_every_order() -> None:
    place = MemoryObjects("memory://new")
    _opened(place)
    writers: list[Writer] = [
        lambda objects: _found(objects).write("a", _rows(1)),
        lambda objects: _found(objects).write("b", _rows(2)),
    ]
    for run in all_orders(place, writers):
        _both_land(run, "a", "b")


# --- tags and branches ----------------------------------------------------------------------------


def _tag(name: str) -> Writer:
    def act(objects: ObjectStore) -> object:
        _found(objects).create_tag(name)
        return name

    return act


def test_two_who_make_one_tag_in_every_order() -> None:
    for run in all_orders(_prepared(), [_tag("t"), _tag("t")]):
        assert Counter(type(answer) for answer in run.answers) == {str: 1, RefExistsError: 1}
        assert list(_opened(run.place).tags()) == ["t"]


def test_a_tag_and_a_commit_in_every_order() -> None:
    append: Writer = lambda objects: ACTS["append a"](_found(objects))  # noqa: E731
    for run in all_orders(_prepared(), [_tag("t"), append]):
        repository = _opened(run.place)
        assert list(repository.tags()) == ["t"]
        assert read(repository.view("a")).num_rows == 5
        assert read(repository.view("a", "t")).num_rows in (4, 5)


def test_who_reads_meanwhile_sees_one_version_or_the_other() -> None:
    """A reader opens, lists and reads two symbols that one commit changes."""

    def look(objects: ObjectStore) -> tuple[int, int, int]:
        repository = _found(objects)
        try:
            version = repository.newest
            return (
                version,
                read(repository.view("a", version)).num_rows,
                read(repository.view("b", version)).num_rows,
            )
        except SymbolNotFoundError as error:
            raise AssertionError("a symbol was gone") from error

    change: Writer = lambda objects: ACTS["both"](_found(objects))  # noqa: E731
    seen = {run.answers[0] for run in all_orders(_prepared(), [look, change])}
    assert seen == {(2, 4, 2), (3, 2, 3)}
