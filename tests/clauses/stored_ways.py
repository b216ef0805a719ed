"""Queries answered on what is stored, and again on values: what the tests of both ways share."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

import pyarrow as pa
import pytest

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.clauses.units.bound_unit import BoundUnit
from tessel.options import options
from tessel.store import SelectedRows
from tessel.store.manifest.lazy_columns import LazyColumns
from tests.clauses.helpers import SETTINGS, answer, events, fresh_store, stored
from tests.strategies.tables import bits

__all__ = ["both_ways", "by_values"]


@contextlib.contextmanager
def by_values() -> Iterator[None]:
    """Leave everything to values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoundUnit, "reduced_by", lambda *given: None)
        patch.setattr(BoundUnit, "as_codes", lambda unit, names: unit)
        patch.setattr(SelectedRows, "_encoded", lambda *given: None)
        patch.setattr(LazyColumns, "gather", lambda *given: None)
        yield


def _added_later(table: pa.Table, rows: int, later: Collection[str]) -> Store:
    """Return a store to which some columns came with the second half of the rows."""
    store, half = fresh_store(), table.num_rows // 2
    with options(segment_rows=rows, segment_columns=20):
        store.write("x", table.slice(0, half).drop_columns(list(later)), index="t")
        store.append("x", table.slice(half), evolve="add")
    return store


def both_ways(
    table: pa.Table,
    query: QueryBuilder,
    rows: int,
    profile: str = "fast",
    later: Collection[str] = (),
) -> bool:
    """Compare the answers of both ways; return whether units were reduced as they are stored.

    With columns that were added later, whether all were.
    """
    with options(profile=profile):
        if later:
            store = _added_later(table, rows, later)
        else:
            store = stored(table, index="t", rows=rows, columns=20)
    with events("clause.process") as seen:
        found = answer(store, query, [SETTINGS[0], SETTINGS[2]])
    with by_values():
        wanted = answer(store, query, [SETTINGS[0]])
    assert found.schema.equals(wanted.schema)
    for name in wanted.column_names:
        assert bits(found.column(name)) == bits(wanted.column(name)), name
    taken = [event.attributes.get("stored") for event in seen]
    return any(taken) and not (later and False in taken)
