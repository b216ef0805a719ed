"""What is to run on a unit, as workers are told it: chains of clauses, and steps around them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import concat_tables
from tessel.clauses.base import Clause
from tessel.clauses.registry import find_clause
from tessel.ecs import ProcessingUnit
from tessel.ecs.piece import RowRange
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.pipeline.carrying import Between
from tessel.pipeline.plan import Stage
from tessel.pipeline.stage import bound_stage, nothing_carried, run_between, run_clauses, summarise
from tessel.spark_exec.blobs import PartFacts, damaged_part, decode, encode
from tessel.spark_exec.plugins import load_plugins
from tessel.spark_exec.wire import CARRY_ROWS, WireRow

CUT: Literal["cut"] = "cut"
RENUMBER: Literal["renumber"] = "renumber"
SUMMARY: Literal["summary"] = "summary"
CARRY: Literal["carry"] = "carry"
Step = int | Literal["cut", "renumber", "summary", "carry"]
"""The number of a chain, a cut of the unit's rows, or a new place in plan order.

Of a chain whose first clause carries, ``summary`` before its number takes the summary of the unit
in place of the unit; ``carry`` runs it with what was carried to the unit.
"""
_LENGTH = struct.Struct("<Q")


def carry_row(place: int, between: Between) -> WireRow:
    """Return what lies around the unit of a ``seq`` as a wire row: two parts, the first's length.

    A unit may get several, each of other keys.
    """
    before, after = (
        encode(carry, PartFacts(RowRange(0, carry.num_rows)))
        for carry in (between.before, between.after)
    )
    return WireRow(0, place, CARRY_ROWS, _LENGTH.pack(len(before)) + before + after)


def _between(stage: Stage, blobs: Sequence[bytes]) -> Between:
    """Return what lies around a unit from what wire rows brought to it; nothing without any."""
    nothing = nothing_carried(stage)
    if not blobs:
        return Between(nothing, nothing)
    before, after = [], []
    for blob in blobs:
        if len(blob) < _LENGTH.size:
            raise damaged_part(f"it has {len(blob)} bytes")
        stop = _LENGTH.size + _LENGTH.unpack_from(blob)[0]
        before.append(decode(blob[_LENGTH.size : stop]).table)
        after.append(decode(blob[stop:]).table)
    return Between(concat_tables(before), concat_tables(after))


@dataclass(frozen=True)
class CarryStep:
    """Do something else with a chain (as JSON) than to run it.

    Of a chain whose first clause carries, ``summary`` takes the summary of a unit, ``carry`` runs
    it with what was carried to the unit; ``combine`` combines the parts of a unit by the first
    clause.
    """

    how: Literal["summary", "carry", "combine"]
    chain: str


@dataclass(frozen=True, eq=False)
class Places:
    """Where units are put: one after another, as units of one input.

    Attributes
    ----------
    seqs
        The ``seq`` of each until here, ascending; others are left out.
    symbol
        The number of the input.
    first
        The number of the first unit.
    """

    seqs: NDArray[np.int64]
    symbol: int
    first: int

    def find(self, seq: int) -> tuple[int, int] | None:
        """Return the symbol and the number of a unit; None for one that is left out."""
        at = int(np.searchsorted(self.seqs, seq))
        found = at < len(self.seqs) and self.seqs[at] == seq
        return (self.symbol, self.first + at) if found else None


ReduceStep = str | Mapping[int, tuple[int, int]] | CarryStep | Places
"""A chain as JSON; the cuts ``[start, stop)`` of units by ``seq``, others are left out; or where
units are put from here on."""


@dataclass(frozen=True)
class Chain:
    """Clauses that run one after another on a unit, and the schema before and after each."""

    clauses: tuple[Clause, ...]
    schemas: tuple[TableSchema, ...]

    def after(self, done: int) -> Chain:
        """Return what is left of the chain after the first clauses."""
        return Chain(self.clauses[done:], self.schemas[done:])

    def run(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Run the clauses on a unit."""
        return run_clauses(self.clauses, self.schemas, unit)

    def summary(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Return the summary of a unit in its place, for a chain whose first clause carries."""
        return unit.replace(summarise(Stage(self.clauses, self.schemas), unit))

    def run_carried(self, unit: ProcessingUnit, blobs: Sequence[bytes]) -> ProcessingUnit:
        """Run the clauses, of which the first carries, with what wire rows brought to the unit."""
        stage = Stage(self.clauses, self.schemas)
        between = _between(stage, blobs)
        return run_between(stage, unit, between.before, between.after)


@dataclass(frozen=True)
class Given:
    """Tables that clauses of a chain are given whole, sent to each worker with its function.

    Attributes
    ----------
    digests
        SHA-256 of each blob, in hexadecimal digits.
    blobs
        Each a part in the form of :mod:`tessel.spark_exec.blobs`.
    """

    digests: tuple[str, ...] = ()
    blobs: tuple[bytes, ...] = dataclasses.field(default=(), compare=False)

    def __or__(self, other: Given) -> Given:
        held = self._held() | other._held()
        return Given(tuple(held), tuple(held.values()))

    def _held(self) -> dict[str, bytes]:
        return dict(zip(self.digests, self.blobs, strict=True))

    def tables(self, digests: Sequence[str]) -> list[pa.Table]:
        """Return the tables of some digests."""
        held = self._held()
        return [decode(held[digest]).table for digest in digests]


NOTHING_GIVEN = Given()


def given_tables(tables: Sequence[pa.Table]) -> Given:
    """Return tables in the form in which workers get them."""
    blobs = tuple(encode(table, PartFacts(RowRange(0, table.num_rows))) for table in tables)
    return Given(tuple(hashlib.sha256(blob).hexdigest() for blob in blobs), blobs)


def chain_to_json(chain: Chain, given: Given | None = None) -> dict[str, Any]:
    """Return a chain as plain data; of what its clauses are given, the digests."""
    plain: dict[str, Any] = {
        "clauses": [clause.to_json() for clause in chain.clauses],
        "schemas": [schema.to_json() for schema in chain.schemas],
    }
    return plain if given is None else plain | {"given": given.digests}


def ready_chain(text: str, plugins: bytes, given: Given) -> Chain:
    """Return a chain; its clauses over several symbols have what they were given."""
    return _given_chain(text, plugins, given) if given.blobs else chain_from_text(text, plugins)


# Each may hold a table, and what was built of it: few are kept.
@functools.lru_cache(maxsize=4)
def _given_chain(text: str, plugins: bytes, given: Given) -> Chain:
    chain = chain_from_text(text, plugins)
    digests = json.loads(text).get("given", [])
    if not digests:
        return chain
    stage = bound_stage(Stage(chain.clauses, chain.schemas), given.tables(digests))
    return Chain(stage.clauses, stage.schemas)


@functools.lru_cache(maxsize=256)
def chain_from_text(text: str, plugins: bytes) -> Chain:
    """Return the chain that a text of JSON describes, with plug-ins at hand."""
    # The plug-ins are part of the key: a class that was changed in a notebook has the same name.
    known = load_plugins(plugins)
    data = json.loads(text)
    schemas = tuple(TableSchema.from_json(item) for item in data["schemas"])
    found = [known.get(item["clause"]) or find_clause(item["clause"]) for item in data["clauses"]]
    clauses = [cls.from_json(item) for cls, item in zip(found, data["clauses"], strict=True)]
    return Chain(tuple(clauses), schemas)
