"""Doing to a unit that is read what was bound to its batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import pyarrow as pa

from tessel import telemetry
from tessel.ecs import ProcessingUnit
from tessel.store.manifest.bindings import Bound, Computed, Conjunct

__all__ = ["columns_of", "done", "runs_of", "unused_after"]


def runs_of(left: Sequence[Bound]) -> Iterator[list[Bound]]:
    """Give steps one by one, but columns of a clause together."""
    run: list[Bound] = []
    for each in left:
        are_columns = all(isinstance(step, Computed) for step in (*run[:1], each))
        if run and not (are_columns and each.clause == run[0].clause):
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def done(run: Sequence[Bound], unused: Sequence[Set[str]], unit: ProcessingUnit) -> ProcessingUnit:
    """Do to a unit that is read what was bound to its batch.

    Parameters
    ----------
    run
        One step, or columns of one clause.
    unused
        For each of them the columns that nothing reads after it; they go.
    unit
        A unit that is read.
    """
    from tessel.clauses.index_values import cut_index

    first = run[0]
    with telemetry.span("clause.process", clause=first.clause, unit=unit.ordinal) as facts:
        facts.update(rows_in=unit.num_rows)
        if isinstance(first, Conjunct):
            unit = unit.filter(first.predicate)
        elif isinstance(first, Computed):
            unit = unit.with_columns(_computed(run, unused, unit))
        else:
            unit = cut_index(unit, first.low, first.high)
        facts.update(rows_out=unit.num_rows)
    dropped = frozenset().union(*unused)
    kept = [name for name in unit.schema.names if name not in dropped]
    return unit.select(kept) if len(kept) < len(unit.schema.names) else unit


def _computed(
    run: Sequence[Bound], unused: Sequence[Set[str]], unit: ProcessingUnit
) -> dict[str, pa.ChunkedArray]:
    """Return the columns of a run that something reads behind it."""
    values: dict[str, pa.ChunkedArray] = {}
    for each, dropped in zip(run, unused, strict=True):
        if isinstance(each, Computed):
            values[each.name] = unit.evaluate(each.expression, values)
        for name in dropped:
            values.pop(name, None)
    return values


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
