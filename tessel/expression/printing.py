"""Writing an expression out: one iterative walk that serves the text form and the plan form.

An operator answers pieces: strings, and `Sub` for its operands. The walk never recurses and stops
at a limit, since a shared sub-expression can stand in the text more often than memory has bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.expression.node import Expression


@dataclass(frozen=True, slots=True)
class Sub:
    """An operand in a piece list; put in parentheses where it binds less than ``precedence``."""

    expression: Expression
    precedence: int = 0


Piece = str | Sub


def limited_text(expression: Expression, limit: int | None) -> str:
    """Return the text form, cut with ``…`` after ``limit`` characters (None: never)."""
    return _written([Sub(expression)], limit, as_label=False)


def limited_label(expression: Expression, limit: int | None) -> str:
    """Return the form that plans show, cut with ``…`` after ``limit`` characters."""
    return _written([Sub(expression)], limit, as_label=True)


def _written(pieces: Iterable[Piece], limit: int | None, *, as_label: bool) -> str:
    out: list[str] = []
    length = 0
    stack = [iter(pieces)]
    while stack:
        piece = next(stack[-1], None)
        if piece is None:
            stack.pop()
        elif isinstance(piece, str):
            out.append(piece)
            length += len(piece)
            if limit is not None and length > limit:
                return "".join(out)[:limit] + "…"
        elif as_label:
            stack.append(iter(piece.expression.label()))
        elif piece.expression.precedence < piece.precedence:
            stack.append(iter(("(", Sub(piece.expression), ")")))
        else:
            stack.append(iter(piece.expression.pieces()))
    return "".join(out)
