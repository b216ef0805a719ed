"""What kernels find of the rows of a group or a run as they are stored, and the states it makes.

Groups and runs that are reduced without decoding enter here with their aggregates: each says which
facts its state follows from (:class:`~tessel.clauses.aggregates.FromFacts`), and facts are sums,
extremes and single rows of columns whose integers are at hand. Sums of decimals are those of the
integers that they are kept as and of what rounding took from them; other doubles are added up in
limbs; products in a rounded part and its error. What several aggregates ask for is found once.

Where values are missing, their rows add nothing to sums and are worse than every extreme; how many
values there are is a sum too, of ones and zeros, and the first is that of the least row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.clauses.aggregates import Aggregate, FromFacts, MergeableAggregate
from tessel.clauses.aggregates.kernels.exact_sum import FloatSums
from tessel.clauses.aggregates.kernels.integer_sum import IntegerSums
from tessel.clauses.grouped.group_facts import AskedFor, FoundParts, GroupFacts, joined_facts
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.values import is_temporal, missing_rows, plain
from tessel.expression import Number
from tessel.expression.schema import TableSchema
from tessel.kernels import EXTREMES, DecimalSum, Fact, FieldKind, SumField
from tessel.store import OpenedScan

__all__ = ["StoredFacts", "all_from_facts", "ask_facts", "is_numeric"]

_LOWEST_BIT = 1074
"""Bits from the lowest of a double to one; what products are kept times two to."""
_FRACTION_BITS = 53
_ENDS_OF_ROWS = {"first": FieldKind.LEAST, "last": FieldKind.GREATEST}
_ENDS = frozenset(_ENDS_OF_ROWS)
_COUNT = "count"
"""How many values there are, which is always found."""

_WORST = {
    FieldKind.LEAST: int(np.iinfo(np.int64).max),
    FieldKind.GREATEST: int(np.iinfo(np.int64).min),
}
"""What kernels begin the search for an extreme with."""

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


@dataclass(frozen=True)
class _Asked:
    """One fact.

    Attributes
    ----------
    fields
        What kernels reduce for it.
    parts
        What makes numbers of what they found, in the order of the fields, that can be joined with
        those of other segments.
    made
        What makes the fact of those, and of how many values each group has.
    better
        Which of two numbers is kept; None for sums, which are added up.
    """

    fields: tuple[SumField, ...]
    parts: Callable[[list[Fact]], FoundParts]
    made: Callable[[Any, Integers], Any]
    better: np.ufunc | None = None


@dataclass(frozen=True)
class _Columns:
    """The columns of an aggregate.

    Attributes
    ----------
    names
        As the aggregate has them.
    known
        The truth register of the rows in which none is missing; None for all rows.
    count
        What counts these rows; None where all are.
    """

    names: tuple[str, ...]
    known: int | None
    count: SumField | None


@dataclass(frozen=True, eq=False)
class StoredFacts:
    """What is asked of kernels for some aggregates.

    Attributes
    ----------
    fields
        What they reduce, each once.
    needs_last
        Whether the last row of each group is wanted.
    """

    fields: tuple[SumField, ...]
    needs_last: bool
    _asked: Mapping[AskedFor, _Asked]
    _columns: Mapping[tuple[str, ...], _Columns]
    _ends: Mapping[AskedFor, SumField]
    _aggregates: Sequence[NamedAggregate]
    _opened: OpenedScan
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
        }
        for names, columns in self._columns.items():
            own: FoundParts = {0: counts}
            if columns.count is not None:
                own = cast(Mapping[int, Integers], by_field[columns.count])
            parts[names, _COUNT] = own
        ends: dict[AskedFor, pa.Array] = {}
        for each in self._aggregates:
            for fact in _ENDS.intersection(_from_facts(each).stored_facts):
                key, rows = (each.inputs, fact), first if fact == "first" else last
                if key in self._ends:
                    rows = cast(Integers, by_field[self._ends[key]])
                values = self._row(each.inputs[0], rows)
                if values is None:
                    return None
                ends[key] = _of_some(values, _numbers_of(parts[each.inputs, _COUNT]))
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
            names: _numbers_of(parts)
            for (names, fact), parts in found.parts.items()
            if fact == _COUNT
        }
        made: dict[AskedFor, Any] = dict(found.ends)
        for key, asked in self._asked.items():
            made[key] = asked.made(found.parts[key], counts[key[0]])
        states: list[pa.Array] = []
        for each in self._aggregates:
            facts = {fact: made[each.inputs, fact] for fact in _from_facts(each).stored_facts}
            states += _from_facts(each).partial_of_facts(counts[each.inputs], facts)
        return states

    def _row(self, name: str, rows: Integers | None) -> pa.Array | None:
        assert rows is not None  # it was asked for
        found = self._opened.values_at(name, rows)
        return None if found is None else _typed(found, self._schema.type_of(name))


def ask_facts(
    opened: OpenedScan, aggregates: Sequence[NamedAggregate], schema: TableSchema
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
    """
    asked: dict[AskedFor, _Asked] = {}
    columns: dict[tuple[str, ...], _Columns] = {}
    ends: dict[AskedFor, SumField] = {}
    needs_last = False
    for each in aggregates:
        if not all(_has_integers(opened, name, schema) for name in each.inputs):
            return None
        if each.inputs not in columns:
            columns[each.inputs] = _columns(opened, each.inputs)
        own = columns[each.inputs]
        for fact in _from_facts(each).stored_facts:
            key = each.inputs, fact
            if fact in _ENDS:
                needs_last |= own.known is None and fact == "last"
                if own.known is not None:
                    ends[key] = _end(opened, own.known, _ENDS_OF_ROWS[fact])
                continue
            if key in asked:
                continue
            if not all(is_numeric(schema.type_of(name)) for name in each.inputs):
                return None
            found = _MAKERS[fact](opened, own, schema)
            if found is None:
                return None
            asked[key] = found
    fields = dict.fromkeys(field for each in asked.values() for field in each.fields)
    fields |= dict.fromkeys(each.count for each in columns.values() if each.count is not None)
    fields |= dict.fromkeys(ends.values())
    return StoredFacts(tuple(fields), needs_last, asked, columns, ends, aggregates, opened, schema)


def _columns(opened: OpenedScan, names: tuple[str, ...]) -> _Columns:
    known = opened.program.known(names)
    count = None if known is None else SumField.of_integers(opened.program.ones(known), 1)
    return _Columns(names, known, count)


def _has_integers(opened: OpenedScan, name: str, schema: TableSchema) -> bool:
    """Return whether the rows with a value have an integer, and the others are told from them."""
    if not opened.program.has_integers(name):
        return False
    coded = opened.program.codes(name)
    return coded is None or missing_rows(plain(coded[1])) is None


def _end(opened: OpenedScan, known: int, kind: FieldKind) -> SumField:
    """Return what finds the first or the last row that has a value."""
    return SumField(kind, opened.program.chosen(opened.program.rows(), known, _WORST[kind]))


def _numbers_of(parts: FoundParts) -> Integers:
    """Return small sums as numbers."""
    assert isinstance(parts, Mapping)  # it is no extreme
    return np.asarray(sum(held << place for place, held in parts.items()), np.int64)


def _of_some(values: pa.Array, counts: Integers) -> pa.Array:
    """Return what was found of groups, null for those that have no value."""
    if counts.all():
        return values
    return pc.if_else(pa.array(counts > 0), values, pa.scalar(None, values.type))


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether the numbers that are stored are those that a type means."""
    if pa.types.is_integer(kind) or pa.types.is_float64(kind):
        return True
    return is_temporal(kind) and not pa.types.is_date64(kind)


# --- sums -----------------------------------------------------------------------------------------


def _sum(opened: OpenedScan, columns: _Columns, schema: TableSchema) -> _Asked | None:
    """Ask for a sum in the state of its type: of integers, or of doubles."""
    found = _summed(opened, columns.names[0], columns.known)
    if found is None:
        return None
    fields, parts = found
    kind = FloatSums if pa.types.is_floating(schema.type_of(columns.names[0])) else IntegerSums
    return _Asked(fields, parts, lambda found, counts: kind.of_parts(dict(found), len(counts)))


def _numbers(opened: OpenedScan, columns: _Columns, schema: TableSchema) -> _Asked | None:
    """Ask for the sum of numbers of any type as that of doubles."""
    return _as_doubles(opened, columns.names[0], columns.known, schema)


def _weights(opened: OpenedScan, columns: _Columns, schema: TableSchema) -> _Asked | None:
    return _as_doubles(opened, columns.names[1], columns.known, schema)


def _as_doubles(
    opened: OpenedScan, name: str, known: int | None, schema: TableSchema
) -> _Asked | None:
    found = _summed(opened, name, known)
    if found is None:
        return None
    fields, parts = found
    up = 0 if pa.types.is_floating(schema.type_of(name)) else _LOWEST_BIT
    return _Asked(fields, parts, lambda found, counts: _float_sums(found, up, len(counts)))


def _products(opened: OpenedScan, columns: _Columns, schema: TableSchema) -> _Asked | None:
    """Ask for the sum of the products of two columns, or of the squares of one."""
    first, second, known = columns.names[0], columns.names[-1], columns.known
    one, other = opened.program.number(first), opened.program.number(second)
    if one is None or other is None:
        return None
    made = opened.program.product(one, other, known)
    largest = _largest(one) * _largest(other)
    if made is None or not np.isfinite(largest):
        return None
    product, error = made
    field = SumField.of_floats(product, float(largest))
    # What rounding takes is at most half of the last bit.
    rest = SumField(FieldKind.FLOAT, error, field.exponent - _FRACTION_BITS)
    # A tiny double would have a product below all doubles: its own limbs would tell.
    guards = [
        SumField.of_floats(
            opened.program.chosen_float(number.register, known, 0.0), float(_largest(number))
        )
        for name, number in dict(zip((first, second), (one, other), strict=True)).items()
        if number.is_float and _decimal_sum(opened, name) is None
    ]

    def sums(facts: list[Fact]) -> dict[int, Integers]:
        parts: dict[int, Integers] = {}
        for fact in facts[:2]:
            for place, held in cast(dict[int, Integers], fact).items():
                parts[place] = parts[place] + held if place in parts else held
        return parts

    return _Asked(
        (field, rest, *guards),
        sums,
        lambda found, counts: _float_sums(found, _LOWEST_BIT, len(counts)),
    )


def _summed(
    opened: OpenedScan, name: str, known: int | None
) -> tuple[tuple[SumField, ...], Callable[[list[Fact]], Mapping[int, Integers]]] | None:
    """Return what is summed of a column, and what makes sums by bit position of that.

    Rows that are not known add nothing.
    """
    decimal, program = _decimal_sum(opened, name), opened.program
    if decimal is not None:
        integers = program.integers(name, known)
        residuals = program.residuals(name, decimal.up, known) if decimal.places else None
        return tuple(decimal.fields(integers, residuals)), lambda facts: decimal.sums(
            cast(list[Mapping[int, Integers]], facts)
        )
    number = program.number(name)
    if number is None:
        return None
    computed = None if number.scaled is None else DecimalSum.of(number.scaled.bounds)
    if computed is not None and number.scaled is not None:
        whole = program.whole(number.scaled, known)
        rest = program.float_residuals(number.register, number.scaled, computed.up, known)
        return tuple(computed.fields(whole, rest)), lambda facts: computed.sums(
            cast(list[Mapping[int, Integers]], facts)
        )
    largest = _largest(number)
    if not number.is_float:
        field = SumField.of_integers(program.chosen(number.register, known, 0), int(largest))
    elif np.isfinite(largest):
        register = program.chosen_float(number.register, known, 0.0)
        field = SumField.of_floats(register, float(largest))
    else:
        return None
    return (field,), lambda facts: cast(Mapping[int, Integers], facts[0])


def _decimal_sum(opened: OpenedScan, name: str) -> DecimalSum | None:
    """Return how a stored column whose pages are all decimals of one scale is added up."""
    place = opened.program.place(name)
    if place is None or opened.columns[place].exponents is None:
        return None
    scaled = opened.program.scaled(name)
    return None if scaled is None else DecimalSum.of(scaled.bounds)


def _largest(number: Number) -> Any:
    return max(abs(number.low), abs(number.high))


def _float_sums(parts: Mapping[int, Integers], up: int, groups: int) -> FloatSums:
    return FloatSums.of_parts({place + up: held for place, held in parts.items()}, groups)


# --- extremes -------------------------------------------------------------------------------------


def _least(opened: OpenedScan, columns: _Columns, schema: TableSchema) -> _Asked | None:
    return _extreme(opened, columns, schema, FieldKind.LEAST, FieldKind.LEAST_FLOAT)


def _greatest(opened: OpenedScan, columns: _Columns, schema: TableSchema) -> _Asked | None:
    return _extreme(opened, columns, schema, FieldKind.GREATEST, FieldKind.GREATEST_FLOAT)


def _extreme(
    opened: OpenedScan,
    columns: _Columns,
    schema: TableSchema,
    of_integers: FieldKind,
    of_floats: FieldKind,
) -> _Asked | None:
    """Ask for an extreme; of decimals of one scale, for that of their integers.

    Rows that are not known have what every value is better than.
    """
    (name,), known, program = columns.names, columns.known, opened.program
    kind, worst = schema.type_of(name), _WORST[of_integers]
    place = program.place(name)
    if place is not None:
        exponents = opened.columns[place].exponents
        if exponents is not None and exponents.min() == exponents.max() >= 0:
            field = SumField(of_integers, program.chosen(program.integers(name), known, worst))
            return _extremes(field, kind, float(10 ** int(exponents[0])))
    number = program.number(name)
    if number is None:
        return None
    if number.is_float:
        endless = np.inf if worst > 0 else -np.inf
        field = SumField(of_floats, program.chosen_float(number.register, known, endless))
    else:
        field = SumField(of_integers, program.chosen(number.register, known, worst))
    return _extremes(field, kind, None)


def _extremes(field: SumField, kind: pa.DataType, divisor: float | None) -> _Asked:
    def values(facts: list[Fact]) -> FoundParts:
        found = cast(NDArray[Any], facts[0])
        if divisor is not None:
            found = found / divisor
        if found.dtype == np.float64:
            found = found + 0.0  # −0.0 and 0.0 are equal, and which came first must not show
        return found

    def made(found: NDArray[Any], counts: Integers) -> pa.Array:
        # What is kept for a group without a value is no value of the type.
        held = found if counts.all() else np.where(counts > 0, found, 0)
        return _of_some(_typed(pa.array(held), kind), counts)

    return _Asked((field,), values, made, EXTREMES[field.kind])


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return integers as what they stand for."""
    if values.type == kind:
        return values
    if is_temporal(kind):
        return values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return values.cast(kind)


_MAKERS: dict[str, Callable[[OpenedScan, _Columns, TableSchema], _Asked | None]] = {
    "greatest": _greatest,
    "least": _least,
    "numbers": _numbers,
    "products": _products,
    "sum": _sum,
    "weights": _weights,
}
"""What asks for a fact, by the name that aggregates give it."""
