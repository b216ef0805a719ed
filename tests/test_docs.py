"""Every code block of the README and of ``docs/`` runs, and every example does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doc_blocks import blocks_of, run_blocks

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


def _named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_is_something_to_run() -> None:
    assert any(blocks_of(path) for path in DOCUMENTS if path.name == "README.md")
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks_of(path)], ids=_named)
def test_document(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(blocks_of(path))


@pytest.mark.parametrize("path", EXAMPLES, ids=_named)
def test_example(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example prints what it found"


def test_a_block_that_prints_something_else_fails(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("# A\n\n```python\nx = 2\nprint(x)\n# prints\n```\n\n```text\n3\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:4 prints something else"):
        run_blocks(blocks_of(document))


def test_blocks_of_a_file_share_their_names(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "```python\nx = 2\n```\n\n```python\nprint(x)  \n# prints\n```\n```text\n2\n```\n"
    )
    run_blocks(blocks_of(document))


def test_a_promise_without_its_output_is_refused(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("```python\nprint(1)\n# prints\n```\n")
    with pytest.raises(ValueError, match="without a text block"):
        blocks_of(document)


def test_an_error_in_a_block_names_the_line_of_the_document(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("# A\n\n```python\nx = 1\nx.missing\n```\n")
    with pytest.raises(AttributeError) as caught:
        run_blocks(blocks_of(document))
    assert caught.traceback[-1].lineno + 1 == 5
