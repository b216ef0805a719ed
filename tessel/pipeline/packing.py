"""Several row slices in one task: small ones, and those that are reduced as they are stored.

The pipeline enters here with the units of a first stage, and so does Spark's driver. Small
neighbours, such as many appends leave, are read as one unit. A task that reduces makes a small
table, whose states cost as much for one segment as for ten: so neighbours are joined until there
are few tasks a worker. Few rows that are left of several units are read together, once it is known
which of them are needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.base import Clause, drops_rows
from tessel.clauses.capabilities import DynamicFilter, Joins, has_capability, opens_filter
from tessel.errors import TesselError
from tessel.pipeline.plan import SourceUnits, Stage, is_plugin
from tessel.store.manifest.batch import Batch

Other = TypeVar("Other")

_PACKS_PER_WORKER = 2
"""So many at least, where there is much to do; and so few units are left as they are."""

_MOST_UNITS = 1 << 10
"""Sums of so many segments are joined without overflow, with room to spare."""

_SHARE = 1.5
"""A pack takes its share of the rows that are left, for so many packs a worker."""

_FEW_PACK_BYTES = 16 << 20
"""Where each worker has no more to look at, it has one pack: to begin five more and to merge their
states takes a quarter of the processor time of a count of five million rows in six units."""

_ONE_PACK_BYTES, _ONE_PACK_ROWS = 16 << 20, 4 << 20
"""No more is one pack for all workers, which needs no thread: to begin two and to let them take
turns doubles the processor time of a count of two million rows."""

_ONE_SEQUENCE_BYTES, _ONE_SEQUENCE_ROWS = 64 << 20, 8 << 20
"""The same where a unit is hardly any work once those before it are known: of another pack that is
known late. The first ten of five million rows take 6.3 ms by one thread, and 9.8 ms by two."""

_PACKS_IN_BUDGET = 4
"""Stored bytes are counted, which a pack only looks at."""


FEW_ROWS, FEW_BYTES = 1 << 11, 1 << 18
"""Of a unit with more, reading that takes longer than what several units can share."""

_FEWEST_SMALL = 16
"""Fewer small units than these are faster read one by one, since their segments stay open."""

_ROWS_TOGETHER = 1 << 14
"""So many rows of several units are read in one task, and are one unit."""


_BYTES_TOGETHER = 1 << 22
_TOGETHER_IN_BUDGET = 16
UNITS_TOGETHER = 1 << 6


def bytes_together(live_bytes: int) -> int:
    """Return how many bytes of several units may be read in one task."""
    return min(_BYTES_TOGETHER, live_bytes // _TOGETHER_IN_BUDGET)


def may_be_joined(read: SourceUnits, stage: Stage) -> bool:
    """Return whether units may be read as one, for all that a stage does with them."""
    return stage.takes_any_slices and read.are_alone and len(read.units) > 1


def small_runs(read: SourceUnits, live_bytes: int) -> NDArray[np.int64]:
    """Return how units are cut into runs: of small ones that are read as one unit, others alone.

    The runs of a row of small units begin short and double, so that who has enough of the first
    rows has not caused much more to be read.

    Parameters
    ----------
    read
        Units that :func:`may_be_joined`.

    Returns
    -------
    array
        The first unit of each run, and behind the last run the number of units; int64.
    """
    count = len(read.units)
    most_bytes = bytes_together(live_bytes)
    rows, nbytes = read.rows, np.maximum(read.nbytes, read.rows * read.row_bytes)
    small = (rows <= FEW_ROWS) & (nbytes <= min(FEW_BYTES, most_bytes))
    if np.count_nonzero(small) < _FEWEST_SMALL:
        return np.arange(count + 1)
    edges = np.flatnonzero(np.append(True, (small[1:] != small[:-1]) | ~read.follow[1:]))
    held_rows, held_bytes = (np.append(0, np.cumsum(each)) for each in (rows, nbytes))
    found: list[NDArray[np.int64]] = []
    for begin, end in itertools.pairwise([*edges.tolist(), count]):
        most = _FEWEST_SMALL
        while small[begin] and end - begin >= _FEWEST_SMALL:
            stop = min(
                end,
                begin + most,
                int(np.searchsorted(held_rows, held_rows[begin] + _ROWS_TOGETHER, "right")) - 1,
                int(np.searchsorted(held_bytes, held_bytes[begin] + most_bytes, "right")) - 1,
            )
            stop = max(stop, begin + 1)
            found.append(np.array([begin]))
            begin, most = stop, 2 * most
            if begin == end:
                break
        found.append(np.arange(begin, end))
    return np.concatenate([*found, [count]])


def sink_of(clauses: Sequence[Clause], is_sink: Callable[[Clause], bool]) -> int | None:
    """Return the place of the first clause of a kind in a stage; None where there is none.

    Clauses before it take row slices and leave them, each for itself.
    """
    for at, clause in enumerate(clauses):
        if is_sink(clause):
            return at
        if not clause.structure.keeps_slices:
            return None
    return None


def joins_slices(clause: Clause) -> bool:
    """Return whether a clause reduces many row slices to hardly more than one."""
    return has_capability(clause, Joins, "joins") and clause.joins()


def selecting(clauses: Sequence[Clause]) -> Sequence[Clause]:
    """Return the clauses that select rows before any reads them; casts and names are bound."""
    for at, clause in enumerate(clauses):
        if drops_rows(clause):
            return list(itertools.takewhile(drops_rows, clauses[at:]))
        info = clause.structure
        if is_plugin(type(clause)) or info.carries or not (info.keeps_slices and info.keeps_count):
            break
    return ()


def looked_at(clauses: Sequence[Clause], names: Sequence[str]) -> float | None:
    """Return about which share of stored bytes a first stage looks at before rows are left out.

    None where it reads all rows, one unit after another.
    """
    if sink_of(clauses, joins_slices) is not None:
        return 1
    sink = sink_of(clauses, opens_filter)
    looking = selecting(clauses) if sink is None else clauses[sink : sink + 1]
    keys = {name for clause in looking for name in clause.structure.columns or names}
    return len(keys or names) / max(1, len(names)) if looking else None


def aimed_packs(rows: int, nbytes: int, workers: int, *, in_sequence: bool = False) -> int:
    """Return the number of packs to cut rows into, by how many bytes of them are looked at.

    ``in_sequence`` says whether a dynamic filter takes them that spares work in sequence.
    """
    most_bytes = _ONE_SEQUENCE_BYTES if in_sequence else _ONE_PACK_BYTES
    most_rows = _ONE_SEQUENCE_ROWS if in_sequence else _ONE_PACK_ROWS
    if nbytes <= most_bytes and rows <= most_rows:
        return 1
    return workers if nbytes <= workers * _FEW_PACK_BYTES else workers * _PACKS_PER_WORKER


def packs_of(
    rows: NDArray[np.int64],
    nbytes: NDArray[np.int64],
    workers: int,
    live_bytes: int,
    *,
    share: float = 1,
    is_far: bool = False,
    dynamic: DynamicFilter | None = None,
) -> list[range]:
    """Return which neighbouring units make one task.

    Parameters
    ----------
    rows, nbytes
        Of each unit, int64, shape ``(units,)``; bytes as they are stored.
    share
        About so much of the bytes is looked at.
    is_far
        Whether units wait for requests, which overlap those of other tasks.
    dynamic
        The dynamic filter that takes them.
    """
    # A worker alone waits for no other, and each pack less is a merging of states less.
    nbytes = (nbytes * share).astype(np.int64)
    in_sequence = dynamic is not None and dynamic.spares_in_sequence
    aimed = aimed_packs(int(rows.sum()), int(nbytes.sum()), workers, in_sequence=in_sequence)
    alone = workers == 1 or (aimed == 1 and not is_far)
    few = aimed <= workers
    if not (alone or few) and len(rows) <= aimed:
        return [range(unit, unit + 1) for unit in range(len(rows))]
    most = live_bytes // _PACKS_IN_BUDGET
    # Long packs first, short ones last, so that all workers end at about the same time (guided
    # self-scheduling; Polychronopoulos and Kuck, 1987).
    left = np.append(np.cumsum(rows[::-1])[::-1], 0)
    packs: list[range] = []
    begin, held = 0, 0
    for unit, size in enumerate(nbytes.tolist()):
        held += size
        taken = left[begin] - left[unit + 1]
        share = left[0] if few else left[begin] / _SHARE
        more = rows[unit + 1] / 2 if unit + 1 < len(rows) else 0  # so that the nearer end is taken
        last = alone or (few and len(packs) + 1 == workers)
        full = not last and taken + more >= share / workers
        following = int(nbytes[unit + 1]) if unit + 1 < len(nbytes) else 0
        if full or held + following > most or unit - begin + 1 == _MOST_UNITS:
            packs.append(range(begin, unit + 1))
            begin, held = unit + 1, 0
    if begin < len(rows):
        packs.append(range(begin, len(rows)))
    return packs


class SparseRows:
    """Few rows of a unit, or of several that follow one another, whose columns are not read yet.

    Parameters
    ----------
    done
        How many of the clauses they have been through.
    batches
        With these rows selected.
    row_bytes
        Of one of the rows, estimated.
    """

    __slots__ = ("batches", "bytes", "done", "ordinals", "row_bytes", "rows")

    def __init__(
        self, ordinals: list[int], done: int, batches: Iterable[Batch], row_bytes: float
    ) -> None:
        self.ordinals = ordinals
        self.done = done
        rows = [(batch, batch.rows_unpruned) for batch in batches]
        self.batches = [batch for batch, count in rows if count]
        self.rows = sum(count for _, count in rows)
        self.row_bytes = row_bytes
        self.bytes = int(self.rows * row_bytes)

    def takes(self, other: SparseRows, most_bytes: int) -> bool:
        """Return whether the rows of another are read together with these."""
        return (
            self.done == other.done
            and self.rows + other.rows <= _ROWS_TOGETHER
            and self.bytes + other.bytes <= most_bytes
        )

    def with_more(self, other: SparseRows) -> SparseRows:
        """Return the rows of both, as those of the first unit."""
        ordinals = [*self.ordinals, *other.ordinals]
        row_bytes = (self.bytes + other.bytes) / (self.rows + other.rows)
        return SparseRows(ordinals, self.done, [*self.batches, *other.batches], row_bytes)

    def narrowed(self, dynamic: DynamicFilter) -> SparseRows:
        """Return those of the rows that a dynamic filter still needs."""
        batches = map(dynamic.still_needed, self.batches)
        return SparseRows(self.ordinals, self.done, batches, self.row_bytes)


def joined_rows(
    found: Iterable[SparseRows | Other], most_units: int, most_bytes: int
) -> Iterator[SparseRows | Other]:
    """Join the few rows of neighbouring units into those of one; all else keeps its place.

    The joined units double each time, from ``most_units`` on: so the first rows come soon, and a
    query that stops early has not read much more than it needed.
    """
    pending: SparseRows | None = None
    units = 0
    for each in with_error(found):
        sparse = each if isinstance(each, SparseRows) else None
        if sparse is not None and not sparse.rows:
            continue
        if pending is not None and (
            sparse is None or units == most_units or not pending.takes(sparse, most_bytes)
        ):
            yield pending
            pending = None
            most_units = max(most_units, min(2 * most_units, UNITS_TOGETHER))
        if isinstance(each, TesselError):
            raise each
        if sparse is None:
            yield each
        else:
            units = 1 if pending is None else units + 1
            pending = sparse if pending is None else pending.with_more(sparse)
    if pending is not None:
        yield pending


def with_error(found: Iterable[Other]) -> Iterator[Other | TesselError]:
    """Give the items, and then the error that ends them: what came before it may fail earlier."""
    try:
        yield from found
    except TesselError as error:
        yield error
