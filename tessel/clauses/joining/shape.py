"""What a join makes of two schemas: its columns and their types, and the tables themselves.

Two key columns go together where one type holds the values of both without loss (see
:func:`tessel.store.promotion.promote`); signed integers and uint64 are compared as whole decimals.
Instants, times and durations are compared as counts of the finer unit; a value that this unit
cannot count equals no value of the other side, so it becomes missing and nothing overflows.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping, Sequence, Set
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.cached import cached
from tessel.clauses.grouped.grouping import check_key_type
from tessel.clauses.grouped.numbering import dictionary_parts
from tessel.clauses.plain import fields_from_json, plain_form
from tessel.clauses.values import integers, is_temporal, is_text_or_binary, normalised, plain_type
from tessel.errors import DuplicateColumnError, PlanError, SchemaMismatchError, shown
from tessel.expression.schema import TableSchema
from tessel.expression.text_bytes import decoded_text
from tessel.expression.types import UNIT_NANOSECONDS
from tessel.lazy import dataclass
from tessel.store.promotion import promote

Column = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs

_WHOLE_NUMBERS = pa.decimal128(20, 0)
"""Holds every integer of 64 bits, signed or not."""
_SAMPLE_ROWS = 4096


def check_suffix(verb: str, suffix: object) -> None:
    """Raise ``PlanError`` where what tells right columns from left ones is no text."""
    if not isinstance(suffix, str):
        raise PlanError(f"{verb}: the suffix is text, not {shown(suffix)}", hint='suffix="_right"')


def as_keys(columns: Sequence[Column], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return key columns in the form in which they are compared.

    Parameters
    ----------
    types
        What :attr:`Sides.key_types` has for each.

    Returns
    -------
    list of pyarrow.Array
        Equal keys are equal bits and missing ones null: NaN is null, −0.0 is 0.0. Temporal
        columns come as int64, all others in their key type. Dictionaries, and columns whose
        values repeat, come as dictionaries of such values, each entry once or more.
    """
    return [_as_key(column, type_) for column, type_ in zip(columns, types, strict=True)]


def _as_key(column: Column, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(column.type):
        return _encoded_where_it_repeats(_compared(normalised(column), type_))
    if isinstance(column, pa.ChunkedArray) and not column.num_chunks:
        return _compared(normalised(column), type_)
    entries, places = dictionary_parts(column)
    absent = places < 0
    indices = arrow_array(places, mask=absent if absent.any() else None)
    return pa.DictionaryArray.from_arrays(indices, _compared(normalised(entries), type_))


def _encoded_where_it_repeats(array: pa.Array) -> pa.Array:
    """Return long columns of few values as dictionaries: each value is hashed once.

    Numbers are hashed faster than they are encoded. Whether values repeat is told by the first
    rows; where these mislead, time is lost and nothing else.
    """
    if not is_text_or_binary(array.type):
        return array
    first = array.slice(0, _SAMPLE_ROWS)
    if len(array) <= _SAMPLE_ROWS or len(first.unique()) > _SAMPLE_ROWS // 2:
        return array
    return array.dictionary_encode()


def _compared(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if not is_temporal(type_):
        return array if array.type == type_ else array.cast(type_)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int64())
    if pa.types.is_date(type_):
        days = array.cast(pa.date32())  # dates of both widths are counted in days
        return days.view(pa.int32()).cast(pa.int64())
    factor = UNIT_NANOSECONDS[array.type.unit] // UNIT_NANOSECONDS[type_.unit]
    return _scaled(array, factor)


def _scaled(array: pa.Array, factor: int) -> pa.Array:
    """Return the counts of an array in a unit ``factor`` times finer; null where none is."""
    counts = integers(array).astype(np.int64)
    null = numpy_array(array.is_null()) if array.null_count else None
    if factor > 1:
        most = np.iinfo(np.int64).max // factor
        past = (counts > most) | (counts < -most)
        null = past if null is None else null | past
        counts = np.where(past, 0, counts) * factor
    found = arrow_array(counts, mask=null)
    return found if isinstance(found, pa.Array) else pc.cast(found, pa.int64())


How = Literal["inner", "left", "right", "outer", "semi", "anti"]
HOW: tuple[str, ...] = get_args(How)

Rows = NDArray[np.int64]


def rows_or_missing(table: pa.Table, rows: Rows) -> pa.Table:
    """Return rows of a table, and one of missing values for −1."""
    absent = rows < 0
    return table.take(arrow_array(rows, mask=absent if absent.any() else None))


class Sides:
    """Two schemas, and columns of the right beside those of the left: what shapes of joins share.

    Attributes
    ----------
    on
        Pairs of key columns, left and right.
    suffix
        Added to the name of a right column that the left has as well.
    verb
        What people write.
    """

    verb: ClassVar[str]
    left: TableSchema
    right: TableSchema
    on: tuple[tuple[str, str], ...]
    suffix: str

    def to_json(self) -> dict[str, Any]:
        """Return the shape as plain data."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {each.name: plain_form(getattr(self, each.name), each.name) for each in fields}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild from plain data; raises ``PlanFormatError`` on anything else."""
        return cls(**fields_from_json(cls, data, f"{cls.verb}.shape"))

    @property
    @abstractmethod
    def right_names(self) -> Mapping[str, str]:
        """The right's columns that come out, each with its name there."""

    @property
    @abstractmethod
    def schema(self) -> TableSchema:
        """The columns that come out."""

    @cached
    def key_types(self) -> tuple[pa.DataType, ...]:
        """The type in which each pair of keys is compared."""
        return tuple(self.compared_as(one, two) for one, two in self.on)

    def compared_as(self, one: str, two: str) -> pa.DataType:
        """Return the type in which a column of the left and one of the right are compared.

        Raises UnsupportedTypeError for a column whose values have no equality as a whole;
        SchemaMismatchError where no type holds the values of both, naming columns and types.
        """
        types = self.left.type_of(one), self.right.type_of(two)
        for name, type_ in zip((one, two), types, strict=True):
            check_key_type(name, type_)
        left, right = (plain_type(type_) for type_ in types)
        if pa.uint64() in (left, right) and any(map(pa.types.is_signed_integer, (left, right))):
            return _WHOLE_NUMBERS
        try:
            return plain_type(promote(one, (left, right), clause=self.verb))
        except SchemaMismatchError:
            raise SchemaMismatchError(
                f"{self.verb}: {one!r} of the left is {types[0]} and {two!r} of the right is "
                f"{types[1]}: such keys are not compared",
                hint=f'cast one side first, for instance apply("{two}", '
                f'col("{two}").cast("{types[0]}"))',
                columns=[one, two],
                types=[str(type_) for type_ in types],
            ) from None

    def keys(self, table: pa.Table, side: Literal[0, 1]) -> list[pa.Array]:
        """Return the keys of the left (0) or the right (1) as they are compared."""
        return as_keys([table.column(pair[side]) for pair in self.on], self.key_types)

    def reads(self, wanted: frozenset[str], *pairs: tuple[str, str]) -> list[frozenset[str]]:
        """Return the columns of both that columns of the result come from, keys and pairs of more.

        A right column has its suffix only where the left has its name, so that is read as well.
        """
        right = {name for name, shown in self.right_names.items() if shown in wanted}
        left = {name for name in self.left.names if name in wanted or name in right}
        ones, twos = zip(*self.on, *pairs, strict=True)
        return [frozenset(left.union(ones)), frozenset(right.union(twos))]

    def joined(
        self,
        left: pa.Table,
        left_rows: Rows | None,
        right: pa.Table,
        right_rows: Rows,
        codes: Set[str] = frozenset(),
    ) -> pa.Table:
        """Return rows of both sides side by side.

        Parameters
        ----------
        left_rows
            Which rows of the left, −1 for none; None for all of them once, which copies nothing.
        right_rows
            Which row of the right beside each, −1 for none.
        codes
            Text columns that stay dictionaries where they came so.
        """
        ours = left.select(self.left.names)
        if left_rows is not None:
            ours = rows_or_missing(ours, left_rows)
        theirs = rows_or_missing(right.select(list(self.right_names)), right_rows)
        return self._whole([*ours.columns, *theirs.columns], codes)

    def _whole(self, columns: Sequence[Any], codes: Set[str] = frozenset()) -> pa.Table:
        """Return columns as a table; text that came as dictionaries becomes text again."""
        made = [
            column
            if column.type == field.type or field.name in codes
            else decoded_text(column, field.type)
            for column, field in zip(columns, self.schema.arrow, strict=True)
        ]
        return pa.table(made, names=self.schema.names)

    def _right_without(self, dropped: Set[str]) -> dict[str, str]:
        """Return columns of the right with the names that they get beside those of the left."""
        return {
            name: f"{name}{self.suffix}" if name in self.left else name
            for name in self.right.names
            if name not in dropped
        }

    def _fields_of_right(self) -> list[pa.Field]:
        """Return the fields of the right; two columns of one name are a DuplicateColumnError."""
        taken = set(self.left.names)
        for named in self.right_names.values():
            if named in taken:
                raise DuplicateColumnError(
                    f"{self.verb}: two columns would be named {named!r}",
                    hint=f'give another suffix, {self.verb}(…, suffix="_other"), or rename one '
                    "first",
                    column=named,
                )
            taken.add(named)
        return [
            pa.field(named, self.right.type_of(name)) for name, named in self.right_names.items()
        ]


@dataclass(frozen=True)
class JoinShape(Sides):
    """Two schemas, and how a join puts rows of them together.

    Attributes
    ----------
    how
        Which rows come out; see :class:`tessel.clauses.join.Join`.
    """

    verb: ClassVar[str] = "join"
    left: TableSchema
    right: TableSchema
    on: tuple[tuple[str, str], ...]
    how: How
    suffix: str

    def __post_init__(self) -> None:
        """Refuse keys that are not compared: computing their types raises."""
        _ = self.key_types

    def describe(self) -> str:
        """Return one line for people: the keys and which rows come out."""
        shown = ", ".join(one if one == two else f"{one}={two}" for one, two in self.on)
        return f"on={shown}, how={self.how}"

    @property
    def keeps_left(self) -> bool:
        """Whether left rows without a match come out."""
        return self.how in ("left", "outer", "anti")

    @property
    def keeps_right(self) -> bool:
        """Whether right rows without a match come out."""
        return self.how in ("right", "outer")

    @property
    def adds_columns(self) -> bool:
        """Whether the right's columns come out."""
        return self.how not in ("semi", "anti")

    @cached
    def right_names(self) -> dict[str, str]:
        """The right's columns that come out, each with its name there."""
        return self._right_without({two for _, two in self.on}) if self.adds_columns else {}

    @cached
    def schema(self) -> TableSchema:
        """The columns that come out.

        Raises DuplicateColumnError where two of them would have one name; SchemaMismatchError where
        no type holds the keys of both sides, which come out in one column.
        """
        fields = [pa.field(name, self.left.type_of(name)) for name in self.left.names]
        if self.keeps_right:
            for one, two in reversed(self.on):  # of the first pair of a key come the values
                at = self.left.names.index(one)
                kinds = (self.left.type_of(one), self.right.type_of(two))
                fields[at] = pa.field(one, promote(one, kinds, clause="join"))
        fields += self._fields_of_right()
        return TableSchema(pa.schema(fields), None if self.keeps_right else self.left.index)

    def unmatched(self, right: pa.Table, rows: Rows) -> pa.Table:
        """Return rows of the right that no row of the left goes with."""
        theirs = right.take(arrow_array(rows))
        of_key = dict(reversed(self.on))
        ours = [
            theirs.column(of_key[name]) if name in of_key else pa.nulls(len(rows), kind)
            for name, kind in zip(self.left.names, self.left.arrow.types, strict=True)
        ]
        return self._whole([*ours, *(theirs.column(name) for name in self.right_names)])
