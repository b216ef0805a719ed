"""Pass: write clauses that are short for others as those others."""

from __future__ import annotations

from tessel.clauses.base import Clause
from tessel.pipeline.planner.draft import Draft


def desugar(draft: Draft) -> Draft:
    """Replace each clause by what its ``lower`` says, where its own class says it.

    A subclass that inherits ``lower`` is run by its ``process``, which may do something else.
    """
    if not any(map(_is_short, draft.clauses)):
        return draft
    return draft.rewritten(lambda c, schema: c.lower(schema) if _is_short(c) else (c,))


def _is_short(clause: Clause) -> bool:
    return "lower" in vars(type(clause))
