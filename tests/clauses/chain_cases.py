"""A random chain on two random tables: how it is run and compared, and kept where it differs."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import note
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.expression.schema import TableSchema
from tessel.options import options
from tests.clauses.helpers import SETTINGS, fresh_store
from tests.clauses.reference import Frame, comparable, comparable_table, frame_of, run
from tests.strategies.queries import build, chains, query_tables
from tests.strategies.tables import Segmentation, bits, cut_into_segments

Read = Callable[[Store, QueryBuilder], pa.Table]


def read_here(store: Store, query: QueryBuilder) -> pa.Table:
    return store.read("x", query=query).to_arrow()


@dataclass(frozen=True)
class ChainCase:
    """Symbols as they are cut, and the steps of a query on the symbol ``x``."""

    symbols: dict[str, Segmentation]
    steps: Sequence[Any]

    @classmethod
    def drawn(cls, data: st.DataObject) -> ChainCase:
        tables = {"x": data.draw(query_tables()), "y": data.draw(query_tables(max_rows=8))}
        schemas = {n: TableSchema(t.schema, _index(t)) for n, t in tables.items()}
        steps = data.draw(chains(schemas["x"], others={"y": schemas["y"]}))
        note(repr(build(steps)))
        cuts = {
            name: data.draw(cut_into_segments(table, index=_index(table)))
            for name, table in tables.items()
        }
        return cls(cuts, steps)

    def write(self, store: Store) -> Store:
        for name, cut in self.symbols.items():
            cut.write(store, name)
        return store

    def expected(self) -> Frame:
        frames = {name: frame_of(cut.table, cut.index) for name, cut in self.symbols.items()}
        return run(self.steps, frames, "x")

    def check(
        self,
        under: Sequence[dict[str, int]] = SETTINGS,
        *,
        threads: int = 1,
        store: Store | None = None,
        reads: Sequence[Read] = (read_here,),
    ) -> None:
        """Assert that all settings and ways to read give what the plain interpreter gives.

        Where something differs both tables are kept in files, and the error says where.
        """
        query, expected = build(self.steps), self.expected()
        store = self.write(fresh_store() if store is None else store)
        found: list[pa.Table] = []
        try:
            runs = [(setting, read) for setting in under for read in reads]
            with ThreadPoolExecutor(threads) as pool:
                asked = [
                    pool.submit(copy_context().run, _read_under, store, query, *each)
                    for each in runs
                ]
                found += [each.result() for each in asked]
            for table in found:
                _compare(table, found[0], expected)
            promised = store.schema("x", query)
            assert promised.arrow.equals(found[0].schema, check_metadata=False)
            assert promised.index == expected.index
            assert type(query).from_json(query.to_json()) == query
        except Exception as error:
            error.add_note(f"the tables and the query are kept in {self._keep(query, found)}")
            raise

    def _keep(self, query: QueryBuilder, found: Sequence[pa.Table]) -> Path:
        place = os.environ.get("TESSEL_KEPT") or tempfile.gettempdir()
        folder = Path(tempfile.mkdtemp(prefix="tessel-difference-", dir=place))
        tables = {name: cut.table for name, cut in self.symbols.items()}
        tables |= {f"found-{number}": table for number, table in enumerate(found)}
        for name, table in tables.items():
            with pa.ipc.new_file(folder / f"{name}.arrow", table.schema) as file:
                file.write_table(table)
        expected = "\n".join(map(repr, comparable(self.expected())))
        cuts = [
            (name, [len(part) for part in cut.parts], cut.segment_rows, cut.segment_columns)
            for name, cut in self.symbols.items()
        ]
        told = [query.to_json(), f"cuts: {cuts}", "expected:", expected, traceback.format_exc()]
        (folder / "told.txt").write_text("\n".join(map(str, told)), encoding="utf-8")
        return folder


def _index(table: pa.Table) -> str | None:
    return "t" if "t" in table.column_names else None


def _read_under(store: Store, query: QueryBuilder, setting: dict[str, int], read: Read) -> pa.Table:
    with options(**setting):
        return read(store, query)


def _compare(table: pa.Table, first: pa.Table, expected: Frame) -> None:
    assert table.schema.equals(first.schema)
    for name in first.column_names:
        assert bits(table.column(name)) == bits(first.column(name)), name
    assert table.column_names == list(expected.columns)
    for ours, wanted in zip(comparable_table(table, expected), comparable(expected), strict=True):
        assert ours == wanted
