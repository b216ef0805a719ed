"""Holding what a clause returns to the schema that it promised.

Which error a unit ends with: that of its first failing row, however rows are cut into units.

A unit is run clause by clause, so that the error that shows first is one of the earliest clause,
and of any of its rows. Had the unit been cut in two, another would have come first. So a unit that
fails is run again in halves, until one row is left: what it raises is the error of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tessel.clauses.base import BUCKETED, Clause, Structure
from tessel.clauses.capabilities import Broadcasts, Interleaves, Limits, has_capability
from tessel.clauses.units.bound_unit import is_bound
from tessel.clauses.units.reduced import ReducedUnit
from tessel.clauses.values import without_null_entries
from tessel.ecs import ProcessingUnit
from tessel.errors import SchemaPromiseError, TesselError
from tessel.expression.schema import TableSchema
from tessel.pipeline.plan import is_plugin


def as_promised(clause: Clause, result: ProcessingUnit, promised: TableSchema) -> ProcessingUnit:
    """Return what a clause gave; the promise alone says which column is the index.

    Dictionaries that a clause of one's own made have no null among their entries from here on.

    Rows that a clause of the package makes of those of several units have no components: which
    units meet there depends on the executor and on sizes.

    Raises SchemaPromiseError when it has other columns, or data of other types, than ``promised``.
    """
    _check_promise(clause, result, promised)
    if is_plugin(type(clause)) and not (is_bound(result) or isinstance(result, ReducedUnit)):
        result = _without_null_entries(result)
    if result.attached and _joins_rows(clause):
        result = result.without_components()
    if result.schema.index == promised.index:
        return result
    return result.with_pieces(result.pieces, promised)


def _without_null_entries(unit: ProcessingUnit) -> ProcessingUnit:
    tables = [without_null_entries(piece.table) for piece in unit.pieces]
    if all(table is piece.table for table, piece in zip(tables, unit.pieces, strict=True)):
        return unit
    pieces = [piece.with_table(table) for piece, table in zip(unit.pieces, tables, strict=True)]
    return unit.with_pieces(pieces, unit.schema)


def _joins_rows(clause: Clause) -> bool:
    """Return whether a clause of the package makes rows of the rows of several units."""
    if is_plugin(type(clause)):
        return False
    if clause.structure.input in (Structure.ALL, *BUCKETED):
        return not has_capability(clause, Limits)
    return has_capability(clause, Broadcasts) or has_capability(clause, Interleaves)


def _check_promise(clause: Clause, unit: object, promised: TableSchema) -> None:
    if not isinstance(unit, ProcessingUnit):
        raise SchemaPromiseError(
            f"clause {clause.name!r} returned {type(unit).__name__}, not a ProcessingUnit",
            hint="return what a method of the unit returns, such as unit.replace(table)",
            clause=clause.name,
        )
    if not unit.schema.arrow.equals(promised.arrow):
        got = [(field.name, field.type) for field in unit.schema.arrow]
        wanted = [(field.name, field.type) for field in promised.arrow]
        if got != wanted:  # but for what they say of missing values
            raise SchemaPromiseError(
                f"clause {clause.name!r} promised other columns than it returned",
                detail=_differences(wanted, got),
                hint="make output_schema and process agree",
                clause=clause.name,
            )
    if is_bound(unit) or isinstance(unit, ReducedUnit):
        return
    held = {f.name: f.type for piece in unit.pieces for f in piece.table.schema}
    wrong = [each for each in promised.arrow if unit.pieces and held.get(each.name) != each.type]
    if wrong and not is_plugin(type(clause)):  # text may pass as it was read
        wrong = [each for each in wrong if not _is_coded(held.get(each.name), each.type)]
    if wrong:
        name = wrong[0].name
        raise SchemaPromiseError(
            f"clause {clause.name!r}: the data of column {name!r} is {held.get(name)}, "
            f"not {wrong[0].type}",
            clause=clause.name,
            column=name,
        )


def _is_coded(held: pa.DataType | None, kind: pa.DataType) -> bool:
    return held is not None and pa.types.is_dictionary(held) and held.value_type == kind


def _differences(
    wanted: Sequence[tuple[str, pa.DataType]], got: Sequence[tuple[str, pa.DataType]]
) -> str:
    lines = [f"promised: {name}: {kind}" for name, kind in wanted if (name, kind) not in got]
    lines += [f"returned: {name}: {kind}" for name, kind in got if (name, kind) not in wanted]
    return "\n".join(lines) or "the same columns in another order"


Run = Callable[[int, int, ProcessingUnit], ProcessingUnit]


def first_error(
    clauses: Sequence[Clause], unit: ProcessingUnit, failed: int, error: TesselError, run: Run
) -> TesselError:
    """Return the error of the first row, in the order of the rows, that some clauses fail for.

    Returns
    -------
    TesselError
        The one given, where that clause does not work row by row, or where no part of the unit
        fails by itself.
    """
    start = stop = failed
    while start and _is_row_by_row(clauses[start - 1]):
        start -= 1
    while stop < len(clauses) and _is_row_by_row(clauses[stop]):
        stop += 1
    if stop == failed:
        return error
    unit = run(0, start, unit)
    low, high = 0, unit.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        found = _error(run, start, stop, unit.slice(low, middle - low))
        if found is None:
            low = middle
        else:
            error, high = found, middle
    # Where all but the last row pass, that one has not been run alone.
    return _error(run, start, stop, unit.slice(low, high - low)) or error


def _error(run: Run, start: int, stop: int, unit: ProcessingUnit) -> TesselError | None:
    try:
        run(start, stop, unit)
    except TesselError as error:
        return error
    return None


def _is_row_by_row(clause: Clause) -> bool:
    """Return whether any part of a unit gives the part of the answer that belongs to it."""
    info = clause.structure
    return (
        info.input in (Structure.ROW_SLICE, Structure.MULTI_SYMBOL)
        and info.output is Structure.ROW_SLICE
        and info.carries is None
        and not has_capability(clause, Interleaves)
    )
