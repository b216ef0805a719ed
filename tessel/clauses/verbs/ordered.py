"""Verbs whose answer for a row depends on the rows around it."""

from __future__ import annotations

from tessel.clauses.verbs.base import Query

__all__ = ["OrderedVerbs"]


class OrderedVerbs(Query):
    """Look at rows in their order."""
