"""Taking a frame for a symbol that exists: its columns, its types, and how both may grow."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from tessel.arrays import empty_table
from tessel.errors import InvalidInputError, SchemaMismatchError
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.frames import Frame, describe_differences, read_frame
from tessel.store.history.symbol import SymbolState
from tessel.store.operations.widening import can_widen, can_widen_index
from tessel.store.operations.working import Working
from tessel.store.segment.types import normalise

__all__ = ["EVOLUTIONS", "Incoming", "checked_metadata", "take"]

EVOLUTIONS = ("add", "widen")
"""How a frame may change the columns of its symbol: by new ones, by wider types."""


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
    """

    state: SymbolState
    kinds: tuple[str, ...]
    tables: Iterable[pa.Table]

    def table(self) -> pa.Table:
        """Return all rows as one table."""
        schema = self.state.schema.arrow
        return pa.concat_tables([empty_table(schema), *self.tables])

    def apply(self, working: Working) -> None:
        """Give a symbol the columns."""
        for kind in self.kinds:
            state = self.state
            ids = dict(state.column_ids)
            working.change_schema(state.schema, ids, state.next_column_id, kind)


def take(working: Working, data: Any, evolve: str | Iterable[str] | None = None) -> Incoming:
    """Take a frame for a symbol.

    Its columns are those of the symbol, in any order, with the same types. A column of nulls
    without a type goes with any; a column of the symbol that had no type takes the one it is given.

    Parameters
    ----------
    working
        The symbol.
    data
        A table of any kind that :mod:`tessel.store.frames` takes.
    evolve
        What else may differ, of :data:`EVOLUTIONS`.

    Raises
    ------
    SchemaMismatchError
        For columns that differ otherwise; names all of them.
    """
    allowed = _evolutions(evolve)
    frame = read_frame(data)
    state, kinds = _evolved(working.state, frame.schema, allowed)
    declared = state.schema.arrow
    differences = describe_differences(declared, _as_given(frame.schema, declared, allowed))
    if differences:
        raise SchemaMismatchError(
            f"the table has not the columns of symbol {working.name!r}",
            detail="\n".join(differences),
            hint=_way_out(working.state, frame.schema, allowed, differences),
            symbol=working.name,
            differences=differences,
        )
    return Incoming(state, kinds, _tables(frame, declared))


def _way_out(
    state: SymbolState, given: pa.Schema, allowed: frozenset[str], differences: list[str]
) -> str:
    """Say what would help: of the ways for columns to grow those that do, and were not given."""

    def left(ways: frozenset[str]) -> int:
        declared = _evolved(state, given, ways)[0].schema.arrow
        return len(describe_differences(declared, _as_given(given, declared, ways)))

    helpful = [way for way in EVOLUTIONS if left(allowed | {way}) < len(differences)]
    ways = [*sorted(allowed), *helpful]
    shown = repr(ways[0]) if len(ways) == 1 else repr(ways)
    grow = f", let them grow with evolve={shown}" if helpful else ""
    lacking = any(name not in given.names for name in state.schema.names)
    add = ", add those that are missing, of nulls" if lacking else ""
    return f"cast or rename the columns{grow}{add}, or write the symbol anew"


def _tables(frame: Frame, declared: pa.Schema) -> Iterable[pa.Table]:
    return (normalise(table.select(declared.names), declared) for table in frame.tables)


def _evolutions(evolve: str | Iterable[str] | None) -> frozenset[str]:
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
            if "add" in allowed:
                fields[field.name] = pa.field(field.name, field.type)
                ids[field.name] = next_id
                next_id += 1
                kinds["add column"] = None
            continue
        own = fields[field.name].type
        untyped = pa.types.is_null(own) and not pa.types.is_null(field.type)
        widens = can_widen_index if field.name == state.schema.index else can_widen
        if untyped or ("widen" in allowed and own != field.type and widens(own, field.type)):
            fields[field.name] = pa.field(field.name, field.type)
            kinds["widen"] = None
    if not kinds:
        return state, ()
    schema = TableSchema(pa.schema(fields.values()), state.schema.index)
    evolved = dataclasses.replace(state, schema=schema, column_ids=ids, next_column_id=next_id)
    return evolved, tuple(kinds)


def _as_given(given: pa.Schema, declared: pa.Schema, allowed: frozenset[str]) -> pa.Schema:
    """Return the given columns with the declared types where they can be taken as such."""
    types = {field.name: field.type for field in declared}
    fields = []
    for field in given:
        own = types.get(field.name)
        if own is not None and (
            pa.types.is_null(field.type) or ("widen" in allowed and can_widen(field.type, own))
        ):
            fields.append(pa.field(field.name, own))
        else:
            fields.append(field)
    return pa.schema(fields, given.metadata)


def checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return metadata as they will come back; ``InvalidInputError`` where they would not."""
    if metadata is None:
        return {}
    try:
        copied = json.loads(json.dumps(dict(metadata), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the metadata of a symbol are plain JSON: {error}",
            hint="use text, numbers, booleans, None, lists and dictionaries with text keys",
        ) from error
    if copied != dict(metadata):
        raise InvalidInputError(
            "the metadata of a symbol would not come back as they are",
            hint="use text, numbers, booleans, None, lists and dictionaries with text keys",
        )
    found: dict[str, Any] = copied
    return found
