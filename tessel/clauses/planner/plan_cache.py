"""The plan cache: the same query on the same state of a symbol is planned once.

The planner enters here for each query on one symbol, also for one that is the input of another. A
plan follows from the segments of the symbol, the query and the options alone, so the cache is a
memo of the index of that state and lives as long. Queries over several symbols, and those that ask
a scalar subquery first, are planned anew each time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable

from tessel.clauses.base import Clause
from tessel.clauses.plan import Change, Plan, SourcePlan, Stage, plugins_of
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.lru_cache import LruCache
from tessel.store.manifest.bindings import Bindings
from tessel.store.manifest.index import SegmentIndex
from tessel.store.view import SymbolView

__all__ = ["cached_plan"]

_MOST_PLANS = 32
"""Of each state of a symbol."""

_MOST_SEGMENTS = 1 << 12
"""A plan takes about a hundred bytes a segment; of more it is made anew."""

_MEMO = "plans"


@dataclass(frozen=True, slots=True, eq=False)
class _CachedPlan:
    """A plan on one symbol without its view, which would keep the repository alive."""

    index: SegmentIndex
    units: list[list[int]]
    absorbed: tuple[Clause, ...]
    stages: tuple[Stage, ...]
    schema: TableSchema
    changes: tuple[Change, ...]
    bindings: Bindings

    @classmethod
    def of(cls, plan: Plan) -> _CachedPlan | None:
        """Return the cache entry of a plan; None for a plan that cannot be cached."""
        (source, *others) = plan.inputs
        if plugins_of(plan):  # whose plain form may forget what they hold
            return None
        if others or not isinstance(source, SourcePlan) or plan.question is not None:
            return None
        index, bindings = source.index, Bindings(source.index.schema)
        facts = plan.stages, plan.schema, plan.changes
        return cls(index, source.units, source.absorbed, *facts, bindings)

    def plan(self, view: SymbolView) -> Plan:
        """Return the plan on a view of the symbol."""
        source = SourcePlan(view, self.index, self.units, self.absorbed, self.bindings)
        return Plan((source,), self.stages, self.schema, self.changes)


def cached_plan(
    view: SymbolView,
    clauses: tuple[Clause, ...],
    options: Hashable,
    make: Callable[[], Plan],
) -> Plan:
    """Return the plan of clauses on a symbol, made now if it is not in the cache.

    Parameters
    ----------
    view
        The symbol.
    clauses
        All that run on it. Told apart by their plain form, which tells 1, 1.0 and true apart, and
        by their classes.
    options
        All else that a plan depends on.
    make
        Makes it.

    Raises
    ------
    TesselError
        As ``make`` does; nothing is cached then.
    """
    index = view.index()
    if len(index) > _MOST_SEGMENTS:
        return make()
    try:
        plain = json.dumps([clause.to_json() for clause in clauses])
    except (TesselError, TypeError, ValueError):
        return make()  # it has no plain form
    plans: LruCache[Hashable, _CachedPlan] = index.memos.setdefault(_MEMO, LruCache(_MOST_PLANS))
    # The plain form of a million values has tens of megabytes.
    digest = hashlib.blake2b(plain.encode(), digest_size=16).digest()
    key = digest, tuple(map(type, clauses)), options
    found = plans.get(key)
    if found is not None:
        return found.plan(view)
    plan = make()
    made = _CachedPlan.of(plan)
    if made is None:
        return plan
    plans.put(key, made)
    return made.plan(view)
