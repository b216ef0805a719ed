"""Shapes and chunks: how events lie in memory.

Events of one entity with the same timelines and the same components are of one *shape*, and lie in
columns together: ids, times, counts of instances, and a column a component. A *chunk* is some of
them in the order of their ids. Chunks never change: what is written becomes a new chunk, and small
neighbours are merged into a larger one which takes their place, so that readers need no locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.cached import cached
from tessel.errors import InvalidInputError
from tessel.lazy import dataclass
from tessel.store.events.stored_cells import StoredCells, StoredColumn
from tessel.store.events.timeline import Ids, Runs, Timeline

Cells: TypeAlias = pa.Array | StoredCells
"""The cells of a component: in memory, or of a saved recording."""

Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]
_COUNTERS = 1 << 64


@dataclass(frozen=True)
class Shape:
    """What events of one shape have in common.

    Attributes
    ----------
    timelines
        Sorted by name; none for timeless events.
    components
        Names and types of the values, sorted by name.
    """

    entity: str
    timelines: tuple[Timeline, ...]
    components: tuple[tuple[str, pa.DataType], ...]

    def __post_init__(self) -> None:
        for timeline in self.timelines:
            if timeline.name in self.names:
                raise InvalidInputError(
                    f"an event of {self.entity!r} has a component and a timeline "
                    f"{timeline.name!r}, which would be two columns of one name",
                    hint="log one of them under another name",
                    component=timeline.name,
                )

    def __hash__(self) -> int:
        return self._hash

    @cached
    def _hash(self) -> int:
        # Arrow hashes a type by writing it out: once a shape is enough.
        return hash((self.entity, self.timelines, self.components))

    @cached
    def names(self) -> frozenset[str]:
        """Return the names of the components."""
        return frozenset(name for name, _ in self.components)

    @cached
    def timeline_places(self) -> dict[str, int]:
        """Return the place of each timeline among those of the shape."""
        return {timeline.name: at for at, timeline in enumerate(self.timelines)}

    @cached
    def component_places(self) -> dict[str, int]:
        """Return the place of each component among those of the shape."""
        return {name: at for at, (name, _) in enumerate(self.components)}


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some events of one shape, in the order of their ids; never changed.

    Attributes
    ----------
    id_times
        The time in each id, never going back. uint64, shape ``(rows,)``.
    counters
        The counter in each id, less its row.
    times
        Of each timeline of the shape, in its order: int64, shape ``(rows,)``.
    instances
        How many instances each event has; one number where it is the same for all. uint32.
    cells
        Of each component of the shape, in its order: the values of all events end to end where each
        has one and none is missing; else a list a row. Those of a saved recording are at rest, all
        or none of a chunk.
    arrivals
        When a live store took each event; None where none has.
    """

    id_times: npt.NDArray[np.uint64]
    counters: Runs
    times: tuple[Times, ...]
    instances: npt.NDArray[np.uint32]
    cells: tuple[Cells, ...]
    arrivals: Runs | None = None
    _orders: dict[int, tuple[Rows | None, Times]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.id_times)

    @cached
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Return the least and the greatest time of each timeline."""
        return tuple((int(times.min()), int(times.max())) for times in self.times)

    @cached
    def first_id(self) -> tuple[int, int]:
        """Return the least id."""
        return self.id_at(0)

    @cached
    def last_id(self) -> tuple[int, int]:
        """Return the greatest id."""
        return self.id_at(len(self) - 1)

    def ordered(self, timeline: int) -> tuple[Rows | None, Times]:
        """Return the rows by (time, id) and their times; None for rows that lie so already.

        Sorted when first asked for. Two threads that ask at once both sort, and find the same.
        """
        found = self._orders.get(timeline)
        if found is None:
            times = self.times[timeline]
            if len(times) < 2 or bool((times[1:] >= times[:-1]).all()):
                found = (None, times)
            else:
                order = np.argsort(times, kind="stable")  # rows are in the order of ids
                found = (order, times[order])
            self._orders[timeline] = found
        return found

    def ids(self, rows: Rows) -> Ids:
        """Return the ids of some rows."""
        return np.stack([self.id_times[rows], self._counters_at(rows)], axis=1)

    def _counters_at(self, rows: Rows) -> npt.NDArray[np.uint64]:
        return self.counters.at(rows) + np.asarray(rows).astype(np.uint64)  # modulo 2**64

    def id_at(self, row: int) -> tuple[int, int]:
        """Return the id of one row."""
        return int(self.id_times[row]), (self.counters.one(row) + row) % _COUNTERS

    def arrived(self, arrived_ns: int) -> Chunk:
        """Return the same events as ones that arrived at a time."""
        return replace(self, arrivals=Runs.at_once(arrived_ns))

    def arrived_at(self, rows: Rows) -> Times:
        """Return when some rows arrived; all that a live store holds have."""
        assert self.arrivals is not None
        return self.arrivals.at(rows)

    def instances_at(self, rows: Rows) -> npt.NDArray[np.uint32]:
        """Return the counts of instances of some rows."""
        if len(self.instances) == 1:
            return np.broadcast_to(self.instances, rows.shape)
        return self.instances[rows]

    def has_several(self, component: int) -> bool:
        """Return whether an event has several values of a component; at rest, whether one had."""
        cells = self.cells[component]
        if isinstance(cells, StoredCells):
            return cells.column.is_list
        if not pa.types.is_large_list(cells.type):
            return False
        return bool((np.diff(numpy_array(cells.offsets)) > 1).any())

    def blanks(self, component: int) -> tuple[bool, bool]:
        """Return whether cells of a component are empty, and whether values are missing."""
        cells = self.cells[component]
        if isinstance(cells, StoredCells):
            return cells.column.blanks
        if not pa.types.is_large_list(cells.type):
            return False, False
        no_value = bool((np.diff(numpy_array(cells.offsets)) == 0).any())
        return no_value, bool(cells.flatten().null_count)

    @property
    def at_rest(self) -> tuple[StoredColumn, ...]:
        """Where the cells are that are not in memory; nothing where they are."""
        return tuple(cells.column for cells in self.cells if isinstance(cells, StoredCells))

    def column(self, component: int) -> pa.Array:
        """Return all cells; those at rest are read, and not kept."""
        cells = self.cells[component]
        return cells.read(keep=False) if isinstance(cells, StoredCells) else cells

    def values(self, component: int, row: int) -> pa.Array:
        """Return the values of one cell."""
        cells = self.cells[component]
        if isinstance(cells, StoredCells):
            cells, row = cells.read(np.array([row])), 0
        if pa.types.is_large_list(cells.type):
            return cells[row].values
        return cells.slice(row, 1)

    def lists(self, component: int, rows: Rows | None = None) -> pa.Array:
        """Return the cells of some rows, or of all, as a list a row."""
        cells = self.cells[component]
        if isinstance(cells, StoredCells):
            cells = cells.read(rows)
        elif rows is not None:
            cells = cells.take(arrow_array(rows))
        if pa.types.is_large_list(cells.type):
            return cells
        return as_lists(cells)

    def before(self, event_id: tuple[int, int]) -> int:
        """Return how many rows have an id before another."""
        low = int(self.id_times.searchsorted(np.uint64(event_id[0]), side="left"))
        high = int(self.id_times.searchsorted(np.uint64(event_id[0]), side="right"))
        counters = self._counters_at(np.arange(low, high))
        return low + int(counters.searchsorted(np.uint64(event_id[1])))

    def find(self, event_id: tuple[int, int]) -> int | None:
        """Return the row of an id; None where it is not here."""
        if not self.first_id <= event_id <= self.last_id:
            return None
        at = self.before(event_id)
        return at if self.id_at(at) == event_id else None

    def take(self, rows: Rows) -> Chunk:
        """Return a chunk of some rows, ascending, that shares nothing with this one."""
        return Chunk(
            self.id_times[rows],
            _less_rows(self._counters_at(rows)),
            tuple(times[rows] for times in self.times),
            self.instances if len(self.instances) == 1 else self.instances[rows],
            tuple(_taken(self.cells, rows)),
            None if self.arrivals is None else Runs.of(self.arrivals.at(rows)),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of ids, times, counts, arrivals, cells in memory, and of orders made."""
        held = self.id_times.nbytes + self.instances.nbytes + self.counters.nbytes
        held += 0 if self.arrivals is None else self.arrivals.nbytes
        held += sum(times.nbytes for times in self.times)
        for order, times in self._orders.values():
            if order is not None:
                held += order.nbytes + times.nbytes
        if self.at_rest:
            return int(held + self.cells[0].nbytes)  # all of them know the same rows
        return int(held + sum(cells.nbytes for cells in self.cells))

    @property
    def row_bytes(self) -> float:
        """Bytes of an event, roughly, with its cells wherever they are."""
        return self.nbytes / len(self) + sum(column.row_bytes for column in self.at_rest)


def _less_rows(counters: npt.NDArray[np.uint64]) -> Runs:
    return Runs.of(counters - np.arange(len(counters), dtype=np.uint64), coded=False)


def _taken(cells: Sequence[Cells], rows: Rows) -> list[Cells]:
    """Return some rows of all components; those at rest stay there, and share where they are."""
    stored = [each for each in cells if isinstance(each, StoredCells)]
    if stored:
        places = stored[0].places(rows)
        return [StoredCells(each.column, places) for each in stored]
    chosen = arrow_array(rows)
    return [each.take(chosen) for each in cells if not isinstance(each, StoredCells)]


def lists_of(values: Sequence[pa.Array | None], kind: pa.DataType) -> pa.Array:
    """Return each of some arrays of a type as a list; None as null."""
    nothing = pa.nulls(0, kind)
    parts = [nothing if each is None else each for each in values]
    offsets = arrow_array(np.cumsum([0, *map(len, parts)]), pa.int64())
    absent = np.array([each is None for each in values], np.bool_)
    flat, mask = pa.concat_arrays([nothing, *parts]), arrow_array(absent) if absent.any() else None
    return pa.LargeListArray.from_arrays(offsets, flat, pa.large_list(kind), mask=mask)


def as_lists(values: pa.Array) -> pa.Array:
    """Return single values as lists of one."""
    offsets = arrow_array(np.arange(len(values) + 1, dtype=np.int64))
    return pa.LargeListArray.from_arrays(offsets, values)


def cast_lists(lists: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return lists in a type of lists.

    Arrow before 26 damages lists of an extension type that it casts to the type they have.
    """
    return lists if lists.type == kind else lists.cast(kind)


def is_plain(cells: pa.Array) -> bool:
    """Return whether every list of a list array holds one value, which is not null."""
    offsets = numpy_array(cells.offsets)
    return bool((np.diff(offsets) == 1).all()) and cells.flatten().null_count == 0


def chunk_of(
    ids: Ids,
    times: Sequence[Times],
    instances: npt.NDArray[np.uint32],
    cells: Sequence[Cells],
    arrived: Times | None = None,
) -> Chunk:
    """Make a chunk of columns in any order of ids; cells are lists, or single values."""
    order = None
    ordered = ids[1:, 0] > ids[:-1, 0]
    ordered |= (ids[1:, 0] == ids[:-1, 0]) & (ids[1:, 1] > ids[:-1, 1])
    if not ordered.all():
        order = np.lexsort((ids[:, 1], ids[:, 0]))
        ids, instances = ids[order], instances[order]
        arrived = None if arrived is None else arrived[order]
    held: list[Cells] = []
    for column in cells if order is None else _taken(cells, order):
        if isinstance(column, StoredCells) or not pa.types.is_large_list(column.type):
            held.append(column)
        else:
            held.append(column.flatten() if is_plain(column) else column)
    same = len(instances) > 0 and bool((instances == instances[0]).all())
    return Chunk(
        np.ascontiguousarray(ids[:, 0]),
        _less_rows(ids[:, 1]),
        tuple(t if order is None else t[order] for t in times),
        instances[:1].copy() if same else instances,
        tuple(held),
        None if arrived is None else Runs.of(arrived),
    )


def compacted(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Return the rows of several chunks in as few as can be: what is at rest stays there."""
    groups: dict[tuple[StoredColumn, ...], list[Chunk]] = {}
    for chunk in chunks:
        groups.setdefault(chunk.at_rest, []).append(chunk)
    return tuple(merged(group) if len(group) > 1 else group[0] for group in groups.values())


def merged(chunks: Sequence[Chunk]) -> Chunk:
    """Return one chunk with the rows of several, which are all in memory, or at rest together."""
    rows = [(chunk, np.arange(len(chunk))) for chunk in chunks]
    times = zip(*(chunk.times for chunk in chunks), strict=True)
    return chunk_of(
        np.concatenate([chunk.ids(each) for chunk, each in rows]),
        [np.concatenate(each) for each in times],
        np.concatenate([chunk.instances_at(each) for chunk, each in rows]),
        _joined(chunks),
        np.concatenate([chunk.arrived_at(each) for chunk, each in rows]),
    )


def _joined(chunks: Sequence[Chunk]) -> list[Cells]:
    """Return the cells of several chunks end to end, by component."""
    stored = [cells for chunk in chunks for cells in chunk.cells if isinstance(cells, StoredCells)]
    columns = chunks[0].at_rest
    if columns:
        places = np.concatenate([cells.places() for cells in stored[:: len(columns)]])
        return [StoredCells(column, places) for column in columns]
    joined = []
    for component in range(len(chunks[0].cells)):
        parts = [chunk.column(component) for chunk in chunks]
        if any(pa.types.is_large_list(part.type) for part in parts):
            parts = [chunk.lists(component) for chunk in chunks]
        joined.append(pa.concat_arrays(parts))
    return joined
