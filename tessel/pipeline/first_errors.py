"""Which error a unit ends with: that of its first failing row, however rows are cut into units.

A unit is run clause by clause, so that the error that shows first is one of the earliest clause,
and of any of its rows. Had the unit been cut in two, another would have come first. So a unit that
fails is run again in halves, until one row is left: what it raises is the error of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tessel.clauses.base import Clause, Structure
from tessel.clauses.capabilities import Interleaves
from tessel.ecs import ProcessingUnit
from tessel.errors import TesselError

__all__ = ["first_error"]

Run = Callable[[int, int, ProcessingUnit], ProcessingUnit]


def first_error(
    clauses: Sequence[Clause], unit: ProcessingUnit, failed: int, error: TesselError, run: Run
) -> TesselError:
    """Return the error of the first row, in the order of the rows, that some clauses fail for.

    Parameters
    ----------
    clauses, unit
        What was run, and on what.
    failed, error
        Which of the clauses failed, and how.
    run
        Runs the clauses ``[start, stop)`` on a unit.

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
        and not isinstance(clause, Interleaves)
    )
