"""The columns of staged rows, and those of the symbol that they become rows of."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tessel.errors import SchemaMismatchError
from tessel.expression.schema import TableSchema
from tessel.store.frames import describe_differences
from tessel.store.history.symbol import SymbolState
from tessel.store.operations.stage import Stage
from tessel.store.operations.staged import StagedRows
from tessel.store.pandas_shape import PandasShape
from tessel.store.segment.writer import assign_column_ids


def common_schema(staged: Sequence[StagedRows]) -> TableSchema:
    """Return the columns of all stages; a column of nulls without a type goes with any."""
    first = staged[0]
    arrow = first.schema.arrow
    for each in staged[1:]:
        arrow = _typed(arrow, each.schema.arrow)
    for each in staged:
        differences = _differences(arrow, each.schema.arrow)
        if each.schema.index != first.schema.index:
            differences.append(f"the index is {each.schema.index!r}, not {first.schema.index!r}")
        if differences:
            raise SchemaMismatchError(
                f"task {each.task!r} staged other columns than task {first.task!r}",
                detail="\n".join(differences),
                hint="stage the same columns in every task",
                task=each.task,
                differences=differences,
            )
    return TableSchema(arrow, first.schema.index)


def _typed(schema: pa.Schema, known: pa.Schema) -> pa.Schema:
    """Return a schema whose columns without a type have that of another one, where it has them."""
    for at, field in enumerate(schema):
        if pa.types.is_null(field.type) and field.name in known.names:
            schema = schema.set(at, pa.field(field.name, known.field(field.name).type))
    return schema


def _differences(declared: pa.Schema, given: pa.Schema) -> list[str]:
    return describe_differences(declared, _typed(given, declared))


def written_state(
    stage: Stage,
    symbol: str,
    staged: Sequence[StagedRows],
    schema: TableSchema,
    metadata: Mapping[str, Any],
) -> SymbolState:
    """Return a symbol without rows, with the ids of the stages wherever no column had them."""
    working = stage.find(symbol)
    before = None if working is None or working.base_name not in (None, symbol) else working.state
    first = 0 if before is None else before.next_column_id
    ids = {name: staged[0].state.column_ids[name] for name in schema.names}
    if not all(_is_free(name, number, schema, before) for name, number in ids.items()):
        ids = assign_column_ids(schema, first)
    return SymbolState(
        secrets.randbits(63) if before is None else before.id,
        schema,
        ids,
        max(first, 1 + max(ids.values())),
        metadata=metadata,
        pandas=_pandas_of(staged[0].state, ids),
    )


def _pandas_of(staged: SymbolState, ids: Mapping[str, int]) -> PandasShape | None:
    keys = {number: ids[name] for name, number in staged.column_ids.items()}
    return staged.pandas and staged.pandas.keyed(keys)


def _is_free(name: str, number: int, schema: TableSchema, before: SymbolState | None) -> bool:
    if before is None or number >= before.next_column_id:
        return True
    same = before.column_ids.get(name) == number
    return same and before.schema.type_of(name) == schema.type_of(name)


def appended_state(stage: Stage, symbol: str, schema: TableSchema) -> SymbolState:
    """Return a symbol as it is, with types for columns that had none."""
    working = stage.existing(symbol)
    state = working.state
    arrow = _typed(state.schema.arrow, schema.arrow)
    differences = _differences(arrow, schema.arrow)
    if state.schema.index != schema.index:
        differences.append(f"the index is {schema.index!r}, not {state.schema.index!r}")
    if differences:
        raise SchemaMismatchError(
            f"the tasks have not staged the columns of symbol {symbol!r}",
            detail="\n".join(differences),
            hint="cast or rename the columns before staging, or finalize with mode='write'",
            symbol=symbol,
            differences=differences,
        )
    return dataclasses.replace(state, schema=TableSchema(arrow, state.schema.index))


def same_ids(staged: SymbolState, target: SymbolState) -> bool:
    """Return whether rows were staged under the ids that the columns of a symbol have."""
    return all(staged.column_ids[name] == number for name, number in target.column_ids.items())
