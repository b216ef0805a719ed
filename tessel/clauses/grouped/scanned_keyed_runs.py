"""Partial tables of time buckets by key from rows as they are stored: runs, then groups in each.

A bucket is a run of rows, whose edges are searched for; inside of it a group's number is arithmetic
on codes, and one kernel reduces all groups of the run. That is for buckets in which most keys occur
several times; of shorter ones, and of what no facts make, the answer is None, and the unit is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.buckets.base import Bucketer
from tessel.clauses.grouped.scanned_runs import stored_runs
from tessel.clauses.grouped.stored_facts import all_from_facts, ask_facts
from tessel.clauses.grouped.stored_keys import few_groups, key_values
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.kernels.fields import Fact
from tessel.kernels.group_sums import GroupSums, group_sums
from tessel.store.manifest.batch import Batch

__all__ = ["scanned_keyed_runs"]

Integers = NDArray[np.int64]

_ROWS_A_GROUP = 2
"""Shorter runs, for each of their groups, cost more to clear and to look through than to add up."""


def scanned_keyed_runs(
    rows: Batch,
    bucketer: Bucketer,
    keys: Sequence[str],
    aggregates: Sequence[NamedAggregate],
    *,
    drop_missing: bool,
) -> tuple[Integers, list[pa.Array], list[pa.Array]] | None:
    """Return bucket, keys and states of all groups that have rows; maybe None.

    Parameters
    ----------
    rows
        Not read yet; their index never goes back.
    bucketer
        The buckets.
    keys, aggregates
        Of the resample.
    drop_missing
        Whether rows with a missing key fall away.

    Returns
    -------
    tuple or None
        The bucket of each group, int64, in order of first appearance; the values of each key, and
        the states of all aggregates.
    """
    schema = rows.schema
    if schema.index is None or not all_from_facts(aggregates):
        return None
    inputs = [name for each in aggregates for name in each.inputs]
    opened = rows.open([schema.index, *keys, *inputs])
    if opened is None or len(opened.spans) != 1:
        return None
    runs = stored_runs(opened, opened.spans[0], schema.index, bucketer)
    grouped = few_groups(opened, keys, schema, drop_missing=drop_missing)
    facts = ask_facts(opened, aggregates, schema)
    if runs is None or grouped is None or facts is None:
        return None
    numbers, starts = runs
    groups = grouped.groups
    if len(numbers) * groups * _ROWS_A_GROUP > opened.rows:
        return None
    span, program = opened.spans[0], opened.program.program()
    found: list[GroupSums] = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), span.stop], strict=True):
        run = group_sums(
            [span.cut(start, stop)],
            program,
            select=grouped.select,
            group=grouped.register,
            groups=groups,
            fields=facts.fields,
            last=facts.needs_last,
        )
        if run is None:
            return None
        found.append(run)
    counts = np.concatenate([run.counts for run in found])
    first = np.concatenate([run.first_row for run in found])
    there = np.flatnonzero(counts)
    order = there[np.argsort(first[there], kind="stable")]
    joined = [_joined(found, field, order) for field in range(len(facts.fields))]
    last = None
    if facts.needs_last:
        last = np.concatenate([cast(Integers, run.last_row) for run in found])[order]
    made = facts.found(joined, counts[order], first[order], last)
    if made is None:
        return None
    run_of, codes = np.divmod(order, groups)
    return numbers[run_of], key_values(grouped.keys, codes), facts.states(made)


def _joined(found: Sequence[GroupSums], field: int, order: Integers) -> Fact:
    """Return a fact of the groups of all runs, one run after the other, for some of them."""
    facts = [run.facts[field] for run in found]
    if not isinstance(facts[0], dict):
        return np.concatenate(cast(list[NDArray[np.float64]], facts))[order]
    sums = cast(list[dict[int, Integers]], facts)
    nothing = np.zeros_like(found[0].counts)
    places = sorted(set().union(*sums))
    return {
        place: np.concatenate([own.get(place, nothing) for own in sums])[order] for place in places
    }
