"""upsert: rows replace those of the same key; rows of new keys are added."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.errors import DuplicateColumnError, InvalidInputError, repeated
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.encodings.base import Integers
from tessel.store.history.changes import Claim
from tessel.store.history.committed_changes import TimeBounds
from tessel.store.history.rebase import ReadRange
from tessel.store.index_column import index_integers, sorted_by
from tessel.store.operations.incoming import take
from tessel.store.operations.keys import KeyLookup
from tessel.store.operations.planning import Planned, staged_edits
from tessel.store.operations.reading import Reader
from tessel.store.operations.stage import Stage

__all__ = ["upsert"]


def upsert(
    stage: Stage,
    symbol: str,
    data: Any,
    *,
    keys: Sequence[str],
    evolve: str | Iterable[str] | None = None,
) -> None:
    """Replace rows by key, add those of new keys; see ``Repository.upsert``."""
    working = stage.existing(symbol)
    names = _checked_keys(keys, working.state.schema)
    incoming = take(working, data, evolve)
    table = incoming.table()
    index = incoming.state.schema.index
    if index is not None and table.num_rows:
        table = sorted_by(table, index)
    lookup = KeyLookup(table, names)
    stage.reads.append(ReadRange(working.base_name or symbol))
    reader = stage.reader(working)
    rows = _positions(reader, lookup, names)
    incoming.apply(working)
    if not table.num_rows:
        return
    plan = _Plan.of(reader, table, rows, index)
    end = working.state.rows
    tail = plan.starts >= end if index is None else np.zeros(len(plan.starts), dtype=bool)
    fresh = rows < 0
    claims: list[Claim] = []
    if fresh.any():
        claims.append(_claim(table.filter(arrow_array(fresh)), index, names))
    edits = staged_edits(
        stage,
        working.state,
        plan.planned(table, ~tail),
        reader=reader,
        touched=plan.touched(reader, table, index),
    )
    edits += staged_edits(stage, working.state, plan.planned(table, tail), at_end=True)
    working.splice(edits, "upsert", claims)


def _checked_keys(keys: Any, schema: TableSchema) -> list[str]:
    listed = [keys] if isinstance(keys, str) else list(keys)
    if not listed:
        raise InvalidInputError(
            "upsert needs keys: the columns that tell one row from another",
            hint='for instance keys=["time", "ticker"]',
        )
    schema.require(listed, where="the symbol (as a key)")
    twice = repeated(listed)
    if twice is not None:
        raise DuplicateColumnError(
            f"column {twice!r} is named twice among the keys",
            hint="name it once",
            column=twice,
        )
    for name in listed:
        if pa.types.is_nested(schema.type_of(name)):
            raise InvalidInputError(
                f"column {name!r} of type {schema.type_of(name)} cannot be a key",
                hint="keys are plain values",
                column=name,
            )
    return listed


def _positions(reader: Reader, lookup: KeyLookup, keys: Sequence[str]) -> Integers:
    """Return for each row of the frame the row of the symbol with its key; -1 where none has."""
    found = np.full(lookup.rows, -1, dtype=np.int64)
    if not lookup.rows:
        return found
    columns = reader.columns([name for name in reader.schema.names if name in keys])
    for start, table in columns.slices():
        place = lookup.places(table)
        here = np.flatnonzero(place >= 0)
        hit = place[here]
        twice = np.bincount(hit, minlength=lookup.rows) + (found >= 0)
        if (twice > 1).any() and (np.isin(np.flatnonzero(twice > 1), hit)).any():
            at = int(np.flatnonzero(twice > 1)[np.isin(np.flatnonzero(twice > 1), hit)][0])
            raise InvalidInputError(
                f"the key {lookup.shown(at)} is that of several rows of the symbol",
                hint="upsert replaces one row by one: choose keys that tell rows apart",
            )
        found[hit] = start + here
    return found


@dataclass(frozen=True, eq=False)
class _Plan:
    """What happens where, ordered: rows ``[start, stop)`` go, a row of the frame comes or none."""

    starts: Integers
    stops: Integers
    rows: Integers

    @classmethod
    def of(cls, reader: Reader, table: pa.Table, rows: Integers, index: str | None) -> _Plan:
        """Plan for the rows of a frame, sorted by the index, and their rows in the symbol."""
        numbers = np.arange(len(rows))
        known = rows >= 0
        if index is None:
            end = np.full(len(rows), reader.index.row_count, dtype=np.int64)
            starts = np.where(known, rows, end)
            return cls._sorted(starts, starts + known, numbers)
        times = index_integers(table.column(index), index)
        stays = known.copy()
        if known.any():
            stays[known] = _times_at(reader, rows[known]) == times[known]
        # A row whose time changes leaves its place and is merged like a new one.
        moves = known & ~stays
        merged = reader.ends_of(times[~stays]) if (~stays).any() else np.zeros(0, np.int64)
        return cls._sorted(
            np.concatenate([rows[stays], rows[moves], merged]),
            np.concatenate([rows[stays] + 1, rows[moves] + 1, merged]),
            np.concatenate([numbers[stays], np.full(int(moves.sum()), -1), numbers[~stays]]),
        )

    @classmethod
    def _sorted(cls, starts: Integers, stops: Integers, rows: Integers) -> _Plan:
        # At one place, rows that are put in come before the row that is there.
        order = np.lexsort((rows, stops, starts))
        return cls(starts[order], stops[order], rows[order])

    def planned(self, table: pa.Table, mask: np.ndarray[Any, Any]) -> list[Planned]:
        """Return the chosen steps with their rows; steps that touch are one."""
        starts, stops, rows = self.starts[mask], self.stops[mask], self.rows[mask]
        if not len(starts):
            return []
        reach = np.maximum.accumulate(stops)
        cuts = np.flatnonzero(starts[1:] > reach[:-1]) + 1
        bounds = np.concatenate([[0], cuts, [len(starts)]]).tolist()
        made = []
        for low, high in itertools.pairwise(bounds):
            chosen = rows[low:high]
            chosen = chosen[chosen >= 0]
            part = table.take(arrow_array(chosen)) if len(chosen) else None
            made.append(Planned(int(starts[low]), int(reach[high - 1]), part))
        return made

    def touched(self, reader: Reader, table: pa.Table, index: str | None) -> TimeBounds | None:
        """Return bounds of the index over all rows that go or come."""
        if index is None:
            return None
        times = index_integers(table.column(index), index)
        gone = self.starts[self.stops > self.starts]
        ends = _times_at(reader, gone[[0, -1]]) if len(gone) else times
        return int(min(times[0], ends[0])), int(max(times[-1], ends[-1]))


def _times_at(reader: Reader, rows: Integers) -> Integers:
    order = np.argsort(rows, kind="stable")
    times = np.empty(len(rows), dtype=np.int64)
    for at in order.tolist():
        times[at] = reader.time_at(int(rows[at]))
    return times


def _claim(fresh: pa.Table, index: str | None, keys: Sequence[str]) -> Claim:
    """Return where nobody else may have put rows, which could have the keys of ours."""
    if index is None or index not in keys:
        return None, None
    times = index_integers(fresh.column(index), index)
    return int(times[0]), int(times[-1])
