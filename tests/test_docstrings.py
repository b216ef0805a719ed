"""Every public verb has a docstring of numpydoc with an example, and the examples are true.

Each runs after the block of ``docs/reference/index.md``, which is what readers are told.
"""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tessel as ts
from tests.doc_blocks import blocks_of

REFERENCE = Path(__file__).parents[1] / "docs" / "reference" / "index.md"
OWNERS = (ts.Store, ts.LazyTable, ts.QueryBuilder, ts.Result, ts.Expression)
FUNCTIONS = ("coalesce", "col", "from_spark", "lit", "open", "parse", "when", "where")
BEHIND_THE_VERBS = {
    # What an operator of an expression states, and what the parts of the package ask of a store.
    *("check", "compute", "fitted", "label", "of", "pieces", "signature"),
    *("check_writable", "known_configuration", "manifest"),
}


def _documented() -> Iterator[Any]:
    seen = set()
    for owner in OWNERS:
        for name in sorted(vars(owner).keys() | {*dir(owner)}):
            member = inspect.getattr_static(owner, name, None)
            function = inspect.unwrap(getattr(member, "__func__", member)) if member else None
            hidden = owner is not ts.Store and name == "check"
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            if (name in BEHIND_THE_VERBS and (hidden or name != "check")) or function in seen:
                continue
            seen.add(function)
            yield _case(function, f"{owner.__name__}.{name}")
    for name in FUNCTIONS:
        function = inspect.unwrap(getattr(ts, name))
        yield _case(function, name)


def _case(function: Any, name: str) -> Any:
    """Return the case of a function; tests that use the session have it in their names."""
    if "spark" in _example(function):
        return pytest.param(function, id=f"{name} on spark", marks=pytest.mark.spark)
    return pytest.param(function, id=name)


def _example(function: Any) -> str:
    return (inspect.getdoc(function) or "").partition("Examples\n--------\n")[2]


VERBS = list(_documented())


def test_there_are_as_many_as_people_can_call() -> None:
    assert len(VERBS) > 160


@pytest.mark.parametrize("function", VERBS)
def test_the_example_is_there_and_true(
    function: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks_of(REFERENCE):
        exec(block.code, names)
    example = _example(function)
    if "spark" in example:
        names["spark"] = request.getfixturevalue("spark")
    assert ">>> " in example, f"the docstring of {function.__qualname__} has no example"
    parsed = doctest.DocTestParser().get_doctest(example, names, function.__qualname__, None, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(parsed, out=said.append, clear_globs=False)
    assert not runner.failures, "".join(said)


def test_a_false_example_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> None:
        """Do something.

        Examples
        --------
        >>> trades.count()
        5
        """

    with pytest.raises(AssertionError, match=r"Expected:\n +5\n +Got:\n +4"):
        test_the_example_is_there_and_true(wrong, tmp_path, monkeypatch, None)  # type: ignore[arg-type]


def test_parameters_are_told_under_their_names() -> None:
    """A section of parameters names parameters of the function, and no others."""
    faults = []
    for each in VERBS:
        (function,) = each.values
        text = inspect.getdoc(function) or ""
        section = text.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
        known = set(inspect.signature(function).parameters)
        for line in section.splitlines():
            if line and not line.startswith(" "):
                faults += [
                    f"{function.__qualname__}: {name}"
                    for name in line.split(", ")
                    if name not in known
                ]
    assert faults == []
