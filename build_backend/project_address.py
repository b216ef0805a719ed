"""Where the project is, for what is read elsewhere than in its folder: PyPI's page, the site.

No address is written down. The one of the workflow that builds, or of the clone's remote, is that
of the copy that was built, forks included. Without one, links to files become plain text.
"""

from __future__ import annotations

import os
import re
import subprocess
from email.parser import Parser
from pathlib import Path

_LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s:#]+)(?P<anchor>#[^)\s]*)?\)")
_REMOTE = re.compile(r"^(?:https://(?:[^@/]*@)?|ssh://git@|git@)([\w.-]+)[:/](.+?)(?:\.git)?/?$")


def project_address(root: Path) -> str:
    """Return the address of the repository's page, ``""`` where none is known."""
    given = os.environ.get("TESSEL_PROJECT_URL", "")
    if not given and os.environ.get("GITHUB_REPOSITORY"):
        given = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
    if not given and (root / ".git").exists():
        asked = ["git", "-C", str(root), "remote", "get-url", "origin"]
        found = _REMOTE.match(subprocess.run(asked, capture_output=True, text=True).stdout.strip())
        given = f"https://{found[1]}/{found[2]}" if found else ""
    return given.rstrip("/")


def source_link(address: str, path: str) -> str:
    """Return the address of a file or folder of the repository; ``""`` without an address."""
    return f"{address}/blob/HEAD/{path}" if address else ""


def description(readme: str, address: str) -> str:
    """Return a README whose links to files are absolute, or plain text without an address."""

    def absolute(link: re.Match[str]) -> str:
        to = source_link(address, link["target"])
        return f"[{link['text']}]({to}{link['anchor'] or ''})" if to else link["text"]

    return _LINK.sub(absolute, readme)


def published(root: Path) -> tuple[str, dict[str, str]]:
    """Return the description and the URLs of the distribution; those of an sdist are in it."""
    if (root / "PKG-INFO").exists():
        told = Parser().parsestr((root / "PKG-INFO").read_text(encoding="utf-8"))
        pairs = (each.split(", ", 1) for each in told.get_all("Project-URL", []))
        return str(told.get_payload()), dict(pairs)
    address = project_address(root)
    files = {"Documentation": "docs/index.md", "Changelog": "CHANGELOG.md"}
    urls = {name: source_link(address, path) for name, path in files.items()}
    urls |= {"Source": address, "Issues": f"{address}/issues"}
    readme = (root / "README.md").read_text(encoding="utf-8")
    return description(readme, address), urls if address else {}
