"""What users give for a symbol: frames, rows as dictionaries, metadata; checked and converted.

Columns grow by new ones and by wider types. A type can be widened to those that hold every value of
it exactly:

==================  ==========================================================================
from                to
==================  ==========================================================================
null                every type
an integer          every integer type with its whole range
an integer          float32 up to 16 bits, float64 up to 32 bits
an integer          a decimal with room for all its digits before the point
float32             float64
a decimal           a decimal with as many digits or more before the point, and after it
time32, time64      a time of a finer unit
date32              date64
a dictionary        the type of its values, and what that can be widened to
a list              a list of items that can be widened, dictionaries apart
==================  ==========================================================================

Timestamps and durations keep their unit: a finer one does not reach as far. The index keeps its
unit too, days or milliseconds: manifests count its times in it.

``evolve="flexible"`` goes to the common type of :func:`tessel.store.promotion.promote`, and to
float64 for 64-bit integers beside floats. Where that type does not hold every value of the old one,
the values decide: the column is stored anew, or the first value that does not fit is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from tessel.arrays import concat_tables, empty_table
from tessel.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
    TesselError,
)
from tessel.expression.scalars import array_of
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.frames import Frame, describe_differences, read_frame
from tessel.store.history.symbol import SymbolState
from tessel.store.operations.stage import Stage
from tessel.store.operations.working import Working
from tessel.store.promotion import promote
from tessel.store.segment.types import normalise

Evolve = str | Iterable[str] | None
"""How a table may change the columns of its symbol: one or several of :data:`EVOLUTIONS`."""

EVOLUTIONS = ("add", "widen", "flexible")
"""By new columns; by wider types; by both, common types, and columns that the table lacks."""


@dataclass(frozen=True)
class Incoming:
    """A frame that was taken for a symbol.

    Attributes
    ----------
    state
        The symbol with the columns that it shall have.
    kinds
        How its columns change, in the words of the log; empty where they do not.
    tables
        The rows with these columns; can be gone through once.
    retyped
        The columns that are to be stored anew, with the ids that they have in ``state``.
    """

    state: SymbolState
    kinds: tuple[str, ...]
    tables: Iterable[pa.Table]
    retyped: tuple[str, ...] = ()

    def table(self) -> pa.Table:
        """Return all rows as one table."""
        schema = self.state.schema.arrow
        return concat_tables([empty_table(schema), *self.tables])

    def apply(self, working: Working, stage: Stage | None = None) -> None:
        """Give a symbol the columns; without a ``stage`` what is to be stored anew is not."""
        if self.retyped and stage is not None:
            from tessel.store.operations.columns import retype

            retype(stage, working, self.state, self.retyped)
        for kind in self.kinds:
            working.change_schema(self.state.schema, self.state.column_ids, kind)


def take(working: Working, data: Any, evolve: Evolve = None) -> Incoming:
    """Take a frame for a symbol.

    Its columns are those of the symbol, in any order, with the same types. A column of nulls
    without a type goes with any; a column of the symbol that had no type takes the one it is given.

    Raises SchemaMismatchError for columns that differ otherwise; names all of them.

    Parameters
    ----------
    data
        A table of any kind that :mod:`tessel.store.frames` takes.
    evolve
        What else may differ, of :data:`EVOLUTIONS`.
    """
    allowed = _evolutions(evolve)
    frame = read_frame(data, working.state.schema.arrow)
    _check_levels(working, frame)
    state, kinds = _evolved(working.state, frame.schema, allowed)
    declared, held = state.schema.arrow, working.state.column_ids
    retyped = tuple(n for n, number in held.items() if state.column_ids[n] != number)
    differences = describe_differences(declared, _as_given(frame.schema, state.schema, allowed))
    if differences:
        raise SchemaMismatchError(
            f"the table has not the columns of symbol {working.name!r}",
            detail="\n".join(differences),
            hint=_way_out(working.state, frame.schema, allowed, differences),
            symbol=working.name,
            differences=differences,
        )
    return Incoming(state, kinds, _tables(frame, declared), retyped)


def _check_levels(working: Working, frame: Frame) -> None:
    """Refuse a pandas frame whose index has other names than that of the symbol."""
    held = working.state.pandas
    names = {number: name for name, number in working.state.column_ids.items()}
    own = [] if held is None else [key for key, _ in held.keyed(names).levels]
    given = [] if frame.pandas is None else [key for key, _ in frame.pandas.levels]
    if own and given and own != given:
        shown, found = (", ".join(map(repr, each)) for each in (own, given))
        way = "turn it into columns: frame.reset_index()"
        if set(own) == set(given):
            way = f"bring its levels to that order: frame.reorder_levels({own!r}), or {way}"
        elif len(own) == len(given):
            label = own[0] if len(own) == 1 else own
            way = f"rename it: frame.rename_axis({label!r}), or {way}"
        raise SchemaMismatchError(
            f"the index of the frame is {found}, and that of symbol {working.name!r} is {shown}",
            hint=way,
            symbol=working.name,
        )


def _way_out(
    state: SymbolState, given: pa.Schema, allowed: frozenset[str], differences: list[str]
) -> str:
    """Say what would help: of the ways for columns to grow those that do, and were not given."""

    def left(ways: frozenset[str]) -> int:
        schema = _evolved(state, given, ways)[0].schema
        return len(describe_differences(schema.arrow, _as_given(given, schema, ways)))

    helpful = [way for way in ("add", "widen") if left(allowed | {way}) < len(differences)]
    ways = [*sorted(allowed), *helpful]
    if left(frozenset(ways)) and "flexible" not in allowed and not left(frozenset({"flexible"})):
        ways = helpful = ["flexible"]
    shown = repr(ways[0]) if len(ways) == 1 else repr(ways)
    grow = f", let them grow with evolve={shown}" if helpful else ""
    lacking = any(name not in given.names for name in state.schema.names)
    add = ", add those that are missing, of nulls" if lacking else ""
    return f"cast or rename the columns{grow}{add}, or write the symbol anew"


def _tables(frame: Frame, declared: pa.Schema) -> Iterable[pa.Table]:
    for table in frame.tables:
        for field in declared:
            if field.name not in table.column_names:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
        yield normalise(table.select(declared.names), declared)


def _evolutions(evolve: Evolve) -> frozenset[str]:
    listed = (evolve,) if isinstance(evolve, str) else tuple(() if evolve is None else evolve)
    for each in listed:
        if not isinstance(each, str) or each not in EVOLUTIONS:
            raise InvalidInputError(
                f"evolve={each!r} is no way for columns to grow",
                hint=f"ways: {', '.join(EVOLUTIONS)}; several as a list",
            )
    return frozenset(listed)


def _evolved(
    state: SymbolState, given: pa.Schema, allowed: frozenset[str]
) -> tuple[SymbolState, tuple[str, ...]]:
    fields, ids = {field.name: field for field in state.schema.arrow}, dict(state.column_ids)
    next_id = state.next_column_id
    kinds: dict[str, None] = {}
    for field in given:
        if field.name not in ids:
            if not allowed.isdisjoint({"add", "flexible"}):
                fields[field.name] = pa.field(field.name, field.type)
                ids[field.name] = next_id
                next_id += 1
                kinds["add column"] = None
            continue
        own = fields[field.name].type
        found = _grown(own, field.type, allowed, is_index=field.name == state.schema.index)
        if found is None or found == own:
            continue
        fields[field.name] = pa.field(field.name, found)
        if can_widen(own, found):
            kinds["widen"] = None
        else:
            ids[field.name] = next_id
            next_id += 1
            kinds["fill column"] = None
    if not kinds:
        return state, ()
    schema = TableSchema(pa.schema(fields.values()), state.schema.index)
    evolved = dataclasses.replace(state, schema=schema, column_ids=ids, next_column_id=next_id)
    return evolved, tuple(kinds)


def _grown(
    own: pa.DataType, given: pa.DataType, allowed: frozenset[str], *, is_index: bool
) -> pa.DataType | None:
    """Return the type that a column has after rows of another type; None where they are refused."""
    if pat.is_null(own) or pat.is_null(given):
        return own if pat.is_null(given) else given
    if own == given or not allowed - {"add"}:
        return own if own == given else None
    if is_index:
        return next((b for a, b in ((own, given), (given, own)) if can_widen_index(a, b)), None)
    if can_widen(own, given):
        return given
    if can_widen(given, own):
        return own
    if "flexible" not in allowed or getattr(own, "tz", None) != getattr(given, "tz", None):
        return None
    if all(pat.is_integer(each) or pat.is_floating(each) for each in (own, given)) and (
        pat.is_floating(own) or pat.is_floating(given)
    ):
        return pa.float64()
    try:
        return promote("", (own, given))
    except SchemaMismatchError:
        return None


def _as_given(given: pa.Schema, declared: TableSchema, allowed: frozenset[str]) -> pa.Schema:
    """Return the given columns with the declared types where they can be taken as such."""
    fields = []
    for field in given:
        if field.name in declared:
            own = declared.type_of(field.name)
            is_index = field.name == declared.index
            if _grown(own, field.type, allowed, is_index=is_index) == own:
                field = field.with_type(own)
        fields.append(field)
    if "flexible" in allowed:
        named = {*given.names, declared.index}
        fields += [field for field in declared.arrow if field.name not in named]
    return pa.schema(fields, given.metadata)


_UNITS = ("s", "ms", "us", "ns")


def can_widen(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether every value of one stored type can be one of another, exactly."""
    if old == new or pat.is_null(old):
        return True
    if pat.is_dictionary(old):
        return not pat.is_dictionary(new) and can_widen(old.value_type, new)
    if pat.is_integer(old):
        return _integer(old, new)
    if pat.is_float32(old):
        return bool(pat.is_float64(new))
    if pat.is_decimal128(old) and pat.is_decimal128(new):
        more = new.scale - old.scale
        return bool(more >= 0 and new.precision - old.precision >= more)
    if pat.is_time(old) and pat.is_time(new):
        return bool(_UNITS.index(new.unit) >= _UNITS.index(old.unit))
    if pat.is_date32(old):
        return bool(pat.is_date64(new))
    if pat.is_fixed_size_list(old):
        return bool(
            pat.is_fixed_size_list(new)
            and old.list_size == new.list_size
            and _item(old.value_type, new.value_type)
        )
    if pat.is_list(old) and pat.is_list(new):
        return _item(old.value_type, new.value_type)
    return False


def can_widen_index(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether an index of one type can become one of another: integers of more bits."""
    return old == new or (pat.is_integer(old) and pat.is_integer(new) and can_widen(old, new))


def _item(old: pa.DataType, new: pa.DataType) -> bool:
    # Dictionaries inside of lists cannot be cast.
    return old == new or (not pat.is_dictionary(old) and can_widen(old, new))


def _integer(old: pa.DataType, new: pa.DataType) -> bool:
    signed = pat.is_signed_integer(old)
    bits = old.bit_width - (1 if signed else 0)
    if pat.is_integer(new):
        if pat.is_signed_integer(new):
            return bool(bits <= new.bit_width - 1)
        return bool(not signed and bits <= new.bit_width)
    if pat.is_float32(new):
        return bool(bits <= 24)
    if pat.is_float64(new):
        return bool(bits <= 53)
    if pat.is_decimal128(new):
        return bool(len(str(2**bits)) <= new.precision - new.scale)
    return False


def aligned(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of a schema: added as missing, left out, or cast."""
    if table.schema.equals(schema):
        return table
    names = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in names
        else pa.chunked_array([pa.nulls(table.num_rows, field.type)])
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def rows_as_table(
    rows: Iterable[Mapping[str, Any]], schema: TableSchema, evolve: Evolve
) -> pa.Table:
    """Return rows given as dictionaries as a table with the columns of a symbol.

    Raises ColumnNotFoundError for a name that no column has; InvalidInputError for what are no
    rows, and for values that a column cannot hold.

    Parameters
    ----------
    rows
        The rows; a column that one does not name is missing in it.
    evolve
        Whether other names become columns: as for ``append``.
    """
    listed = list(rows) if isinstance(rows, Iterable) and not isinstance(rows, Mapping) else None
    if listed is None or not all(isinstance(row, Mapping) for row in listed):
        raise InvalidInputError(
            f"rows are a list of dictionaries, not {type(rows).__name__}",
            hint='append_rows([{"price": 1.5, "qty": 3}])',
        )
    names = dict.fromkeys(schema.names)
    for row in listed:
        for name in row:
            if name in names:
                continue
            if _evolutions(evolve) <= {"widen"} or not isinstance(name, str):
                raise ColumnNotFoundError.for_name(str(name), schema.names, where="the symbol")
            names[name] = None
    columns = []
    for name in names:
        kind = schema.type_of(name) if name in schema else None
        try:
            columns.append(array_of([row.get(name) for row in listed], kind))
        except TesselError as error:
            raise error.with_context(column=name) from None
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"the values of column {name!r} could not be taken: {error}",
                hint=f"it is {kind}" if kind is not None else "give values of one type",
                column=name,
            ) from error
    return pa.table(columns, names=list(names))
