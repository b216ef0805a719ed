"""Wrong arguments of everything public end in one typed error, and change nothing.

Some fifteen calls each of all public functions and methods, with arguments drawn by a fixed seed
from :data:`tests.public_calls.WRONG`: what comes out is a result, one of our errors, or Python's
own ``TypeError`` for a wrong number of arguments and for a keyword that is none.
"""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tessel as ts
from tessel.errors import ArgumentCountError, InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.store import events
from tests.public_calls import (
    LEFT_OUT,
    MADE,
    NOT_CALLED,
    SUBJECTS,
    Call,
    Public,
    World,
    complaint,
    public_calls,
)

CALLS = 15
PUBLIC = public_calls()


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what makes a store of a wrong name make it where it is thrown away."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.filterwarnings("ignore")  # of numpy and pandas, about what they are given
@pytest.mark.parametrize("public", PUBLIC, ids=str)
def test_a_wrong_call_is_one_typed_error_and_changes_nothing(public: Public, world: World) -> None:
    found = [complaint(Call(public, seed), world) for seed in range(CALLS)]
    assert [each for each in found if each is not None] == []


def test_there_are_as_many_calls_as_were_promised() -> None:
    assert len(PUBLIC) * CALLS >= 3000


def _returned(function: Any) -> Iterator[type]:
    """Yield our classes that a function says it returns."""
    if not inspect.isroutine(function):
        return
    try:
        hint = typing.get_type_hints(function).get("return")
    except NameError:
        return
    for each in (hint, *typing.get_args(hint)):
        plain = typing.get_origin(each) or each
        if inspect.isclass(plain) and plain.__module__.startswith("tessel"):
            yield plain


def _kin(one: Any, other: type) -> bool:
    return inspect.isclass(one) and (issubclass(one, other) or issubclass(other, one))


def test_everything_public_is_called() -> None:
    """Every public name, and every class that a public method returns, is called or named."""
    given = {getattr(ts, name) for name in ts.__all__}
    given |= {getattr(events, name) for name in events.__all__}
    for public in PUBLIC:
        given |= set(_returned(public.function))
    called = {*SUBJECTS, *MADE}
    missing = {
        each.__name__
        for each in given
        if callable(each)
        and each not in called
        and each.__name__ not in NOT_CALLED
        and not any(_kin(each, known) for known in SUBJECTS)
    }
    assert sorted(missing) == []


def test_what_is_left_out_exists() -> None:
    owners = {owner.__name__: owner for owner in SUBJECTS}
    for name in LEFT_OUT:
        owner, _, function = name.partition(".")
        assert callable(getattr(owners[owner], function))


@dataclasses.dataclass(frozen=True)
class Held:
    """A dataclass with fields of a type."""

    names: tuple[str, ...] = ()

    def joined(self) -> str:
        return ",".join(self.names)


@checks_arguments
def taking(
    name: str,
    *more: int,
    rows: tuple[int, int] | None = None,
    mode: typing.Literal["a", "b"] = "a",
    types: dict[str, float] | None = None,
    **named: bool,
) -> None:
    """Raise a raw error, whatever is given."""
    raise AttributeError(name)


@pytest.mark.parametrize(
    ("positional", "named", "told"),
    [
        ((1,), {}, "taking: name takes text, not 1"),
        (("\ud800",), {}, "taking: name takes text, not '\\ud800'"),
        (("a", 1, "b"), {}, "taking: more takes a whole number, not 'b'"),
        (("a",), {"rows": (1, 2.5)}, "taking: rows[1] takes a whole number, not 2.5"),
        (("a",), {"rows": 7}, "taking: rows takes (a whole number, a whole number) or None, not 7"),
        (("a",), {"mode": "c"}, "taking: mode takes 'a' or 'b', not 'c'"),
        (("a",), {"types": {"x": "y"}}, "taking: types['x'] takes a number, not 'y'"),
        (("a",), {"other": 3}, "taking: named takes True or False, not 3"),
    ],
)
def test_the_first_argument_that_does_not_fit_is_named(
    positional: tuple[Any, ...], named: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        taking(*positional, **named)
    assert caught.value.message == told
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_fault_that_is_not_of_the_arguments_stays_what_it_is() -> None:
    with pytest.raises(AttributeError, match="a"):
        taking("a", 1, rows=(1, 2), mode="b", types={"x": 1.5}, other=True)


def test_a_call_with_a_wrong_number_of_arguments_is_told_how_it_is_written() -> None:
    with pytest.raises(ArgumentCountError, match="missing a required argument") as caught:
        taking()  # type: ignore[call-arg]
    assert isinstance(caught.value, TypeError)
    with pytest.raises(
        ArgumentCountError, match="multiple values for argument 'columns'"
    ) as caught:
        ts.QueryBuilder().shift(1, columns=["a"])  # type: ignore[misc, arg-type]
    assert caught.value.hint == "the call is shift(columns, n=1, *, by=(), fill=None)"


@pytest.mark.parametrize(
    "kind", [ts.Store, ts.LazyTable, ts.QueryBuilder, ts.Result, ts.Expression]
)
def test_every_public_method_checks_its_arguments(kind: type) -> None:
    names = [name for name in dir(kind) if not name.startswith("_")]
    methods = {name: inspect.getattr_static(kind, name) for name in names}
    plain = {name: each for name, each in methods.items() if inspect.isfunction(each)}
    assert len(plain) > 5
    assert [name for name, each in plain.items() if not hasattr(each, "__wrapped__")] == []


def test_fields_of_a_dataclass_count_as_arguments_of_its_methods() -> None:
    checked = checks_arguments(Held)
    with pytest.raises(InvalidInputError, match=r"joined: names\[1\] takes text, not 2"):
        checked(("a", 2)).joined()  # type: ignore[arg-type]


WITHOUT_HANDLES = """
import os, resource, sys
import tessel as ts
from tessel.errors import ExecutionError, StoreError

store = ts.open(sys.argv[1])
store.write("frame", {"t": list(range(100)), "v": list(range(100))}, index="t")
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
calls = {
    "parse": lambda: ts.parse("v > 1"),
    "filter": lambda: ts.QueryBuilder().filter("v > 1"),
    "symbols": lambda: ts.open(sys.argv[1]).symbols(),
    "read": lambda: ts.open(sys.argv[1]).read("frame").to_pandas(),
    "resample": lambda: store.scan("frame").groupby("v").agg(n="size").collect(),
    "write": lambda: store.write("other", {"v": [1]}),
}
for name, call in calls.items():
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", 0))
    except OSError:
        pass
    try:
        call()
        found = "done"
    except (ExecutionError, StoreError) as error:
        found = "told"
    finally:
        for each in held:
            os.close(each)
    call()
    print(name, found)
"""


def test_what_is_imported_late_without_handles_is_told_and_works_afterwards(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_HANDLES)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "store")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = dict(line.split() for line in done.stdout.splitlines())
    assert set(told.values()) <= {"told", "done"}
    assert told["parse"] == "told"


@pytest.mark.parametrize(
    "call",
    [
        lambda live: live.insert(pa.table({"v": [1]})),
        lambda live: live.table("frame", ["a", "b"]),
        lambda live: live.load("nowhere"),
        lambda live: ts.QueryBuilder().resample("1h", offset=pd.NA).agg(n="size"),
    ],
)
def test_the_raw_errors_that_trials_found(call: Any, world: World) -> None:
    with pytest.raises(ts.TesselError):
        call(world.live)


def test_values_without_end_are_refused_before_arrow_ends_the_process(world: World) -> None:
    endless: list[Any] = []
    endless.append(endless)
    before = world.digest()
    for call in (
        lambda: world.store.write("new", {"v": endless}),
        lambda: world.store.add_column("frame", "new", endless),
        lambda: events.Cell.from_values("angle", endless),
    ):
        with pytest.raises(InvalidInputError, match="nested too deeply"):
            call()
    assert world.digest() == before
