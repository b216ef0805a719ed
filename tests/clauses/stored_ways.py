"""Queries answered on what is stored, and again on values: what the tests of both ways share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tessel.clauses import QueryBuilder
from tessel.clauses.running import late_reading, source_loader
from tessel.options import options
from tessel.store import CandidateRows
from tessel.store.manifest.held_columns import HeldColumns
from tessel.testing.tables import bits
from tests.clauses.helpers import SETTINGS, answer, events, stored

__all__ = ["both_ways", "by_values"]


@contextlib.contextmanager
def by_values() -> Iterator[None]:
    """Leave everything to values."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (late_reading, source_loader):
            patch.setattr(module, "reduce_stored", lambda *given, **named: None)
        patch.setattr(late_reading, "_coded", lambda clauses: frozenset())
        patch.setattr(CandidateRows, "_encoded", lambda *given: None)
        patch.setattr(HeldColumns, "gathered", lambda *given: {})
        yield


def both_ways(table: pa.Table, query: QueryBuilder, rows: int, profile: str = "fast") -> bool:
    """Compare the answers of both ways; return whether a unit was reduced as it is stored."""
    with options(profile=profile):
        store = stored(table, index="t", rows=rows, columns=20)
    with events("clause.process") as seen:
        found = answer(store, query, [SETTINGS[0], SETTINGS[2]])
    with by_values():
        wanted = answer(store, query, [SETTINGS[0]])
    assert found.schema.equals(wanted.schema)
    for name in wanted.column_names:
        assert bits(found.column(name)) == bits(wanted.column(name)), name
    return any(event.attributes.get("stored") for event in seen)
