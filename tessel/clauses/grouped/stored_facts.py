"""What kernels find of the rows of a group or a run as they are stored, and the states it makes.

Groups and runs that are reduced without decoding enter here with their aggregates: each says which
facts its state follows from (:class:`~tessel.clauses.aggregates.FromFacts`), and facts are sums,
extremes and single rows of columns whose integers are at hand. How each is asked for is said in
:mod:`~tessel.clauses.grouped.asked_facts`; what several aggregates ask for is found once.

Where values are missing, their rows add nothing to sums and are worse than every extreme; how many
values there are is a sum too, of ones and zeros, and the first is that of the least row.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array
from tessel.clauses.aggregates.base import Aggregate, FromFacts, MergeableAggregate
from tessel.clauses.grouped.asked_facts import (
    MAKERS,
    WORST,
    AskedFact,
    FactColumns,
    may_be_asked,
    of_some,
    typed_values,
)
from tessel.clauses.grouped.group_facts import AskedFor, FoundParts, GroupFacts, joined_facts
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.values import plain_type
from tessel.expression.schema import TableSchema
from tessel.kernels.fields import Fact, FieldKind, SumField
from tessel.store.manifest.opened_batch import OpenedBatch

__all__ = ["StoredFacts", "all_from_facts", "ask_facts", "numbers_of"]

_ENDS_OF_ROWS = {"first": FieldKind.LEAST, "last": FieldKind.GREATEST}
_ENDS = frozenset(_ENDS_OF_ROWS)
_COUNT = "count"
"""How many values there are, which is always found."""

Integers = NDArray[np.int64]


def all_from_facts(aggregates: Sequence[NamedAggregate]) -> bool:
    """Return whether the state of every aggregate follows from facts of what is stored."""
    return all(_is_from_facts(type(each.aggregate)) and not each.computed for each in aggregates)


@functools.cache
def _is_from_facts(kind: type[Aggregate]) -> bool:
    # Whether a class satisfies a protocol takes 40 µs to say.
    facts = getattr(kind, "stored_facts", None)
    return issubclass(kind, MergeableAggregate) and facts is not None


def _from_facts(each: NamedAggregate) -> FromFacts:
    return cast(FromFacts, each.aggregate)  # the caller has looked


@dataclass(frozen=True, eq=False)
class StoredFacts:
    """What is asked of kernels for some aggregates.

    Attributes
    ----------
    fields
        What they reduce, each once.
    needs_last
        Whether the last row of each group is wanted.
    needs_ends
        Whether the first or the last is.
    rows
        Which of the fields counts the rows of a group, where only some rows are looked at.
    """

    fields: tuple[SumField, ...]
    needs_last: bool
    needs_ends: bool
    rows: SumField | None
    _asked: Mapping[AskedFor, AskedFact]
    _columns: Mapping[tuple[str, ...], FactColumns]
    _ends: Mapping[AskedFor, SumField]
    _aggregates: Sequence[NamedAggregate]
    _opened: OpenedBatch
    _schema: TableSchema

    def found(
        self, found: Sequence[Fact], counts: Integers, first: Integers, last: Integers | None
    ) -> GroupFacts | None:
        """Return the facts of some groups; None where single rows have to be decoded.

        Parameters
        ----------
        found
            For each field what kernels found, one entry a group.
        counts
            Rows of each group.
        first, last
            The first and the last row of each group, counted in the segment.
        """
        by_field = dict(zip(self.fields, found, strict=True))
        parts = {
            key: asked.parts([by_field[field] for field in asked.fields])
            for key, asked in self._asked.items()
            if asked.entries is None
        }
        for names, columns in self._columns.items():
            own: FoundParts = {0: counts}
            if columns.count is not None:
                own = cast(Mapping[int, Integers], by_field[columns.count])
            parts[names, _COUNT] = own
        ends: dict[AskedFor, pa.Array] = {}
        for key, asked in self._asked.items():
            if asked.entries is not None:
                some = numbers_of(parts[key[0], _COUNT])
                # What is kept for a group without a value is no place.
                places = np.where(some > 0, cast(Integers, by_field[asked.fields[0]]), 0)
                ends[key] = of_some(asked.entries.take(arrow_array(places)), some)
        for each in self._aggregates:
            for fact in _ENDS.intersection(_from_facts(each).stored_facts):
                key, rows = (each.inputs, fact), first if fact == "first" else last
                if key in self._ends:
                    rows = cast(Integers, by_field[self._ends[key]])
                values = self._row(each.inputs[0], rows)
                if values is None:
                    return None
                ends[key] = of_some(values, numbers_of(parts[each.inputs, _COUNT]))
        return GroupFacts(counts, parts, ends)

    def joined(self, found: Sequence[GroupFacts], codes: Integers) -> GroupFacts:
        """Bring together the facts of several segments; see `joined_facts`."""
        extremes = {
            key: asked.better for key, asked in self._asked.items() if asked.better is not None
        }
        return joined_facts(found, codes, extremes)

    def states(self, found: GroupFacts) -> list[pa.Array]:
        """Return the state columns of all aggregates, one entry a group."""
        counts = {
            names: numbers_of(parts)
            for (names, fact), parts in found.parts.items()
            if fact == _COUNT
        }
        made: dict[AskedFor, Any] = dict(found.ends)
        for key in found.parts.keys() & self._asked.keys():
            asked = self._asked[key]
            made[key] = asked.made(found.parts[key], counts[key[0]])
        states: list[pa.Array] = []
        for each in self._aggregates:
            facts = {fact: made[each.inputs, fact] for fact in _from_facts(each).stored_facts}
            states += _from_facts(each).partial_of_facts(counts[each.inputs], facts)
        return states

    def _row(self, name: str, rows: Integers | None) -> pa.Array | None:
        assert rows is not None  # it was asked for
        found = self._opened.values_at(name, rows)
        kind = plain_type(self._schema.type_of(name))
        return None if found is None else typed_values(found, kind)


def ask_facts(
    opened: OpenedBatch,
    aggregates: Sequence[NamedAggregate],
    schema: TableSchema,
    among: int | None = None,
) -> StoredFacts | None:
    """Return what is asked of kernels; None where they cannot be asked.

    Parameters
    ----------
    opened
        All columns of the aggregates are at hand.
    aggregates
        All from facts.
    schema
        Types of the columns.
    among
        The truth register of the rows that count, for kernels that look at all; None for all.
    """
    asked: dict[AskedFor, AskedFact] = {}
    columns: dict[tuple[str, ...], FactColumns] = {}
    ends: dict[AskedFor, SumField] = {}
    needs_last = needs_ends = False
    if among is not None:
        columns[()] = _columns(opened, (), among)
    for each in aggregates:
        if not all(opened.program.has_integers(name) for name in each.inputs):
            return None
        if each.inputs not in columns:
            columns[each.inputs] = _columns(opened, each.inputs, among)
        own = columns[each.inputs]
        for fact in _from_facts(each).stored_facts:
            key = each.inputs, fact
            if fact in _ENDS:
                needs_ends |= own.known is None
                needs_last |= own.known is None and fact == "last"
                if own.known is not None:
                    ends[key] = _end(opened, own.known, _ENDS_OF_ROWS[fact])
                continue
            if key in asked:
                continue
            kinds = [plain_type(schema.type_of(name)) for name in each.inputs]
            if not all(may_be_asked(fact, kind) for kind in kinds):
                return None
            found = MAKERS[fact](opened, own, schema)
            if found is None:
                return None
            asked[key] = found
    fields = dict.fromkeys(field for each in asked.values() for field in each.fields)
    fields |= dict.fromkeys(each.count for each in columns.values() if each.count is not None)
    fields |= dict.fromkeys(ends.values())
    rows = None if among is None else columns[()].count
    return StoredFacts(
        tuple(fields),
        needs_last,
        needs_ends,
        rows,
        asked,
        columns,
        ends,
        aggregates,
        opened,
        schema,
    )


def _columns(opened: OpenedBatch, names: tuple[str, ...], among: int | None) -> FactColumns:
    known = opened.program.both(among, opened.program.known(names))
    count = None if known is None else SumField.of_integers(opened.program.ones(known), 1)
    return FactColumns(names, known, count)


def _end(opened: OpenedBatch, known: int, kind: FieldKind) -> SumField:
    """Return what finds the first or the last row that has a value."""
    return SumField(kind, opened.program.chosen(opened.program.rows(), known, WORST[kind]))


def numbers_of(parts: FoundParts) -> Integers:
    """Return small sums as numbers; they are no extremes."""
    assert isinstance(parts, Mapping)
    return np.asarray(sum(held << place for place, held in parts.items()), np.int64)
