"""The plan cache: the same query on the same state of its symbols is planned and asked once.

The planner enters here for each query, also for one that is the input of another. A plan follows
from the segments of its symbols, the query and the options alone, and so do the answers of its
questions. So the cache is a memo of the index of the first symbol in that state, and lives as long;
an entry holds for the same indexes of all symbols that were looked up for it. A plan that is found
has the question that was asked, for people, and the plan that its answer made.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from tessel.clauses.base import Clause
from tessel.clauses.combining import Combining, SubQuery
from tessel.errors import TesselError
from tessel.expression.node import hashed
from tessel.lazy import dataclass
from tessel.pipeline.plan import Plan, Question, SourcePlan, is_plugin
from tessel.store.lru_cache import ByteLruCache, LruCache
from tessel.store.manifest.index import SegmentIndex
from tessel.store.view import SymbolView

_MOST_PLANS = 32
"""Of each state of a symbol."""

_MOST_SEGMENTS = 1 << 12
"""A plan takes about a hundred bytes a segment; of more it is made anew."""

_MOST_ANSWER_BYTES = 1 << 20
"""Of all answers of a state of a symbol: a plan made of one of 32,768 keys, 256 KiB, takes 4 MB."""

_PLAN_BYTES = 1 << 12
"""What the plan made of an answer counts as, beside the answer."""

_MEMO, _ANSWERED_MEMO = "plans", "plans made of answers"

_Symbol = tuple[str, int | str | None]
"""A symbol, and the version at which a query sees it."""

_Views = Callable[[str, int | str | None], SymbolView]


def _may_be_cached(plan: Plan) -> bool:
    """Return whether a plan is small, and none of its inputs has a question."""
    return all(
        _may_be_cached(each) and each.question is None
        if isinstance(each, Plan)
        else len(each.index) <= _MOST_SEGMENTS
        for each in plan.inputs
    )


def _with_views(plan: Plan, view_of: Callable[[Any], Any]) -> Plan:
    """Return a plan without its question, and with others in the places of its views.

    Views would keep the repository alive: in the cache their symbols stand in for them.
    """
    inputs = [
        _with_views(each, view_of)
        if isinstance(each, Plan)
        else SourcePlan(view_of(each.view), each.read)
        for each in plan.inputs
    ]
    return Plan(tuple(inputs), plan.stages, plan.schema, plan.changes)


@dataclass(frozen=True, eq=False)
class _Entry:
    """A plan in the cache; where it has a question, also what asks and what the answer made.

    Attributes
    ----------
    asking
        What asks first; None where nothing is asked.
    told
        What the answer saves, and what it is for, as of :class:`~tessel.pipeline.plan.Question`.
    others
        The other symbols that were looked up for it, in the state that it was made for.
    answered
        The cache of what answers made, with bytes, by entry.
    """

    shape: Plan
    asking: Plan | None
    told: tuple[int | None, str]
    others: Mapping[_Symbol, SegmentIndex]
    answered: ByteLruCache[_Entry, tuple[int, Plan]]

    def holds(self, views: _Views) -> bool:
        """Return whether other symbols are in the state that the plan was made for."""
        return all(views(*symbol).index() is index for symbol, index in self.others.items())

    def plan(self, views: _Views, anew: Callable[[], Plan]) -> Plan:
        """Return the plan; one is made anew where an answer must be found after all."""
        seen = functools.partial(_with_views, view_of=lambda symbol: views(*symbol))
        if self.asking is None:
            return seen(self.shape)

        def revise(answer: pa.Table) -> Plan:
            question = anew().question
            assert question is not None  # of the same query on the same state
            return question.revise(answer)

        known = self.answered.get(self)
        answer = None if known is None else seen(known[1])
        question = Question(seen(self.asking), revise, *self.told, answer)
        return dataclasses.replace(seen(self.shape), question=question)

    def learning(self, plan: Plan, found: Mapping[_Symbol, SymbolView]) -> Plan:
        """Return a plan whose question tells this entry what its answer made."""
        question = plan.question
        if question is None:
            return plan

        def revise(answer: pa.Table) -> Plan:
            made = question.revise(answer)
            if made.question is None and _may_be_cached(made):
                known = _with_views(made, _symbol_of(found))
                self.answered.put(self, (_PLAN_BYTES + answer.nbytes, known))
            return self.learning(made, found)

        return dataclasses.replace(plan, question=dataclasses.replace(question, revise=revise))


def cached_plan(
    query: SubQuery,
    options: Hashable,
    views: _Views,
    found: Callable[[], Mapping[_Symbol, SymbolView]],
    make: Callable[[], Plan],
    *,
    asks: bool,
) -> Plan:
    """Return the plan of a query, made now if it is not in the cache.

    Raises TesselError as ``make`` does; nothing is cached then.

    Parameters
    ----------
    query
        The query. Clauses are told apart by their plain form, which tells 1, 1.0 and true apart,
        and by their classes.
    asks
        Whether a question is one of its clauses; who else asks remembers the answers himself.
    """
    index = views(query.symbol, query.as_of).index()
    classes = tuple(_classes(query.clauses))
    # The plain form of a plug-in may forget what it holds, which decides also what it lowers to.
    if len(index) > _MOST_SEGMENTS or any(map(is_plugin, classes)):
        return make()
    try:
        plain = json.dumps([clause.to_json() for clause in query.clauses])
    except (TesselError, TypeError, ValueError):
        return make()  # it has no plain form
    plans: LruCache[Hashable, _Entry] = index.memos.setdefault(_MEMO, LruCache(_MOST_PLANS))
    # The plain form of a million values has tens of megabytes.
    key = hashed(plain.encode()), classes, query.symbol, query.as_of, options

    def made() -> Plan:
        plan = make()
        symbol_of, question = _symbol_of(found()), plan.question
        kept = [plan] if question is None else [plan, question.plan]
        if not all(map(_may_be_cached, kept)) or (question is not None and not asks):
            return plan
        shape, *asking = (_with_views(each, symbol_of) for each in kept)
        first = query.symbol, query.as_of  # whose index has this cache
        others = {symbol: view.index() for symbol, view in found().items() if symbol != first}
        told = (None, "") if question is None else (question.saves, question.purpose)
        answered = index.memos.setdefault(
            _ANSWERED_MEMO, ByteLruCache(_MOST_ANSWER_BYTES, itemgetter(0))
        )
        entry = _Entry(shape, asking[0] if asking else None, told, others, answered)
        plans.put(key, entry)
        return entry.plan(views, make) if question is None else entry.learning(plan, found())

    entry = plans.get(key)
    return made() if entry is None or not entry.holds(views) else entry.plan(views, made)


def _symbol_of(found: Mapping[_Symbol, SymbolView]) -> Callable[[SymbolView], _Symbol]:
    symbols = {id(view): symbol for symbol, view in found.items()}
    return lambda view: symbols[id(view)]


def _classes(clauses: Sequence[Clause]) -> Iterator[type[Clause]]:
    for clause in clauses:
        yield type(clause)
        if isinstance(clause, Combining):
            for other in clause.others:
                yield from _classes(other.clauses)
