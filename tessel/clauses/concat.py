"""concat: the rows of several symbols, one after another, each with clauses of its own first.

The types that several have together are those of :func:`tessel.store.promotion.promote`, so every
value is kept but for an instant or a duration that the finer unit cannot count, which is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.clauses.base import ClauseInfo, IndexEffect, Structure
from tessel.clauses.combining import (
    AlignColumns,
    CombinedInput,
    Combining,
    Lowered,
    PlanLimits,
    SubQuery,
    common_schema,
)
from tessel.clauses.registry import register
from tessel.errors import IntegerOverflowError, PlanError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Concat(Combining):
    """The rows of this query, then those of the others, in the order given.

    Attributes
    ----------
    others
        The other symbols.
    join
        ``"outer"`` keeps every column, in order of first appearance; one that a symbol does not
        have is missing in its rows. ``"inner"`` keeps the columns that all have.

    Notes
    -----
    Columns of one name get the narrowest type that holds all of theirs without loss (see
    :func:`tessel.store.promotion.promote`). The result has no time index: nothing promises that
    the rows of several symbols are in time order.
    """

    name: ClassVar[str] = "concat"
    chains: ClassVar[bool] = True
    others: tuple[SubQuery, ...]
    join: Literal["outer", "inner"] = "outer"

    def __post_init__(self) -> None:
        if self.join not in ("outer", "inner"):
            raise PlanError(f"concat: join is {self.join!r}", hint="it is outer or inner")

    structure = ClauseInfo(Structure.MULTI_SYMBOL, index=IndexEffect.DROP)

    def combined_schema(self, schemas: Sequence[TableSchema]) -> TableSchema:
        """Return the schema of the result from those of all inputs."""
        return TableSchema(common_schema("concat", schemas, self.join))

    def reads(
        self, columns: frozenset[str], schemas: Sequence[TableSchema]
    ) -> list[frozenset[str]]:
        """Return the columns of those names."""
        return [columns & set(schema.names) for schema in schemas]

    def lowered(
        self, inputs: Sequence[CombinedInput], combined: TableSchema, limits: PlanLimits
    ) -> Lowered:
        """Return what aligns the columns: the units are in order already."""
        return Lowered((AlignColumns(combined),))


def brought_to(table: pa.Table, schema: pa.Schema, clause: str) -> pa.Table:
    """Return a table with the columns of a schema: added as missing, left out, or converted.

    Raises IntegerOverflowError for a value that the common type cannot count, naming the column and
    both types.

    Parameters
    ----------
    schema
        Of types that hold those of the columns.
    """
    if table.schema.equals(schema):
        return table
    columns = []
    for field in schema:
        if field.name not in table.schema.names:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
            continue
        column = table.column(field.name)
        try:
            chunks = [converted(chunk, field.type) for chunk in column.chunks]
        except pa.ArrowInvalid as error:
            raise IntegerOverflowError(
                f"{clause}: column {field.name!r} is {column.type} in one symbol and becomes "
                f"{field.type}, which does not hold all of its values",
                detail=str(error),
                hint="filter such values away, or cast the other symbol's column",
                column=field.name,
            ) from error
        columns.append(pa.chunked_array(chunks, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in another type, also within lists and structs.

    pyarrow's own cast (26) is wrong for slices of structs, makes damaged arrays of lists of a fixed
    size where rows are missing, and ends the process where truth values have no buffer.

    Raises ``pyarrow.ArrowInvalid`` for a value that the type does not hold.
    """
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return _struct(array, kind)
    if pa.types.is_nested(kind) and pa.types.is_nested(array.type):
        return _list(array, kind)
    if pa.types.is_dictionary(kind) and pa.types.is_dictionary(array.type):
        entries = converted(array.dictionary, kind.value_type)
        indices = array.indices.cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, entries, ordered=kind.ordered)
    return array.cast(kind)


def _struct(array: pa.StructArray, kind: pa.StructType) -> pa.Array:
    """Return a struct with more fields, or wider ones."""
    held = dict(zip(array.type.names, array.flatten(), strict=True))
    children = [
        converted(held[field.name], field.type)
        if field.name in held
        else pa.nulls(len(array), field.type)
        for field in kind
    ]
    null = array.is_null() if array.null_count else None
    if not children:
        return array.cast(kind)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=null)


def _list(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a list of other items; what lies under nulls and outside a slice is left behind."""
    lengths = np.asarray(fill_null(pc.list_value_length(array), 0), np.int64)
    items = converted(array.flatten(), kind.value_type)
    null = array.is_null() if array.null_count else None
    if pa.types.is_fixed_size_list(kind):
        known = numpy_array(array.is_valid())
        others = lengths[known & (lengths != kind.list_size)]
        if len(others):
            raise pa.ArrowInvalid(f"a list of {others[0]} items")
        if null is not None:  # nulls take their places, too
            places = np.full((len(array), kind.list_size), -1, np.int64)
            places[known] = np.arange(len(items)).reshape(-1, max(1, kind.list_size))
            flat = places.ravel()
            items = items.take(arrow_array(flat, mask=flat < 0))
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=null)
    large = pa.types.is_large_list(kind)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    made = pa.LargeListArray if large else pa.ListArray
    width = pa.int64() if large else pa.int32()
    return made.from_arrays(arrow_array(offsets, width), items, type=kind, mask=null)
