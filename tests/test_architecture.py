"""Every file and name that ``docs/architecture.md`` links to exists; no part is left out."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"

_FENCE = re.compile(r"^```.*?^```[ ]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s]+)\)(?P<names>(?::? ?`[^`\n]+`,?)*)")
_CODE = re.compile(r"`([^`\n]+)`")
_ELSEWHERE = ("http://", "https://", "mailto:", "#")


def links_of(page: Path) -> Iterator[re.Match[str]]:
    """Give the links of a page to files, each with the names in code font directly behind it."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in _LINK.finditer(text):
        if not link["target"].startswith(_ELSEWHERE):
            yield link


def faults_of(page: Path) -> list[str]:
    """Return what is wrong with the links of a page: absent files, other paths, unknown names."""
    faults: list[str] = []
    for link in links_of(page):
        target = link["target"].partition("#")[0]
        path = (page.parent / target).resolve()
        if not path.exists():
            faults.append(f"{target} does not exist")
            continue
        shown = link["text"].strip("`")
        if shown != link["text"] and not f"/{path.as_posix()}".endswith(f"/{shown.rstrip('/')}"):
            faults.append(f"{shown} is shown for {target}")
        names = set(_CODE.findall(link["names"]))
        known = defined_in(path) if path.suffix == ".py" else frozenset[str]()
        faults += [f"{target} has no {name}" for name in sorted(names - known)]
    return faults


@functools.cache
def defined_in(path: Path) -> frozenset[str]:
    """Return the names that a module defines; those of a class begin with it: ``Class.method``."""
    return frozenset(_names(ast.parse(path.read_text(encoding="utf-8")).body))


def _names(body: list[ast.stmt], outer: str = "") -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.ClassDef(name=name):
                yield outer + name
                yield from _names(statement.body, f"{outer}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield outer + name
            case ast.Assign(targets=targets):
                yield from (outer + each.id for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield outer + name


def test_every_link_and_name_exists() -> None:
    assert faults_of(PAGE) == []


def test_there_is_something_to_check() -> None:
    links = list(links_of(PAGE))
    assert len(links) > 200
    assert sum(len(_CODE.findall(link["names"])) for link in links) > 150


def test_every_part_is_in_the_table_of_parts() -> None:
    section = PAGE.read_text(encoding="utf-8").split("### What each part is for")[1]
    table = section.partition("\n### ")[0]
    told = {link["target"].rstrip("/") for link in _LINK.finditer(table)}
    package = ROOT / "tessel"
    parts = [path.parent for path in package.glob("*/__init__.py")]
    parts += [path for path in package.glob("*.py") if path.name != "__init__.py"]
    assert sorted(path.name for path in parts if f"../tessel/{path.name}" not in told) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[`page.py`](gone.py)", "gone.py does not exist"),
        ("[`other.py`](page.py)", "other.py is shown for page.py"),
        ("[`page.py`](page.py): `Page`, `Page.gone`", "page.py has no Page.gone"),
        ("[`page.py`](page.py) `gone`", "page.py has no gone"),
        ("[the folder](.): `Page`", ". has no Page"),
    ],
)
def test_a_wrong_link_or_name_is_found(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "page.py").write_text("class Page:\n    rows: int\n    def read(self): ...\n")
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\nIt begins at {text}, and goes on with `anything`.\n")
    assert faults_of(page) == [fault]


def test_right_links_and_names_are_passed(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(
        "LEAST: int = 1\nmost = 2\nclass Page:\n    rows: int\n    def read(self): ...\n"
    )
    page = tmp_path / "page.md"
    page.write_text(
        "[`page.py`](page.py): `Page`, `Page.rows`, `Page.read`, `LEAST`, `most`. `else`\n"
        "[the web](https://example.org/gone.py) [below](#below) [here](page.py#top)\n"
        "```text\n[`gone.py`](gone.py)\n```\n"
    )
    assert faults_of(page) == []
