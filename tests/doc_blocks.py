"""Finds the code blocks of a Markdown file, and runs them."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(?P<language>\w*)[ ]*\n(?P<text>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
_PRINTS = "# prints"


@dataclass(frozen=True)
class Block:
    """A Python block of a document.

    Attributes
    ----------
    path, line
        Where its first line of code is, from 1.
    code
        Its text.
    prints
        What it must print, exactly: the ``text`` block after one whose last line is ``# prints``;
        None where that is not said.
    """

    path: Path
    line: int
    code: str
    prints: str | None


def blocks_of(path: Path) -> list[Block]:
    """Return the Python blocks of a file, in order.

    Raises
    ------
    ValueError
        For a block that ends in ``# prints`` without a ``text`` block as the next one.
    """
    text = path.read_text(encoding="utf-8")
    fences = list(_FENCE.finditer(text))
    return list(_python_blocks(path, text, fences))


def _python_blocks(path: Path, text: str, fences: list[re.Match[str]]) -> Iterator[Block]:
    for place, fence in enumerate(fences):
        if fence["language"] != "python":
            continue
        line = text.count("\n", 0, fence.start("text")) + 1
        prints = None
        if fence["text"].rstrip().endswith(_PRINTS):
            after = fences[place + 1] if place + 1 < len(fences) else None
            if after is None or after["language"] != "text":
                raise ValueError(f"{path}:{line}: '{_PRINTS}' without a text block after it")
            prints = after["text"]
        yield Block(path, line, fence["text"], prints)


def run_blocks(blocks: list[Block]) -> None:
    """Run the blocks of one file in one namespace; errors show the line of the document.

    Raises
    ------
    AssertionError
        For a block that prints something other than the document says.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        # Blank lines before the code make its line numbers those of the document.
        code = compile(
            "\n" * (block.line - 1) + block.code, str(block.path), "exec", dont_inherit=True
        )
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        if block.prints is not None:
            assert _trimmed(printed.getvalue()) == _trimmed(block.prints), (
                f"{block.path}:{block.line} prints something else"
            )


def _trimmed(text: str) -> list[str]:
    """Return the lines without the spaces at their ends, which editors remove from documents."""
    return [line.rstrip() for line in text.rstrip().splitlines()]
