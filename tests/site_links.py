"""Checks a built site: ``python -m tests.site_links FOLDER``. Each link and anchor is there.

Nothing that a browser would fetch by itself is elsewhere: no script, style, font or picture.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["faults"]

_FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
_FOUND_BY_READERS = ("canonical", "next", "prev")


class _Page(HTMLParser):
    """What a page links to, what it fetches, and the anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.anchors |= {named[name] for name in ("id", "name") if name in named}
        if tag == "a" and named.get("href"):
            self.links.add(named["href"])
        target = named.get(_FETCHED.get(tag, ""), "")
        if target and named.get("rel") not in _FOUND_BY_READERS:
            self.fetched.add(target)


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with the pages of a site."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in sorted(pages.items()):
        if path.name == "404.html":
            continue  # its links are absolute: it is served for any address
        name = path.relative_to(site)
        for target in sorted(page.fetched):
            if urlsplit(target).netloc:
                yield f"{name} fetches {target}"
        for target in sorted(page.links | page.fetched):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if to.is_dir():
                to /= "index.html"
            if not to.exists():
                yield f"{name} links to {target}, which is not there"
            elif parts.fragment and to in pages:
                if unquote(parts.fragment) in pages[to].anchors:
                    continue
                yield f"{name} links to {target}, which has no such anchor"
    for path in site.rglob("*.css"):
        if "url(http" in path.read_text(encoding="utf-8"):
            yield f"{path.relative_to(site)} fetches from elsewhere"


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    found = list(faults(folder))
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(list(folder.rglob('*.html')))} pages, {len(found)} faults")
    sys.exit(1 if found else 0)
