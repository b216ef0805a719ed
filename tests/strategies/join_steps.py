"""Random joins of two schemas, for the random chains of :mod:`tests.strategies.queries`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tessel.clauses.combining import SubQuery
from tessel.clauses.join import Join
from tessel.clauses.join_asof import JoinAsof
from tessel.errors import (
    DuplicateColumnError,
    IndexColumnError,
    PlanError,
    SchemaMismatchError,
)
from tessel.expression.schema import TableSchema

__all__ = ["draw_asof", "draw_join"]

Drawn = tuple[str, dict[str, Any], TableSchema] | None
"""The verb, its arguments but for the other symbol, and the schema after it."""

_REFUSED = (SchemaMismatchError, PlanError, DuplicateColumnError, IndexColumnError)


@st.composite
def draw_join(draw: st.DrawFn, name: str, left: TableSchema, right: TableSchema) -> Drawn:
    """Draw a join with the symbol ``name``; None where the keys are not compared."""
    pairs = draw(_pairs(left, right))
    how: Any = draw(st.sampled_from(["inner", "left", "right", "outer", "semi", "anti"]))
    suffix = draw(st.sampled_from(["_right", "2"]))
    try:
        combined = Join(SubQuery(name), tuple(pairs), how, suffix).combined_schema([left, right])
    except _REFUSED:
        return None
    return "join", {"on": pairs, "how": how, "suffix": suffix}, combined


@st.composite
def draw_asof(draw: st.DrawFn, name: str, left: TableSchema, right: TableSchema) -> Drawn:
    """Draw an as-of join with ``name``; None where times or keys are not compared."""
    by = draw(_pairs(left, right)) if draw(st.booleans()) else []
    direction: Any = draw(st.sampled_from(["backward", "forward", "nearest"]))
    exact = draw(st.booleans())
    clause = JoinAsof(SubQuery(name), None, tuple(by), None, direction, exact)
    try:
        combined = clause.combined_schema([left, right])
    except _REFUSED:
        return None
    return "join_asof", {"by": by, "direction": direction, "exact": exact}, combined


@st.composite
def _pairs(draw: st.DrawFn, left: TableSchema, right: TableSchema) -> list[tuple[str, str]]:
    """Draw one or two pairs of columns, of one name mostly, whose types often go together."""
    both = [(name, name) for name in left.names if name in right]
    of_two = st.tuples(st.sampled_from(left.names), st.sampled_from(right.names))
    pair = st.one_of(st.sampled_from(both), st.sampled_from(both), of_two) if both else of_two
    return draw(st.lists(pair, min_size=1, max_size=2, unique=True))
