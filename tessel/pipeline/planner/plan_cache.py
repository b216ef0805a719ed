"""The plan cache: the same query on the same state of its symbols is planned and asked once.

The planner enters here for each query, also for one that is the input of another. A plan follows
from the segments of its symbols, the query and the options alone, and so do the answers of its
questions. So the cache is a memo of the index of the first symbol in that state, and lives as long;
an entry holds for the same indexes of all symbols that were looked up for it. A plan that is found
has the question that was asked, for people, and the plan that its answer made.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Self

import pyarrow as pa

from tessel.clauses.base import Clause
from tessel.clauses.combining import Combining, SubQuery
from tessel.errors import TesselError
from tessel.expression.node import hashed
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.pipeline.plan import Change, Plan, Question, SourcePlan, SourceUnits, Stage, is_plugin
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


@dataclass(frozen=True, slots=True, eq=False)
class _CachedPlan:
    """A plan without its question and its views, which would keep the repository alive."""

    inputs: tuple[tuple[_Symbol, SourceUnits] | _CachedPlan, ...]
    stages: tuple[Stage, ...]
    schema: TableSchema
    changes: tuple[Change, ...]

    @classmethod
    def of(cls, plan: Plan, symbols: Mapping[int, _Symbol]) -> Self | None:
        """Return the form of a plan in the cache; None for a plan that cannot be cached."""
        inputs: list[tuple[_Symbol, SourceUnits] | _CachedPlan] = []
        for each in plan.inputs:
            if isinstance(each, Plan):
                part = None if each.question is not None else cls.of(each, symbols)
                if part is None:
                    return None
                inputs.append(part)
            elif len(each.index) > _MOST_SEGMENTS:
                return None
            else:
                inputs.append((symbols[id(each.view)], each.read))
        return cls(tuple(inputs), plan.stages, plan.schema, plan.changes)

    def plan(self, views: _Views) -> Plan:
        """Return the plan on views of its symbols."""
        inputs: list[SourcePlan | Plan] = []
        for each in self.inputs:
            if isinstance(each, _CachedPlan):
                inputs.append(each.plan(views))
            else:
                symbol, read = each
                inputs.append(SourcePlan(views(*symbol), read))
        return Plan(tuple(inputs), self.stages, self.schema, self.changes)


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

    shape: _CachedPlan
    asking: _CachedPlan | None
    told: tuple[int | None, str]
    others: Mapping[_Symbol, SegmentIndex]
    answered: ByteLruCache[_Entry, tuple[int, _CachedPlan]]

    def holds(self, views: _Views) -> bool:
        """Return whether other symbols are in the state that the plan was made for."""
        return all(views(*symbol).index() is index for symbol, index in self.others.items())

    def plan(self, views: _Views, anew: Callable[[], Plan]) -> Plan:
        """Return the plan; one is made anew where an answer must be found after all."""
        plan = self.shape.plan(views)
        if self.asking is None:
            return plan

        def revise(answer: pa.Table) -> Plan:
            question = anew().question
            assert question is not None  # of the same query on the same state
            return question.revise(answer)

        known = self.answered.get(self)
        answer = None if known is None else known[1].plan(views)
        question = Question(self.asking.plan(views), revise, *self.told, answer)
        return dataclasses.replace(plan, question=question)

    def learning(self, plan: Plan, found: Mapping[_Symbol, SymbolView]) -> Plan:
        """Return a plan whose question tells this entry what its answer made."""
        question = plan.question
        if question is None:
            return plan

        def revise(answer: pa.Table) -> Plan:
            made = question.revise(answer)
            known = None if made.question else _CachedPlan.of(made, _symbols(found))
            if known is not None:
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
        symbols, question = _symbols(found()), plan.question
        shape = _CachedPlan.of(plan, symbols)
        asking = None if question is None else _CachedPlan.of(question.plan, symbols)
        if shape is None or (question is not None and (asking is None or not asks)):
            return plan
        first = query.symbol, query.as_of  # whose index has this cache
        others = {symbol: view.index() for symbol, view in found().items() if symbol != first}
        told = (None, "") if question is None else (question.saves, question.purpose)
        answered = index.memos.setdefault(
            _ANSWERED_MEMO, ByteLruCache(_MOST_ANSWER_BYTES, itemgetter(0))
        )
        entry = _Entry(shape, asking, told, others, answered)
        plans.put(key, entry)
        return entry.plan(views, make) if question is None else entry.learning(plan, found())

    entry = plans.get(key)
    return made() if entry is None or not entry.holds(views) else entry.plan(views, made)


def _symbols(found: Mapping[_Symbol, SymbolView]) -> dict[int, _Symbol]:
    return {id(view): symbol for symbol, view in found.items()}


def _classes(clauses: Sequence[Clause]) -> Iterator[type[Clause]]:
    for clause in clauses:
        yield type(clause)
        if isinstance(clause, Combining):
            for other in clause.others:
                yield from _classes(other.clauses)
