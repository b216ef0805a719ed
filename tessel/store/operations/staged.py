"""stage: a worker writes rows that belong to no version yet, and says what it wrote.

What it says is a :class:`StagedRows`: plain data that travels back to whoever finalises. It refers
to a small manifest, which holds keys, row counts and checksums of the segments; the descriptor
holds the manifest's own checksum. It comes from outside, so all of it is checked before it is used.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import pyarrow as pa

from tessel.errors import (
    CorruptStoreError,
    InvalidInputError,
    SchemaMismatchError,
    UnicodeTextError,
)
from tessel.errors.arguments import checks_arguments
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.frames import Frame, describe_differences, read_frame
from tessel.store.history.documents import Fields, fields_of
from tessel.store.history.symbol import SymbolState, rows_of
from tessel.store.index_column import check_index, in_order
from tessel.store.names import check_symbol_name, object_kind
from tessel.store.operations.stage import Stage
from tessel.store.segment.writer import assign_column_ids

_FORMAT = 1
_FIELDS = ("tessel_staged", "store", "symbol", "task", "attempt", "base", "state")
_TASK_CHARACTERS = 200
_ATTEMPT_BYTES = 8


@checks_arguments
@dataclass(frozen=True, slots=True)
class StagedRows:
    """What one attempt of one task wrote: plain data, to be handed to ``finalize``.

    Attributes
    ----------
    store
        The id of the store.
    symbol
        The symbol that the rows are for.
    task
        What the caller calls the task.
    attempt
        A random id; each call of ``stage`` makes another one.
    base
        The newest version when the rows were staged.
    state
        The rows as if they were a symbol: schema, column ids, and the extent in the manifest.
    """

    store: str
    symbol: str
    task: str
    attempt: str
    base: int
    state: SymbolState

    def __repr__(self) -> str:
        return f"<StagedRows of task {self.task!r} for {self.symbol!r}: {self.rows} rows>"

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.state.rows

    @property
    def schema(self) -> TableSchema:
        """The columns, and the index."""
        return self.state.schema

    @property
    def times(self) -> tuple[int, int] | None:
        """First and last value of the index in its own unit; None without an index or rows."""
        if not self.state.manifests:
            return None
        (extent,) = self.state.manifests
        if extent.first_time is None or extent.last_time is None:
            return None
        return extent.first_time, extent.last_time

    def to_json(self) -> dict[str, Any]:
        """Return the descriptor as plain data."""
        return {"tessel_staged": _FORMAT, **fields_of(self), "state": self.state.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str) -> Self:
        """Rebuild a descriptor from its plain data, or the text of it.

        Raises
        ------
        InvalidInputError
            For anything else.
        """
        if isinstance(data, str):
            try:
                data = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise _no_descriptor(f"its text is not JSON: {error}") from error
        if not isinstance(data, Mapping) or set(data) != set(_FIELDS):
            raise _no_descriptor(f"its fields are not {', '.join(_FIELDS)}")
        try:
            fields = Fields(dict(data), "the descriptor")
            if fields.integer("tessel_staged") != _FORMAT:
                raise _no_descriptor("another release wrote it")
            store, symbol, task, attempt = map(fields.text, _FIELDS[1:5])
            state, base = SymbolState.read(fields.fields("state")), fields.integer("base")
            found = cls(store, check_symbol_name(symbol), check_task(task), attempt, base, state)
        except CorruptStoreError as error:
            raise _no_descriptor(error.message) from error
        found._check()
        return found

    def _check(self) -> None:
        extents = self.state.manifests
        if len(self.attempt) != 2 * _ATTEMPT_BYTES or set(self.attempt) - set("0123456789abcdef"):
            raise _no_descriptor("its attempt is none")
        if len(extents) > 1 or any(extent.cut or extent.first_row for extent in extents):
            raise _no_descriptor("its rows are not all of one manifest")
        if any(object_kind(extent.reference.object) != "man" for extent in extents):
            raise _no_descriptor("what it refers to is no manifest")
        if extents and (self.times is None) != (self.schema.index is None):
            raise _no_descriptor("its times do not fit its index")
        if self.times is not None and self.times[0] > self.times[1]:
            raise _no_descriptor("its times go back")


def _no_descriptor(why: str) -> InvalidInputError:
    return InvalidInputError(
        f"this is no descriptor of staged rows: {why}",
        hint="pass on what stage() returned, or its to_json(), as it is",
    )


def check_task(task: object) -> str:
    """Return the name of a task; ``InvalidInputError`` for anything but a short text."""
    if not isinstance(task, str) or not 0 < len(task) <= _TASK_CHARACTERS:
        raise InvalidInputError(
            f"task_id={task!r:.60} does not name a task",
            hint=f"give text of 1 to {_TASK_CHARACTERS} characters that the task keeps when it is "
            "tried again",
        )
    UnicodeTextError.require(task, "the name of a task")
    return task


def stage_rows(
    stage: Stage,
    store: str,
    symbol: str,
    data: Any,
    *,
    task_id: str,
    index: str | Literal[False] | None = None,
    sort: bool = False,
) -> StagedRows:
    """Write rows that no version refers to; see ``Repository.stage``."""
    check_symbol_name(symbol)
    check_task(task_id)
    frame = read_frame(data)
    before = stage.base.snapshot.get(symbol)
    index = _index(frame, index, before, sort=sort)
    check_index(frame.schema, index, sort=sort)
    state = _state(TableSchema(frame.schema, index), before)
    try:
        hint = "stage(…, sort=True) sorts the rows first"
        rows = in_order(frame.tables, index, sort=sort, hint=hint)
        extents = stage.written(state, rows)
    finally:
        stage.session.close()
    shape = frame.pandas and frame.pandas.keyed(state.column_ids)
    state = dataclasses.replace(state, manifests=extents, rows=rows_of(extents), pandas=shape)
    attempt = secrets.token_hex(_ATTEMPT_BYTES)
    return StagedRows(store, symbol, task_id, attempt, stage.base.number, state)


def _index(
    frame: Frame, asked: str | Literal[False] | None, before: SymbolState | None, *, sort: bool
) -> str | None:
    if asked is not None:
        return asked or None
    known = None if before is None else before.schema.index
    return known if known in frame.schema.names else frame.time_index(sort=sort)


def _state(schema: TableSchema, before: SymbolState | None) -> SymbolState:
    """Return columns with ids under which the rows can become those of the symbol as they are."""
    first = 0
    if before is not None:
        ids = before.column_ids
        known = before.schema
        if all(
            name in ids and known.type_of(name) == schema.type_of(name) for name in schema.names
        ):
            kept = {name: ids[name] for name in schema.names}
            return SymbolState(secrets.randbits(63), schema, kept, before.next_column_id)
        first = before.next_column_id
    ids = assign_column_ids(schema, first)
    return SymbolState(secrets.randbits(63), schema, ids, first + len(ids))


# --- columns of staged rows, and of the symbol that they become rows of ---------------------------


def common_schema(staged: Sequence[StagedRows]) -> TableSchema:
    """Return the columns of all stages; a column of nulls without a type goes with any."""
    first = staged[0]
    arrow = first.schema.arrow
    for each in staged[1:]:
        arrow = _typed(arrow, each.schema.arrow)
    for each in staged:
        _require_same(
            TableSchema(arrow, first.schema.index),
            each.schema,
            f"task {each.task!r} staged other columns than task {first.task!r}",
            "stage the same columns in every task",
            task=each.task,
        )
    return TableSchema(arrow, first.schema.index)


def _typed(schema: pa.Schema, known: pa.Schema) -> pa.Schema:
    """Return a schema whose columns without a type have that of another one, where it has them."""
    for at, field in enumerate(schema):
        if pa.types.is_null(field.type) and field.name in known.names:
            schema = schema.set(at, pa.field(field.name, known.field(field.name).type))
    return schema


def _require_same(
    wanted: TableSchema, given: TableSchema, what: str, hint: str, **context: str
) -> None:
    differences = describe_differences(wanted.arrow, _typed(given.arrow, wanted.arrow))
    if given.index != wanted.index:
        differences.append(f"the index is {given.index!r}, not {wanted.index!r}")
    if differences:
        detail = "\n".join(differences)
        raise SchemaMismatchError(
            what, detail=detail, hint=hint, differences=differences, **context
        )


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
    held, shape = staged[0].state, staged[0].state.pandas
    ids = {name: held.column_ids[name] for name in schema.names}
    if not all(_is_free(name, number, schema, before) for name, number in ids.items()):
        ids = assign_column_ids(schema, first)
    return SymbolState(
        secrets.randbits(63) if before is None else before.id,
        schema,
        ids,
        max(first, 1 + max(ids.values())),
        metadata=metadata,
        pandas=shape and shape.keyed({n: ids[name] for name, n in held.column_ids.items()}),
    )


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
    wanted = TableSchema(arrow, state.schema.index)
    _require_same(
        wanted,
        schema,
        f"the tasks have not staged the columns of symbol {symbol!r}",
        "cast or rename the columns before staging, or finalize with mode='write'",
        symbol=symbol,
    )
    return dataclasses.replace(state, schema=wanted)


def same_ids(staged: SymbolState, target: SymbolState) -> bool:
    """Return whether rows were staged under the ids that the columns of a symbol have."""
    return all(staged.column_ids[name] == number for name, number in target.column_ids.items())
