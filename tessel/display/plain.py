"""Documents as JSON, for programs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

from tessel.display.documents import (
    Document,
    Edge,
    Facts,
    Graph,
    Lane,
    Lanes,
    Node,
    Part,
    Section,
    Span,
    Table,
    Tree,
)
from tessel.errors import UnsupportedTypeError


def render_json(document: Part) -> str:
    """Return a document as JSON text; each part is an object with its ``kind``.

    Numbers that JSON cannot hold (``nan``, infinities) and values of other types are text.
    """
    return json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False)


def _plain(part: object) -> dict[str, Any]:
    if isinstance(part, str):
        return {"kind": "text", "text": part}
    if not isinstance(part, Table | Tree | Graph | Lanes | Section | Document):
        raise UnsupportedTypeError(f"a {type(part).__qualname__} is no part of a document")
    return {"kind": type(part).__name__.lower(), **_fields(part)}


def _fields(part: Any) -> dict[str, Any]:
    """Return what a part, a node or an edge is made of, its title first."""
    names = [each.name for each in dataclasses.fields(part)]
    names.sort(key=lambda name: name != "title")
    return {name: _HELD.get(name, _value)(getattr(part, name)) for name in names}


def _value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_value(each) for each in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


def _facts(facts: Facts) -> dict[str, Any]:
    return {name: _value(value) for name, value in facts}


def _parts(parts: tuple[Part, ...]) -> list[Any]:
    return [_plain(each) for each in parts]


def _ends(ends: tuple[Node | Edge | Lane | Span, ...]) -> list[Any]:
    return [_fields(each) for each in ends]


_HELD: dict[str, Callable[[Any], Any]] = {
    **{"facts": _facts, "nodes": _ends, "edges": _ends, "lanes": _ends, "spans": _ends},
    **{"children": _parts, "parts": _parts},
}
"""Fields that are no plain values."""
