"""What mkdocs does not know: notebooks are pages, and links to the source leave the site.

Pages that ``mkdocs.yml`` does not place (each decision, and a page that is new) are placed here, so
that none is built without a way to it.
"""

from __future__ import annotations

import posixpath
import re
import runpy
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_ADDRESS = runpy.run_path(str(ROOT / "build_backend" / "project_address.py"))
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Place the pages that the navigation leaves out, and name the project's address if known."""
    placed = set(_paths(config.nav))
    docs = Path(config.docs_dir)
    config.nav[-1]["Inside"] += [
        {"Decisions": sorted(f"decisions/{path.name}" for path in docs.glob("decisions/0*.md"))}
    ]
    config.nav[-2]["Reference"] += sorted({path.name for path in docs.glob("*.md")} - placed)
    config.repo_url = config.repo_url or _ADDRESS["project_address"](ROOT) or None
    return config


def _paths(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [
        path for each in (nav.values() if isinstance(nav, dict) else nav) for path in _paths(each)
    ]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make a page of each notebook."""
    for path in sorted(Path(config.docs_dir).glob("notebooks/*.ipynb")):
        name = f"notebooks/{path.stem}.md"
        files.append(File.generated(config, name, content=notebook_page(path)))
    return files


def notebook_page(path: Path) -> str:
    """Return a notebook as Markdown: its text, its code, and the outputs that it holds."""
    parts: list[str] = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links to what is no page of the site links to the source, or plain text."""
    folder = posixpath.dirname(page.file.src_uri)

    def rewritten(link: re.Match[str]) -> str:
        target = link["target"]
        if ":" in target:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if target.endswith(".ipynb"):
            return f"[{link['text']}]({target.removesuffix('.ipynb')}.md)"
        if not path.startswith("../"):
            return link[0]  # mkdocs checks it
        if not (ROOT / "docs" / path).exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {target}, which does not exist")
        to = _ADDRESS["source_link"](config.repo_url or "", path.removeprefix("../"))
        return f"[{link['text']}]({to})" if to else link["text"]

    return _LINK.sub(rewritten, markdown)
