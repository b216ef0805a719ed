"""Running the clauses of a stage on one unit: the one function that every executor calls."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeGuard, TypeVar, cast

import pyarrow as pa

from tessel import telemetry
from tessel.arrays import concat_tables, empty_table
from tessel.cancelling import check_cancelled
from tessel.clauses.base import Clause
from tessel.clauses.capabilities import (
    Broadcasts,
    Carries,
    Consumes,
    DynamicFilter,
    Expands,
    Filters,
    Interleaves,
    Joins,
    has_capability,
    opens_filter,
)
from tessel.clauses.units.bound_unit import BoundUnit, is_bound
from tessel.clauses.units.pieces import is_of_storage
from tessel.clauses.units.reduced import ReducedUnit
from tessel.ecs import Piece, ProcessingUnit, segments_of
from tessel.ecs.piece import ColRange, RowRange
from tessel.errors import (
    CancelledError,
    ClauseFailedError,
    PlanError,
    SchemaPromiseError,
    TesselError,
)
from tessel.expression.schema import TableSchema
from tessel.pipeline.plan import Stage
from tessel.pipeline.promises import as_promised, first_error

Result = TypeVar("Result")


def run_stage(
    stage: Stage, unit: ProcessingUnit, dynamic: DynamicFilter | None = None
) -> ProcessingUnit:
    """Run the clauses of a stage one after another and hold each to the schema that it promised.

    Raises TesselError as the clause raised it, with the clause named. Of several rows that fail it
    is the error of the first one, whichever clause that fails in; ClauseFailedError for any other
    exception of a clause, which is its cause; SchemaPromiseError when what comes out is not what
    ``output_schema`` said.

    Parameters
    ----------
    dynamic
        The dynamic filter of a run, of the clause that opened it; where there is none, a unit that
        is not read has one of its own.
    """
    result, clauses, schemas = unit, stage.clauses, stage.schemas
    for at, clause in enumerate(clauses):
        try:
            result = run_clause(clause, schemas[at + 1], result, dynamic=dynamic)
        except CancelledError:
            raise  # it is no answer of any row
        except TesselError as error:
            if isinstance(unit, BoundUnit):
                raise  # which row fails first is seen on whole rows

            def run(start: int, stop: int, part: ProcessingUnit) -> ProcessingUnit:
                for number in range(start, stop):
                    clause = clauses[number]
                    part = run_clause(clause, schemas[number + 1], part)
                return part

            first = first_error(clauses, unit, at, error, run)
            if first is error:
                raise
            raise first from first.__cause__
    if isinstance(result, ReducedUnit):
        return result
    if any(clause.name != "leave_codes" for clause in clauses):  # which leaves rows as they are
        return without_segments(result)
    return ProcessingUnit(result.ordinal, result.schema, result.pieces)


def run_bound(
    stage: Stage, unit: ProcessingUnit, dynamic: DynamicFilter | None = None
) -> ProcessingUnit:
    """Run a stage as `run_stage` does, on a unit that may be not read yet, and read it.

    Where a row fails, all rows are read: which of them is the first, in this clause or in one
    behind it, is seen on whole rows.
    """
    try:
        return run_stage(stage, unit, dynamic)
    except TesselError as error:
        if not needs_whole_rows(unit, error):
            raise
        bound = unit
    return run_stage(stage, bound.read_whole())


def needs_whole_rows(unit: ProcessingUnit, error: TesselError) -> TypeGuard[BoundUnit]:
    """Return whether a unit is bound, and its rows may say another error than it raised."""
    of_rows = not isinstance(error, CancelledError) and not is_of_storage(error)
    return isinstance(unit, BoundUnit) and of_rows


def reduce_bound(clause: Clause, promised: TableSchema, unit: BoundUnit) -> ProcessingUnit | None:
    """Let a clause that joins reduce a unit of several batches; None where each goes alone."""
    joining: object = clause
    assert has_capability(joining, Joins)
    unit, began = unit.by_clause(clause.name), time.monotonic_ns()
    found = _named_errors(clause, joining.reduced, unit, unit=unit)
    if found is None:
        return None
    _note_bound(clause, unit, found, began)
    return as_promised(clause, found, promised)


def summarise(stage: Stage, unit: ProcessingUnit) -> pa.Table:
    """Return what a unit means to its neighbours, for a stage whose first clause carries."""
    clause = carrying_clause(stage)
    with telemetry.span("clause.summary", clause=stage.clauses[0].name, unit=unit.ordinal):
        return _carry_of(stage, clause.summary, unit, unit=unit)


def combine_carries(stage: Stage, earlier: pa.Table, later: pa.Table) -> pa.Table:
    """Return the carry of two runs of units that follow one another."""
    clause = carrying_clause(stage)
    return _carry_of(stage, clause.combine, earlier, later, stage.schemas[0])


def run_between(
    stage: Stage, unit: ProcessingUnit, before: pa.Table, after: pa.Table
) -> ProcessingUnit:
    """Run all clauses of a stage on a unit whose neighbours' carries are known."""
    clause = carrying_clause(stage)
    for carry in (before, after):
        _check_carry(stage, carry)
    unit = run_clause(
        stage.clauses[0],
        stage.schemas[1],
        unit,
        lambda unit: clause.process_between(unit, before, after),
    ).with_text()
    unit = without_segments(unit) if len(stage.clauses) == 1 else unit
    return run_stage(stage.after(1), unit)


def carrying_clause(stage: Stage) -> Carries:
    """Return the first clause of a stage, which says of itself that it carries.

    Raises PlanError when it lacks the methods for it.
    """
    clause = stage.clauses[0]
    if not has_capability(clause, Carries):
        raise PlanError(
            f"clause {clause.name!r} declares carries={stage.carries!s}, without the methods",
            hint="implement carry_schema, summary, combine, suffices and process_between",
            clause=clause.name,
        )
    return clause


def nothing_carried(stage: Stage) -> pa.Table:
    """Return the carry of no rows."""
    return empty_table(carrying_clause(stage).carry_schema(stage.schemas[0]))


def _carry_of(
    stage: Stage,
    make: Callable[..., pa.Table],
    *given: object,
    unit: ProcessingUnit | None = None,
) -> pa.Table:
    carry = _named_errors(stage.clauses[0], make, *given, unit=unit)
    _check_carry(stage, carry)
    return carry


def _check_carry(stage: Stage, carry: pa.Table) -> None:
    promised = carrying_clause(stage).carry_schema(stage.schemas[0])
    if not isinstance(carry, pa.Table) or not carry.schema.equals(promised):
        clause = stage.clauses[0]
        found = carry.schema if isinstance(carry, pa.Table) else type(carry).__name__
        raise SchemaPromiseError(
            f"clause {clause.name!r} promised other columns of its carry than it returned",
            detail=f"promised: {promised.to_string()}\nreturned: {found!s}",
            hint="make carry_schema agree with summary and combine",
            clause=clause.name,
        )


def run_clause(
    clause: Clause,
    promised: TableSchema,
    unit: ProcessingUnit,
    process: Callable[[ProcessingUnit], ProcessingUnit] | None = None,
    *,
    dynamic: DynamicFilter | None = None,
) -> ProcessingUnit:
    """Run one clause on a unit, by ``process`` in place of its own; the unit may be not read.

    Rows of one that is not read are dropped by the dynamic filter of a clause that has one.
    """
    check_cancelled()
    if is_bound(unit):
        if process is None and opens_filter(clause):
            process = functools.partial(_filtered, clause, dynamic)
        own = unit.by_clause(clause.name)
        return _bound(clause, promised, own, process or clause.process)
    process = process or clause.process
    with telemetry.span("clause.process", clause=clause.name, unit=unit.ordinal) as facts:
        rows = unit.num_rows
        result = _named_errors(clause, process, unit, unit=unit)
        found = as_promised(clause, result, promised)
        facts.update(rows_in=rows, rows_out=found.num_rows)
        if telemetry.is_followed():
            facts.update(bytes=found.nbytes)
    return found


def _filtered(
    clause: Clause, dynamic: DynamicFilter | None, unit: ProcessingUnit
) -> ProcessingUnit:
    assert isinstance(unit, BoundUnit)
    narrowed = unit.narrowed_by(dynamic or cast(Filters, clause).open_filter())
    return clause.process(unit) if narrowed is None else narrowed


def _bound(
    clause: Clause,
    promised: TableSchema,
    unit: BoundUnit,
    process: Callable[[ProcessingUnit], ProcessingUnit],
) -> ProcessingUnit:
    began = time.monotonic_ns()
    found = as_promised(clause, _named_errors(clause, process, unit, unit=unit), promised)
    if not is_bound(found):  # what is bound has its event when it is evaluated
        _note_bound(clause, unit, found, began)
    elif telemetry.is_followed() and (columns := unit.take_forms()):
        took_ns = time.monotonic_ns() - began
        telemetry.emit(
            "clause.read",
            duration_ns=took_ns,
            clause=clause.name,
            unit=unit.ordinal,
            columns=columns,
        )
    return found


def _note_bound(clause: Clause, unit: BoundUnit, found: ProcessingUnit, began: int) -> None:
    if not telemetry.is_followed():
        return
    telemetry.emit(
        "clause.process",
        duration_ns=time.monotonic_ns() - began,
        clause=clause.name,
        unit=unit.ordinal,
        rows_in=unit.rows_spanned,
        rows_out=found.num_rows,
        bytes=found.nbytes,
        stored=unit.was_reduced,
        columns=unit.told if unit.was_reduced else {},
        bound=unit.bound_clauses if unit.was_reduced else [],
    )


def _named_errors(
    clause: Clause,
    work: Callable[..., Result],
    *given: object,
    unit: ProcessingUnit | None = None,
) -> Result:
    """Return ``work(*given)``; errors name the clause, and the rows of the unit."""
    try:
        return work(*given)
    except TesselError as error:
        if not (isinstance(unit, BoundUnit) and "object" in error.attributes):
            _name_unit(error.with_context(clause=clause.as_written), unit)
        raise
    except Exception as error:
        failure = failed_clause(clause, error)
        _name_unit(failure, unit)
        raise failure from error


def _name_unit(error: TesselError, unit: ProcessingUnit | None) -> None:
    """Let an error name the rows of its unit, where they follow one another in one symbol."""
    pieces = () if unit is None or isinstance(unit, BoundUnit) else unit.pieces
    pieces = tuple(piece for piece in pieces if piece.table.num_rows) or pieces
    if len({piece.symbol for piece in pieces}) == 1 and all(piece.segments for piece in pieces):
        error.with_rows(
            min(piece.row_range.start for piece in pieces),
            max(piece.row_range.end for piece in pieces),
            segments_of(pieces),
        )


def without_segments(unit: ProcessingUnit) -> ProcessingUnit:
    """Return the rows of a unit as what a stage left, no longer those of segments."""
    pieces = [dataclasses.replace(piece, segments=()) for piece in unit.pieces]
    return ProcessingUnit(unit.ordinal, unit.schema, pieces)


def renumbered(unit: ProcessingUnit, symbol: int, ordinal: int) -> ProcessingUnit:
    """Return a unit with another number, of another symbol."""
    pieces = [dataclasses.replace(piece, symbol=symbol) for piece in unit.pieces]
    return ProcessingUnit(ordinal, unit.schema, pieces)


def renumbered_units(inputs: Iterable[Iterator[ProcessingUnit]]) -> Iterator[ProcessingUnit]:
    """Give the units of several symbols as one sequence, each piece with the number of its own."""
    ordinals = itertools.count()
    for symbol, units in enumerate(inputs):
        for unit in units:
            yield renumbered(unit, symbol, next(ordinals))


def bound_stage(stage: Stage, others: Sequence[pa.Table]) -> Stage:
    """Return a stage whose clauses that need the other symbols have them; errors name the clause.

    Parameters
    ----------
    stage
        One of a plan over several symbols.
    others
        The results of the second symbol and those after it.
    """

    def bound(clause: Clause) -> Clause:
        joining: object = clause
        if not has_capability(joining, Broadcasts):
            return clause
        return _named_errors(clause, joining.bound, others)

    return Stage(tuple(map(bound, stage.clauses)), stage.schemas)


def stages_of_parts(stage: Stage, unit: ProcessingUnit) -> list[tuple[Stage, int]]:
    """Return the stages that make the output of a unit part by part; errors name the clause.

    Beside each stand the estimated bytes of what it makes.
    """
    clause = stage.clauses[0]
    assert has_capability(clause, Expands)
    parts = _named_errors(stage.clauses[0], clause.parts, unit, unit=unit)
    return [(Stage((part, *stage.clauses[1:]), stage.schemas), size) for part, size in parts]


def consume_units(stage: Stage, units: Iterator[ProcessingUnit]) -> Iterator[ProcessingUnit]:
    """Run a stage whose first clause takes a stream; errors and promises as in `run_stage`."""
    clause = stage.clauses[0]
    assert has_capability(clause, Consumes)
    yield from _streamed(stage, clause.consume(units, stage.schemas[0]))


def consume_parts(
    stage: Stage, ordinal: int, bucket: int | None, units: Iterator[ProcessingUnit]
) -> ProcessingUnit:
    """Run a stage on a unit that is more than may be held, from its parts; as `run_stage`."""
    clause = stage.clauses[0]
    consuming: object = clause
    assert has_capability(consuming, Consumes)
    consume = consuming.consume
    found: dict[object, None] = {}

    def noted() -> Iterator[ProcessingUnit]:
        for unit in units:
            found.update(dict.fromkeys(unit.attached if unit.num_rows else ()))
            yield unit

    made = _named_errors(clause, lambda: list(consume(noted(), stage.schemas[0])))
    schema = made[0].schema if made else stage.schemas[1]
    table = concat_tables([unit.table for unit in made]) if made else schema.empty()
    columns = ColRange(0, table.num_columns)
    rows = RowRange(0, table.num_rows)
    piece = Piece(table, rows, columns, bucket=bucket, components=tuple(found))
    unit = as_promised(clause, ProcessingUnit(ordinal, schema, [piece]), stage.schemas[1])
    return run_stage(stage.after(1), unit)


def finish_units(
    stage: Stage, carry: pa.Table, ordinal: int = 0, row: int = 0, symbol: int = 0
) -> Iterator[ProcessingUnit]:
    """Run a stage whose first clause carries to the end on the rows that the carry of all makes."""
    from tessel.clauses.units.reduced import unit_of_table

    def units() -> Iterator[ProcessingUnit]:
        number, at = ordinal, row
        for table in stage.clauses[0].finish(carry, stage.schemas[0]):
            unit = unit_of_table(number, at, table, stage.schemas[1].index)
            yield renumbered(unit, symbol, number)
            number, at = number + 1, at + table.num_rows

    return _streamed(stage, units())


def interleave_units(
    stage: Stage, inputs: Sequence[Iterator[ProcessingUnit]]
) -> Iterator[ProcessingUnit]:
    """Run a stage whose first clause takes several streams; as in `run_stage`."""
    clause = stage.clauses[0]
    assert has_capability(clause, Interleaves)
    try:
        yield from _streamed(stage, clause.interleave(inputs))
    finally:
        for each in inputs:
            getattr(each, "close", lambda: None)()


def _streamed(stage: Stage, stream: Iterator[ProcessingUnit]) -> Iterator[ProcessingUnit]:
    clause = stage.clauses[0]
    while True:
        check_cancelled()
        try:
            with telemetry.span("clause.stream", clause=clause.name) as facts:
                unit = next(stream, None)
                facts.update(rows_out=0 if unit is None else unit.num_rows)
        except TesselError:
            raise  # also of the stages before, which have named their clause
        except Exception as error:
            raise failed_clause(clause, error) from error
        if unit is None:
            return
        unit = as_promised(clause, unit, stage.schemas[1])
        yield run_stage(stage.after(1), without_segments(unit))


def failed_clause(clause: Clause, error: Exception) -> ClauseFailedError:
    """Make the error for an exception of a clause that is none of ours."""
    return ClauseFailedError(
        f"clause {clause.name!r} raised {type(error).__name__}: {error}", clause=clause.name
    ).with_context(clause=clause.as_written)
