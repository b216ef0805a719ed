"""How single values are shown, and how wide text is: what all renderers agree on."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from decimal import Decimal

from tessel.display.documents import Facts, Node, Span

ELLIPSIS = "…"
"""Stands for what is not shown; as a cell it fits in a column of any kind."""


def cell_text(value: object) -> str:
    """Return a value as one line: ``null`` for missing, unprintable characters escaped."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def facts_text(facts: Facts) -> str:
    """Return facts as ``name=value`` with a comma between."""
    return ", ".join(f"{name}={cell_text(value)}" for name, value in facts)


def labelled_lines(told: Node | Span) -> list[str]:
    """Return the label and the facts of a box or a span, one a line."""
    return [cell_text(told.label), *(f"{name}: {cell_text(value)}" for name, value in told.facts)]


def is_numeric(values: Iterable[object]) -> bool:
    """Return whether all values are numbers, missing values and ellipses aside."""
    told = [value for value in values if value is not None and value != ELLIPSIS]
    return bool(told) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in told
    )


def text_width(text: str) -> int:
    """Return how many cells of a terminal a line takes (Unicode Standard Annex 11)."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def shortened(text: str, width: int) -> str:
    """Return the text, or the start of it and an ellipsis where it is wider than ``width``."""
    if text_width(text) <= width:
        return text
    kept, used = [], text_width(ELLIPSIS)
    for character in text:
        used += text_width(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS


def axis_text(value: float) -> str:
    """Return a place on an axis, of five digits or as a whole number."""
    return f"{value:,.0f}" if value >= 10_000 else f"{value:,.5g}"
