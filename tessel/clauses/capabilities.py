"""The optional capabilities of a clause beyond its contract, each a protocol.

A clause has a capability by having its methods. The docstring of each says what its absence costs.
Planner and executors ask for capabilities alone, never for the class of a clause.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from tessel.clauses.base import Clause
    from tessel.ecs import ProcessingUnit
    from tessel.expression.schema import TableSchema
    from tessel.store.manifest.batch import Batch
    from tessel.store.manifest.index import SegmentIndex


Value = TypeVar("Value")


class DynamicFilter(Protocol):
    """What an operator learns of the units of one run, and drops rows of units to come by.

    Opened for a run in one process, and used by many threads; on Spark each task has its own. The
    result of a query must depend neither on what is learned, nor on the order of units: no row may
    be dropped that could be in the answer, whatever comes.

    Attributes
    ----------
    spares_in_sequence
        Whether a batch is hardly any work once those before it are known.
    """

    spares_in_sequence: bool

    def narrow(self, batches: Sequence[Batch], units: Sequence[int]) -> Iterator[Batch | None]:
        """Drop rows of the batches of a task, and learn from those left; no other column is read.

        The batches are given back one by one, and all of them are asked for. None stands for one
        whose values must be read first: then ``process`` has all rows. ``units`` are the ordinals
        of their units, for telemetry.
        """

    def still_needed(self, batch: Batch) -> Batch:
        """Drop rows of a narrowed batch that are needless by what was learned since."""


@runtime_checkable
class Filters(Protocol):
    """A clause that only drops rows, and has a dynamic filter.

    Without it, no unit knows of another, and a unit is read before its rows are dropped.
    """

    def open_filter(self) -> DynamicFilter:
        """Return the dynamic filter of one run."""


@runtime_checkable
class Proves(Protocol):
    """A clause that can prove from statistics which row slices it keeps nothing, or all, of.

    Without it a clause never saves I/O, and runs on every row. It is asked only where the planner
    has shown that its input still has the columns of the symbol and no positional clause stands to
    its left.
    """

    def proves(self, index: SegmentIndex) -> npt.NDArray[np.int8]:
        """Return for each row slice what is proved of its rows, as ``evaluate_statistics`` does.

        FALSE where none is kept, TRUE where each is, UNKNOWN elsewhere. Shape ``(slices,)``.
        """

    def drop_reason(self) -> str:
        """Say why the row slices are dropped of which nothing is kept; for people."""


@runtime_checkable
class Joins(Protocol):
    """A clause that can reduce many row slices on stored integers to little more than one slice.

    Without it, each unit is given to ``process`` alone.
    """

    def joins(self) -> bool:
        """Return whether the clause, with its options, reduces many row slices to one."""

    def reduced(self, unit: ProcessingUnit) -> ProcessingUnit | None:
        """Return the result of ``process`` for a unit of several batches that are not read.

        None where the batches must be read, or where reducing them together gives no fewer rows
        than reducing each alone.
        """


@runtime_checkable
class Consumes(Protocol):
    """A clause over everything that does not need everything at once.

    Without it, an ALL clause gets one unit that holds all the data before it. Where
    ``ClauseInfo.whole`` says so, the units are those that ``process`` would be given, and
    ``consume`` is asked only for one of them that is more than a query may hold.
    """

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        """Take units and give units, both in plan order; stop taking to stop the stage before.

        Of one work unit these are its parts, and what is given is the result.

        ``schema`` is the schema of the input, known also where no unit arrives.
        """


@runtime_checkable
class Combines(Protocol):
    """A clause over everything that can combine units before all are there.

    Without it, an executor of several processes brings each unit to the one that runs the clause.
    """

    def combined(self, units: Sequence[ProcessingUnit]) -> ProcessingUnit:
        """Return one unit that means the same to the clause as units that follow one another."""

    def parted(self, buckets: int) -> Clause | None:
        """Return the clause that splits such units into hash buckets, to be combined side by side.

        None where they have to stay whole, in their order.
        """


@runtime_checkable
class Narrows(Protocol):
    """A clause that makes columns, and can leave out those that nothing uses.

    Without it, all are made, and what they are made of is read, though nothing uses them.
    """

    def narrowed(self, needed: Set[str]) -> Clause | None:
        """Return a clause that makes no column but ``needed`` ones; None if none is left."""


@runtime_checkable
class Carries(Protocol):
    """A clause over row slices whose answer for a row depends on rows of other units.

    Declared by ``ClauseInfo.carries``. Without it, such a clause needs everything in one unit.

    What a run of units means to its neighbours is a *carry*: a small Arrow table of
    ``carry_schema``, the last rows or one state a key for instance. Units are summarised side by
    side, carries are combined from unit to unit, and units are then processed side by side, each
    with what lies before and after it. A table without rows stands for nothing on that side, and
    ``process`` gives the same as ``process_between`` with nothing on either side.

    Nothing may depend on where units are cut: combining the carries of two runs gives the carry of
    both, whichever way they were made. (A clause that carries from before alone may rely on its
    carries being combined in order, one unit at a time, from a table without rows on.)

    Where all is carried to the end (``Carry.END``), units are told nothing, and the rows that
    ``Clause.finish`` makes of the carry of all of them come last.
    """

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return the columns of a carry, which may cross processes; checked wherever one is."""

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the carry of one unit; a copy, so that it keeps no unit alive. Pure."""

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        """Return the carry of two runs of rows that follow one another. Pure.

        ``schema`` is the schema of the input.
        """

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether nothing later than ``after`` can matter to the unit of ``summary``.

        Asked only of clauses that carry from after; False holds the unit until more has been seen,
        or the end.
        """

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        """Turn a unit into another, knowing the carries of all before and of enough after. Pure."""


@runtime_checkable
class Interleaves(Protocol):
    """A clause over several symbols that takes units of all of them in turn.

    One that also has a ``restructure`` of its own, and a ``process`` for what that groups, can run
    as tasks side by side, each on the pieces of all symbols that it wants.

    Without it, a MULTI_SYMBOL clause gets the units of one symbol after those of the other, one by
    one.
    """

    def interleave(self, inputs: Sequence[Iterator[ProcessingUnit]]) -> Iterator[ProcessingUnit]:
        """Take units of each input in their order, give units in plan order."""


@runtime_checkable
class Broadcasts(Protocol):
    """A clause over several symbols that takes units of the first, given the others whole.

    Without it, the units of all symbols come one after another. The others are read before the
    first unit of the first symbol; each later clause of the same query over these symbols that has
    this capability is given them too.
    """

    def bound(self, others: Sequence[pa.Table]) -> Clause:
        """Return the clause that runs, over row slices or over what this one declares.

        ``others`` are the results of the second symbol and those after it. The clause that runs
        promises the columns that this one does, in this process or in another.
        """


@runtime_checkable
class Expands(Protocol):
    """A clause over row slices or buckets that can make many times the rows that it gets.

    Without it, all that a unit becomes is made at once, whatever its size.
    """

    def parts(self, unit: ProcessingUnit) -> Sequence[tuple[Clause, int]]:
        """Return the clauses that make the output of a unit part by part, in order.

        Each is run on the same unit; what they give, one after another, is what ``process`` gives.
        Beside each stand the estimated bytes of what it makes, which count as alive.
        """


@runtime_checkable
class Limits(Protocol):
    """A clause that keeps row ranges of its input chosen from row counts alone.

    It lets an executor count first and then fetch only what is kept, or cut the index where row
    counts are known before anything ran.
    """

    def ranges(self, total: int) -> tuple[int, int]:
        """Return the rows ``[start, stop)`` that are kept out of ``total``."""

    def demand(self) -> int | None:
        """Return how many leading rows suffice whatever the total; None when all must be seen."""


def has_capability(
    clause: object, capability: Callable[..., Value], method: str | None = None
) -> TypeGuard[Value]:
    """Return whether a clause has a capability.

    Parameters
    ----------
    method
        The method of the capability that is called in place of ``process``, if one is. A subclass
        that overrides ``process`` and inherits ``method`` does not have it then: the method may not
        do what the new ``process`` does.
    """
    # ``isinstance`` of Python 3.11 lists the methods of a protocol each time, in 40 µs.
    kind: Any = type(clause)
    return _class_has_capability(kind, capability, method)


def opens_filter(clause: Clause) -> bool:
    """Return whether a clause has a dynamic filter."""
    return has_capability(clause, Filters, "open_filter")


@functools.lru_cache(maxsize=512)
def _class_has_capability(kind: type, capability: Any, method: str | None) -> bool:
    if method is None or not issubclass(kind, capability):
        return issubclass(kind, capability)
    order = kind.__mro__
    makers = [
        next(at for at, cls in enumerate(order) if name in vars(cls))
        for name in (method, "process")
    ]
    return makers[0] <= makers[1]
