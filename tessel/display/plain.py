"""Documents as JSON, for programs."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

from tessel.display.documents import Document, Facts, Graph, Section, Table, Tree
from tessel.display.documents import Part as DocumentPart
from tessel.errors import UnsupportedTypeError

__all__ = ["render_json"]


def render_json(document: DocumentPart) -> str:
    """Return a document as JSON text; each part is an object with its ``kind``.

    Numbers that JSON cannot hold (``nan``, infinities) and values of other types are text.
    """
    return json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False)


@functools.singledispatch
def _plain(part: object) -> Any:
    raise UnsupportedTypeError(f"a {type(part).__qualname__} is no part of a document")


@_plain.register
def _(part: str) -> Any:
    return {"kind": "text", "text": part}


@_plain.register
def _(part: Table) -> Any:
    return {
        "kind": "table",
        "title": part.title,
        "columns": list(part.columns),
        "rows": [[_value(value) for value in row] for row in part.rows],
        "notes": list(part.notes),
    }


@_plain.register
def _(part: Tree) -> Any:
    return {
        "kind": "tree",
        "label": part.label,
        "facts": _facts(part.facts),
        "children": [_plain(child) for child in part.children],
    }


@_plain.register
def _(part: Graph) -> Any:
    return {
        "kind": "graph",
        "title": part.title,
        "nodes": [
            {"name": node.name, "label": node.label, "facts": _facts(node.facts)}
            for node in part.nodes
        ],
        "edges": [
            {"source": edge.source, "target": edge.target, "label": edge.label}
            for edge in part.edges
        ],
    }


@_plain.register(Section)
@_plain.register(Document)
def _(part: Section | Document) -> Any:
    return {
        "kind": "document" if isinstance(part, Document) else "section",
        "title": part.title,
        "parts": [_plain(inner) for inner in part.parts],
    }


def _facts(facts: Facts) -> dict[str, Any]:
    return {name: _value(value) for name, value in facts}


def _value(value: object) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)
