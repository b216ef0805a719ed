"""Answers that stay: ``python -m tests.against_old.golden`` draws queries and keeps their digests.

They were drawn when the version before the change of the engine was compared with; they hold it to
its answers when that version is gone. Drawn anew only where an answer was wrong, with the reason.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.expression.schema import TableSchema
from tessel.options import options
from tests.against_old.worker import answered
from tests.clauses.helpers import SETTINGS, fresh_store
from tests.strategies.queries import build, chains, query_tables

GOLDEN = Path(__file__).with_name("golden")
_PAIRS, _QUERIES_A_PAIR, _LEAST_ROWS, _SEED = 100, 20, 6, 20


@dataclass(frozen=True)
class Pair:
    """Two tables, and what queries on the first one give, as lines of the golden file."""

    tables: dict[str, pa.Table]
    lines: list[dict[str, Any]]

    def store(self, *, rows: int) -> Store:
        """Return a store of the tables, cut into segments of so many rows and two columns."""
        store = fresh_store()
        with options(segment_rows=rows, segment_columns=2):
            for name, table in self.tables.items():
                store.write(name, table, index=_index(table))
        return store


def _index(table: pa.Table) -> str | None:
    return "t" if "t" in table.column_names else None


def told(found: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without what depends on where the store is."""
    return {name: text for name, text in found.items() if name != "hint"}


def kept() -> Iterator[Pair]:
    """Yield what is kept."""
    lines = gzip.decompress((GOLDEN / "queries.jsonl.gz").read_bytes()).decode().splitlines()
    found = [json.loads(line) for line in lines]
    with pa.ipc.open_file(GOLDEN / "tables.arrow") as file:
        held = file.read_all()["table"].to_pylist()
    for number, own in itertools.groupby(found, lambda line: line["pair"]):
        names = zip("xy", held[2 * number : 2 * number + 2], strict=True)
        tables = {name: pa.ipc.open_stream(octets).read_all() for name, octets in names}
        yield Pair(tables, list(own))


def write() -> int:
    """Draw the queries and keep what they give now; return how many."""
    held: list[bytes] = []
    lines: list[str] = []

    @seed(_SEED)
    @settings(
        max_examples=20 * _PAIRS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        tables = {"x": data.draw(query_tables()), "y": data.draw(query_tables(max_rows=8))}
        schemas = {n: TableSchema(t.schema, _index(t)) for n, t in tables.items()}
        if len(tables["x"]) < _LEAST_ROWS or len(held) == 2 * _PAIRS:
            return
        drawn: dict[str, Any] = {}
        for _ in range(2 * _QUERIES_A_PAIR):
            plan = build(data.draw(chains(schemas["x"], others={"y": schemas["y"]}))).to_json()
            if plan["clauses"]:
                drawn[json.dumps(plan)] = plan
        plans = list(drawn.values())[:_QUERIES_A_PAIR]
        if len(plans) < _QUERIES_A_PAIR:  # nor do examples count that hypothesis gave up
            return
        store, number = Pair(tables, []).store(rows=7), len(held) // 2
        for plan in plans:
            found = told(answered(store, plan, SETTINGS[0]))
            lines.append(json.dumps({"pair": number, "query": plan, "found": found}))
        for table in tables.values():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            held.append(sink.getvalue().to_pybytes())

    draw()
    GOLDEN.mkdir(exist_ok=True)
    text = "\n".join(lines).encode()
    (GOLDEN / "queries.jsonl.gz").write_bytes(gzip.compress(text, mtime=0))
    table = pa.table({"table": pa.array(held, pa.binary())})
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(GOLDEN / "tables.arrow", table.schema, options=packed) as file:
        file.write_table(table)
    return len(lines)


if __name__ == "__main__":
    print(f"{write()} queries are kept")
