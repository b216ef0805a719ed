"""What the tests of clauses share: stores of random tables, runs under many settings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tessel import telemetry
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.options import options
from tessel.pipeline.executor import LocalExecutor, result_table
from tessel.pipeline.planner.planner import PASSES, REQUIRED, Pass, plan_query
from tessel.store import SymbolView
from tests.profiles import SLOW
from tests.strategies.tables import bits

_numbers = itertools.count()

# With no byte at all every step goes through a file, at twenty times the time.
LITTLE = 1 if SLOW else 300

SETTINGS: tuple[dict[str, int], ...] = (
    {"workers": 1},
    {"workers": 2, "inline_bytes": 0},
    {"workers": 4, "inline_bytes": 0, "live_bytes": LITTLE, "hash_bucket_bytes": 64},
    {"workers": 3, "live_bytes": 2_000, "hash_bucket_bytes": 1},
)
"""Settings that no answer may depend on."""


def fresh_store() -> Store:
    """Return an empty store of its own in memory."""
    return open_store(f"memory://clauses-{next(_numbers)}")


def stored(
    table: pa.Table | dict[str, Any], *, index: str | None = None, rows: int = 2, columns: int = 2
) -> Store:
    """Return a store with the symbol ``x``, cut into small segments."""
    store = fresh_store()
    with options(segment_rows=rows, segment_columns=columns):
        store.write("x", pa.table(table) if isinstance(table, dict) else table, index=index)
    return store


def answer(
    store: Store, query: QueryBuilder, under: Sequence[dict[str, int]] = SETTINGS
) -> pa.Table:
    """Return the answer of a query on the symbol ``x``, which must be one under all settings."""
    found = []
    for setting in under:
        with options(**setting):
            found.append(store.read("x", query=query).to_arrow())
    first = found[0]
    for other in found[1:]:
        assert other.schema.equals(first.schema)
        for name in first.column_names:
            assert bits(other.column(name)) == bits(first.column(name)), name
    return first


@contextmanager
def events(name: str) -> Iterator[list[telemetry.Event]]:
    """Collect the events of a name."""
    found: list[telemetry.Event] = []
    with telemetry.subscribe(lambda event: found.append(event) if event.name == name else None):
        yield found


class Latest:
    """A catalog of the newest version of the symbols of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def view(self, symbol: str, as_of: int | None) -> SymbolView:
        return self._store.view(symbol, as_of=as_of)


def answer_of_passes(store: Store, query: QueryBuilder, passes: tuple[Pass, ...]) -> pa.Table:
    """Return the answer on the symbol ``x`` of a plan that only some passes have made."""
    plan = plan_query(Latest(store), SubQuery("x", None, query.clauses), passes=passes)
    return result_table(LocalExecutor().run(plan), plan.schema)


def bare_answer(store: Store, query: QueryBuilder) -> pa.Table:
    """Return the answer of a query run as it is written, with no more than the passes it needs."""
    needed = tuple(each for each in PASSES if each in REQUIRED)
    return answer_of_passes(store, query, needed)


def same_table(found: pa.Table, expected: pa.Table) -> bool:
    """Say whether two tables have the same columns, bit for bit."""
    return found.schema.equals(expected.schema, check_metadata=False) and all(
        bits(found.column(name)) == bits(expected.column(name)) for name in expected.column_names
    )
