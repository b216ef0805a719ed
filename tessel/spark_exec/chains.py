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
from tessel.clauses.capabilities import Combines
from tessel.clauses.registry import find_clause
from tessel.ecs import ProcessingUnit
from tessel.ecs.piece import RowRange
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.pipeline.carrying import Between
from tessel.pipeline.plan import Stage
from tessel.pipeline.stage import bound_stage, nothing_carried, run_between, run_stage, summarise
from tessel.spark_exec.blobs import PartFacts, damaged_part, decode, encode
from tessel.spark_exec.plugins import load_plugins
from tessel.spark_exec.wire import CARRY_ROWS, WireRow

How = Literal["run", "summary", "carry", "combine"]
"""What is done with a chain and a unit.

Of a chain whose first clause carries, ``summary`` takes the summary of the unit in its place, and
``carry`` runs the chain with what was carried to the unit; ``combine`` combines the parts of the
unit by the first clause.
"""
RUN: How = "run"
SUMMARY: How = "summary"
CARRY: How = "carry"
CUT: Literal["cut"] = "cut"
RENUMBER: Literal["renumber"] = "renumber"
Step = tuple[How, int] | tuple[Literal["cut", "renumber"]]
"""What is done with the chain of a number, a cut of the unit's rows, or a new place in plan order.
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


ReduceStep = tuple[How, str] | Mapping[int, tuple[int, int]] | Places
"""What is done with a chain (as JSON); the cuts ``[start, stop)`` of units by ``seq``, others are
left out; or where units are put from here on."""


def run_chain(
    how: How, chain: Stage, unit: ProcessingUnit, blobs: Sequence[bytes] = ()
) -> ProcessingUnit:
    """Do with a chain and a unit what a step says; ``blobs`` are what wire rows brought to it."""
    if how == RUN:
        return run_stage(chain, unit)
    if how == SUMMARY:
        return unit.replace(summarise(chain, unit))
    if how == CARRY:
        between = _between(chain, blobs)
        return run_between(chain, unit, between.before, between.after)
    clause = chain.clauses[0]
    assert isinstance(clause, Combines)
    return clause.combined([unit])


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


def chain_text(chain: Stage, given: Given | None = None) -> str:
    """Return clauses with their schemas as JSON; of what the clauses are given, the digests."""
    plain: dict[str, Any] = {
        "clauses": [clause.to_json() for clause in chain.clauses],
        "schemas": [schema.to_json() for schema in chain.schemas],
    }
    more = {} if given is None else {"given": given.digests}
    return json.dumps(plain | more, separators=(",", ":"))


def ready_chain(text: str, plugins: bytes, given: Given) -> Stage:
    """Return a chain; its clauses over several symbols have what they were given."""
    return _given_chain(text, plugins, given) if given.blobs else chain_from_text(text, plugins)


# Each may hold a table, and what was built of it: few are kept.
@functools.lru_cache(maxsize=4)
def _given_chain(text: str, plugins: bytes, given: Given) -> Stage:
    chain = chain_from_text(text, plugins)
    digests = json.loads(text).get("given", [])
    return bound_stage(chain, given.tables(digests)) if digests else chain


@functools.lru_cache(maxsize=256)
def chain_from_text(text: str, plugins: bytes) -> Stage:
    """Return the chain that a text of JSON describes, with plug-ins at hand."""
    # The plug-ins are part of the key: a class that was changed in a notebook has the same name.
    known = load_plugins(plugins)
    data = json.loads(text)
    schemas = tuple(TableSchema.from_json(item) for item in data["schemas"])
    found = [known.get(item["clause"]) or find_clause(item["clause"]) for item in data["clauses"]]
    clauses = [cls.from_json(item) for cls, item in zip(found, data["clauses"], strict=True)]
    return Stage(tuple(clauses), schemas)
