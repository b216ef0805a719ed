"""Doing to a unit that is read what was bound to its batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from tessel import telemetry
from tessel.clauses.index_values import cut_index
from tessel.ecs import ProcessingUnit
from tessel.store.manifest.batch import Bound, Computed, Conjunct

__all__ = ["columns_of", "done", "runs_of", "unused_after"]


def runs_of(left: Sequence[Bound]) -> Iterator[list[Bound]]:
    """Give steps one by one, but columns of a clause together that read none of each other."""
    run: list[Bound] = []
    made: set[str] = set()
    for each in left:
        if run and (
            each.clause != run[0].clause
            or not isinstance(each, Computed)
            or not made.isdisjoint(columns_of(each))
        ):
            yield run
            run, made = [], set()
        run.append(each)
        if isinstance(each, Computed):
            made.add(each.name)
    if run:
        yield run


def done(run: Sequence[Bound], unit: ProcessingUnit) -> ProcessingUnit:
    """Do to a unit that is read what was bound to its batch."""
    first = run[0]
    with telemetry.span("clause.process", clause=first.clause, unit=unit.ordinal) as facts:
        facts.update(rows_in=unit.num_rows)
        if isinstance(first, Conjunct):
            unit = unit.filter(first.predicate)
        elif isinstance(first, Computed):
            columns = {each.name: each.expression for each in run if isinstance(each, Computed)}
            unit = unit.with_columns(columns)
        else:
            unit = cut_index(unit, first.low, first.high)
        facts.update(rows_out=unit.num_rows)
    return unit


def unused_after(left: Sequence[Bound], wanted: Sequence[str]) -> list[Set[str]]:
    """Return, for each step, the computed columns that neither a later one nor the end reads."""
    needed, found = set(wanted), list[Set[str]]()
    for each in reversed(left):
        used = columns_of(each) | ({each.name} if isinstance(each, Computed) else set())
        found.append(used - needed)
        needed |= used
    computed = {each.name for each in left if isinstance(each, Computed)}
    return [names & computed for names in reversed(found)]


def columns_of(bound: Bound) -> Set[str]:
    """Return the columns that a step reads."""
    if isinstance(bound, Computed):
        return bound.expression.columns()
    return bound.predicate.columns() if isinstance(bound, Conjunct) else frozenset()
