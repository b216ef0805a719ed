"""A random table and a random query, stored and read in many ways, against plain interpreters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import note
from hypothesis import strategies as st

from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder
from tessel.errors import TesselError
from tessel.expression.schema import TableSchema
from tests.clauses.bound_chains import (
    chain_tables,
    drawn_chain,
    drawn_predicate,
    drawn_sink,
    outcome_read_first,
)
from tests.clauses.reference import comparable, comparable_table, frame_of, run
from tests.forms.ways import Reading, Rows, Stored, readings, stored
from tests.strategies.queries import build, chains, query_tables
from tests.strategies.tables import bits

__all__ = ["QUERIES", "WAYS", "check_bound_chain", "check_chain"]

WAYS = 3
"""Ways to store a table, and ways to read each of them."""

QUERIES = 3
"""On one table, where they bind."""

_NUMBERS = "iiinnnpppgggfxuw"
"""Those that kernels take as they are stored come first, and more often."""
_MANY_ROWS = 6_000
_SEEDS = st.integers(0, (1 << 32) - 1)


def _index(table: pa.Table) -> str | None:
    return "t" if "t" in table.column_names else None


def _drawn_rows(data: st.DataObject, table: pa.Table, most: int) -> Rows:
    """Return the rows of a table, now and then many copies of them; some columns begin late."""
    random = np.random.default_rng(data.draw(_SEEDS))
    copies = data.draw(st.sampled_from([0, 0, 300, 300, most]))
    if len(table) and copies:
        rows = np.sort(random.integers(0, len(table), int(random.integers(1, copies))))
        table = table.take(pa.array(rows)).combine_chunks()
    return Rows.of(table, _index(table), random)


@dataclass(frozen=True)
class _Found:
    """What a query gave: names, types and bits, or type and text of an error and its clause."""

    table: pa.Table | None
    outcome: Any


def _found(uri: str, query: QueryBuilder, reading: Reading) -> _Found:
    with reading():
        try:
            found = open_store(uri).read("x", query=query).to_arrow()
        except TesselError as error:
            told = type(error).__name__, error.message, error.context.get("clause")
            return _Found(None, told)
    return _Found(found, [(f.name, f.type, bits(found.column(f.name))) for f in found.schema])


@contextlib.contextmanager
def _told(held: Stored, reading: Reading | None, query: QueryBuilder) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note("\n".join([repr(query), *held.told, repr(reading)]))
        raise


def check_chain(data: st.DataObject) -> None:
    """Check a chain on two symbols against the interpreter in plain Python."""
    small = data.draw(query_tables(max_rows=8))
    symbols = {
        "x": _drawn_rows(data, data.draw(query_tables(max_rows=40)), _MANY_ROWS),
        "y": Rows(small, _index(small)),
    }
    schemas = {n: TableSchema(rows.table.schema, rows.index) for n, rows in symbols.items()}
    others = {"y": schemas["y"]} if len(symbols["x"].table) < 100 else None  # rows multiply
    steps = data.draw(chains(schemas["x"], others=others))
    query, seed = build(steps), data.draw(_SEEDS)
    note(repr(query))
    frames = {name: frame_of(rows.table, rows.index) for name, rows in symbols.items()}
    expected = run(steps, frames, "x")
    wanted = comparable(expected)
    first = None
    for way in range(WAYS):
        held = stored(symbols["x"], seed + way)
        held = Stored(stored(symbols["y"], seed + way, "y", held.store).store, held.told)
        for reading in readings(seed + way, len(symbols["x"].table), WAYS):
            with _told(held, reading, query):
                found = _found(held.store.uri, query, reading)
                assert found.table is not None, found.outcome
                first = found if first is None else first
                assert comparable_table(found.table, expected) == wanted
                _same(found.outcome, first.outcome)
        with _told(held, None, QueryBuilder()):
            _check_all_rows(held.store, symbols["x"])


def _same(found: Any, wanted: Any) -> None:
    """Compare outcomes, column by column, so that what is shown of them is short."""
    assert isinstance(found, list), found
    assert [column[:2] for column in found] == [column[:2] for column in wanted]
    for (name, _, ours), (_, _, theirs) in zip(found, wanted, strict=True):
        assert len(ours) == len(theirs), name
        assert [
            each for each in enumerate(zip(ours, theirs, strict=True)) if len(set(each[1])) > 1
        ] == [], name


def _check_all_rows(store: Store, rows: Rows) -> None:
    """Compare what a symbol holds with the table, bit for bit."""
    found = store.read("x").to_arrow()
    for field in rows.table.schema:
        assert found.schema.field(field.name).type == field.type
        assert bits(found.column(field.name)) == bits(rows.table.column(field.name)), field.name


def check_bound_chain(data: st.DataObject) -> None:
    """Check queries that bind, and may raise, against units that are read before it."""
    rows = _drawn_rows(data, data.draw(chain_tables()), 40_000)
    plain = open_store("memory://")
    plain.write("x", rows.table, index=rows.index)
    queries = [query for _ in range(QUERIES) if (query := _drawn_query(data, plain)) is not None]
    note(repr(queries))
    seed = data.draw(_SEEDS)
    wanted = [outcome_read_first(plain, query) for query in queries]
    for way in range(WAYS):
        held = stored(rows, seed + way)
        for reading in readings(seed + way, len(rows.table), WAYS):
            for query, expected in zip(queries, wanted, strict=True):
                with _told(held, reading, query):
                    found = _found(held.store.uri, query, reading).outcome
                    if isinstance(expected, tuple):
                        assert (found[0], found[2]) == (expected[0], expected[2])
                    else:
                        _same(found, expected)


def _drawn_query(data: st.DataObject, store: Store) -> QueryBuilder | None:
    """Draw a chain, or filters with what kernels do on stored rows; None where it is no query."""
    schema = store.view("x").schema
    try:
        if data.draw(st.integers(0, 3)) == 0:
            return drawn_chain(data.draw, schema)
        query = QueryBuilder()
        # Of few columns it is likely that kernels take all of them as they are stored.
        some = data.draw(st.lists(st.sampled_from(_NUMBERS), min_size=2, max_size=3, unique=True))
        schema = schema.select(["t", *some, data.draw(st.sampled_from("gsd"))])
        for _ in range(data.draw(st.integers(0, 2))):
            query = query.filter(drawn_predicate(data.draw, schema))
        return query.then(*drawn_sink(data.draw, schema).clauses)
    except TesselError:
        return None
