"""Stores of many segments that nobody can read: real manifests of segments that do not exist."""

from __future__ import annotations

import dataclasses
import secrets

import numpy as np
import pyarrow as pa

from tessel.expression.schema import TableSchema
from tessel.store.history.changes import Replacement
from tessel.store.history.symbol import ManifestEntry, SymbolState
from tessel.store.manifest.format import SEGMENTS_SCHEMA, encode_manifest
from tessel.store.names import new_id, new_name
from tessel.store.repository import Repository

__all__ = ["SCHEMA", "simulate", "simulate_symbols"]

MANIFEST_SEGMENTS = 1_000_000
SCHEMA = TableSchema(pa.schema([("t", pa.int64())]), "t")


def simulate(
    repository: Repository, symbol: str, segments: int, schema: TableSchema = SCHEMA
) -> None:
    """Make a symbol of so many segments of one row each, which nobody can read.

    Row n has the time n, in the unit of the index of ``schema``.
    """
    identity = secrets.randbits(63)
    extents = []
    for start in range(0, segments, MANIFEST_SEGMENTS):
        count = min(MANIFEST_SEGMENTS, segments - start)
        name = new_name("man")
        data, reference = encode_manifest(name, _segments(identity, start, count), {})
        repository.objects.put_if_absent(name, data)
        extents.append(
            ManifestEntry(reference, count, count, start, start + count - 1, set="default")
        )
    state = SymbolState(identity, schema, {"t": 0}, 1, segments, tuple(extents))
    repository.history.commit(repository.at(None), [Replacement(symbol, state)], "simulate")


def _segments(symbol: int, start: int, count: int) -> pa.Table:
    numbers = np.arange(start, start + count)
    ones = np.ones(count, dtype=np.int64)
    place = new_id()
    columns = {
        "symbol": np.full(count, symbol, dtype=np.uint64),
        "row_count": ones,
        "row_offset": ones * 0,
        "column_from": ones * 0,
        "column_to": ones,
        "object": pa.array([place] * count, pa.binary(16)),
        "offset": numbers * 512,
        "length": ones * 512,
        "checksum": (numbers % 2**32).astype(np.uint32),
        "metadata_start": ones * 256,
        "first_time": numbers,
        "last_time": numbers,
        "begins": np.ones(count, dtype=bool),
    }
    return pa.table([pa.array(columns[n]) for n in SEGMENTS_SCHEMA.names], schema=SEGMENTS_SCHEMA)


def simulate_symbols(repository: Repository, count: int) -> None:
    """Make symbols without rows in one commit, all but one of them for company."""
    empty = SymbolState(0, SCHEMA, {"t": 0}, 1)
    changes = [
        Replacement(f"s{number:07}", dataclasses.replace(empty, id=secrets.randbits(63)))
        for number in range(count)
    ]
    repository.history.commit(repository.at(None), changes, "simulate")
