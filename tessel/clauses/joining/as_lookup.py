"""A join with few rows, each of which has a key of its own, as clauses on one symbol.

The columns of the right are then functions of the left's key. So such a join is a filter by the
keys and a :class:`~tessel.expression.operators.membership.Lookup` for each column, which the
planner pushes, prunes and fuses as it does any other filter and any other computed column.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.apply import Apply
from tessel.clauses.base import Clause
from tessel.clauses.filter import Filter
from tessel.clauses.joining.shape import JoinShape
from tessel.clauses.values import normalised, plain_type
from tessel.expression import literal_codec
from tessel.expression.leaves import Column, ValueSet
from tessel.expression.operators.boolean import Not, Or
from tessel.expression.operators.membership import IsIn, IsMissing, Lookup
from tessel.expression.types import Family, family

_KEY_FAMILIES = (Family.INTEGER, Family.TEXT, Family.DATE, Family.TIMESTAMP)
"""Keys that are equal where their bits are: of floats, zeros differ. Those of date64 are days, and
its values milliseconds."""


def looks_up(shape: JoinShape) -> bool:
    """Return whether a join is a look-up, where its right has few rows, each with its own key."""
    if shape.keeps_right or len(shape.on) > 1:
        return False
    ((one, two),) = shape.on
    ours, theirs = plain_type(shape.left.type_of(one)), plain_type(shape.right.type_of(two))
    same = ours == theirs or {family(ours), family(theirs)} == {Family.INTEGER}
    if not same or family(theirs) not in _KEY_FAMILIES or pa.types.is_date64(theirs):
        return False
    kinds = [shape.right.type_of(name) for name in shape.right_names]
    return all(plain_type(kind) == kind and literal_codec.kind_of(kind) for kind in kinds)


def as_lookup(shape: JoinShape, rows: pa.Table) -> tuple[Clause, ...] | None:
    """Return the clauses on the left that are a join with these rows; None where it is none.

    Parameters
    ----------
    shape
        Of a join that :func:`looks_up`.
    rows
        The right: its keys, and of its other columns at least those that are read behind the join.
        The others are missing values in what the clauses make.
    """
    ((one, two),) = shape.on
    column = Column(one)
    keys = normalised(rows.column(two))
    known = keys.is_valid()
    keys, rows = keys.filter(known), rows.filter(known)
    if shape.adds_columns and len(keys.unique()) < len(keys):
        return None
    clauses: list[Clause] = []
    if shape.how != "left":
        found = IsIn(column, ValueSet.of(keys))
        clauses.append(
            Filter(Or((Not(found), IsMissing(column))) if shape.how == "anti" else found)
        )
    kind = plain_type(shape.left.type_of(one))
    fitting = _fitting(keys, kind)
    keys, rows = keys.filter(fitting).cast(kind), rows.filter(fitting)
    for name, shown in shape.right_names.items():
        if name in rows.column_names:
            values = rows.column(name).combine_chunks()
        else:
            values = pa.nulls(len(keys), shape.right.type_of(name))
        clauses.append(Apply(shown, Lookup.of_columns(column, keys, values)))
    return tuple(clauses)


def _fitting(keys: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return which keys a type can hold: a column of that type has no others."""
    if not pa.types.is_integer(kind) or keys.type == kind:
        return arrow_array(np.ones(len(keys), np.bool_))
    numbers, held = numpy_array(keys), np.iinfo(kind.to_pandas_dtype())
    return arrow_array((numbers >= held.min) & (numbers <= held.max))
