"""The site of the docs: what is made of code is as the code says, links lead somewhere."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests import options_page, site_links
from tests.doc_pictures import FOLDER, PICTURES
from tests.test_architecture import links_of

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/reference/*.md")])
ADDRESS = runpy.run_path(str(ROOT / "build_backend" / "project_address.py"))


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_as_the_code_draws_them(name: str) -> None:
    drawn = PICTURES[name]()
    assert (FOLDER / f"{name}.svg").read_text() == drawn, "anew: python -m tests.doc_pictures"


def test_the_list_of_options_is_that_of_the_code() -> None:
    assert options_page.PATH.read_text() == options_page.page(), (
        "write it anew: python -m tests.options_page"
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_print_what_they_hold(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")  # those of the kernel
    monkeypatch.setenv("TESSEL_PROGRESS", "false")  # a slow machine would show a bar
    notebook = nbformat.read(path, as_version=4)
    before = [list(map(_text, cell.get("outputs", ()))) for cell in notebook.cells]
    assert sum(map(len, before)) >= 5
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute()
    after = [list(map(_text, cell.get("outputs", ()))) for cell in notebook.cells]
    assert after == before


def _text(output: nbformat.NotebookNode) -> str:
    return str(output.get("text") or output["data"]["text/plain"])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(path: Path) -> None:
    targets = [link["target"].partition("#")[0] for link in links_of(path)]
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_links_of_the_description_are_absolute() -> None:
    readme = (ROOT / "README.md").read_text()
    address = "https://example.org/team/tessel"
    targets = re.findall(r"\]\(([^)]+)\)", ADDRESS["description"](readme, address))
    assert len(targets) > 30
    assert all(target.startswith("https://") for target in targets)
    start = f"{address}/blob/HEAD/"
    inside = [target.removeprefix(start) for target in targets if target.startswith(start)]
    assert all((ROOT / path.partition("#")[0]).exists() for path in inside)
    assert "](" not in ADDRESS["description"](readme, "")


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({"TESSEL_PROJECT_URL": "https://example.org/a/b/"}, "https://example.org/a/b"),
        (
            {"GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "a/b"},
            "https://example.org/a/b",
        ),
        ({}, ""),
    ],
)
def test_the_address_is_that_of_who_builds(
    variables: dict[str, str], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("TESSEL_", "GITHUB_"))]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ADDRESS["project_address"](tmp_path) == address


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://secret@example.org/a/b.git", "https://example.org/a/b"),
        ("git@example.org:a/b.git", "https://example.org/a/b"),
        ("ssh://git@example.org/a/b", "https://example.org/a/b"),
        ("/somewhere/b.git", None),
        ("../b", None),
    ],
)
def test_remotes_are_read(remote: str, address: str | None) -> None:
    found = ADDRESS["_REMOTE"].match(remote)
    assert (found and f"https://{found[1]}/{found[2]}") == address


def test_a_notebook_becomes_a_page() -> None:
    hooks = pytest.importorskip("mkdocs") and runpy.run_path(str(ROOT / "docs/site_hooks.py"))
    page = hooks["notebook_page"](NOTEBOOKS[0])
    assert page.startswith("# Looking at a day of trades\n\n")
    assert "```python\nimport datetime as dt\n" in page
    assert "```text\n3 rows × 4 columns\n" in page


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="gone.html">x</a>', "index.html links to gone.html, which is not there"),
        ('<a href="#gone">x</a>', "index.html links to #gone, which has no such anchor"),
        (
            '<a href="other.html#gone">x</a>',
            "index.html links to other.html#gone, which has no such anchor",
        ),
        ('<script src="https://cdn.example.org/x.js">', "index.html fetches https://cdn.exam"),
        ('<link rel="stylesheet" href="//fonts.example.org/x">', "index.html fetches //fonts"),
        ('<img src="gone.svg">', "index.html links to gone.svg, which is not there"),
        ('<a href="https://example.org">x</a> <a href="other.html#here">y</a>', None),
    ],
)
def test_faults_of_a_site_are_found(tmp_path: Path, body: str, fault: str | None) -> None:
    (tmp_path / "index.html").write_text(body)
    (tmp_path / "other.html").write_text('<p id="here">')
    found = list(site_links.faults(tmp_path))
    assert found == [] if fault is None else len(found) == 1 and found[0].startswith(fault)
