"""The argument that is a query: the text of an expression, or a file with a plan as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tessel.cli.files import require_file

__all__ = ["PlanText", "read_plan"]

PlanText = Annotated[
    str,
    typer.Argument(
        metavar="QUERY",
        help="An expression, \"dep_delay > 15 and carrier == 'UA'\", or a plan file (.json).",
        show_default=False,
    ),
]


def read_plan(text: str) -> Any:
    """Return the query that an argument stands for.

    Raises
    ------
    InvalidInputError
        For a file that is absent or not text.
    PlanFormatError, ExpressionError
        For text that is no query.
    """
    import tessel as ts

    if not text.endswith(".json"):
        return ts.QueryBuilder().filter(text)
    return ts.QueryBuilder.from_json(require_file(Path(text)).read_text(encoding="utf-8"))
