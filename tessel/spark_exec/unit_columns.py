"""Units as columns: many in the driver without an object each, and what a task is told of its own.

:mod:`tessel.spark_exec.flows` selects, numbers and cuts units here. A task is told of its units by
an Arrow stream, which :mod:`tessel.spark_exec.units` reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.errors import PlanFormatError
from tessel.lazy import dataclass
from tessel.spark_exec.wire import sequence, sequences
from tessel.store.manifest.index import SegmentIndex
from tessel.store.manifest.piece import PIECES, PieceSource, pieces_of

Integers = NDArray[np.int64]

_BATCH_UNITS = 4096
"""A task makes objects of so many units at a time."""

_TOLD: pa.Schema = pa.schema(
    [
        ("track", pa.int32()),
        ("joined", pa.int64()),
        ("places", pa.list_(pa.int64())),
        ("cuts", pa.list_(pa.int64())),
        ("planned", pa.list_(pa.int64())),
        ("pieces", pa.list_(PIECES)),
    ]
)


@dataclass(frozen=True, eq=False)
class UnitColumns:
    """Units that workers will read and process, in plan order.

    Attributes
    ----------
    starts
        Where the segments of each unit begin in ``positions``; behind the last, where they end.
    positions
        The segments in the index of their source.
    bytes
        Estimated bytes to read.
    joined
        Of how many small units, read as one, each consists; 1 for a unit as it was planned.
    places
        Symbol and ordinal of each unit when it is read, then after each renumbering; int64, each of
        shape ``(units, 2)``.
    cuts
        Rows ``[start, stop)`` of each unit that each cut keeps; likewise.
    """

    starts: Integers
    positions: Integers
    bytes: Integers
    joined: Integers
    places: tuple[Integers, ...]
    cuts: tuple[Integers, ...] = ()

    def __len__(self) -> int:
        return len(self.bytes)

    @property
    def seqs(self) -> Integers:
        """The ``seq`` of each unit on the wire."""
        return sequences(*self.places[-1].T)

    def take(self, rows: slice | NDArray[Any]) -> UnitColumns:
        """Return some of the units, in their order."""
        counts = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(counts)])
        shift = np.repeat(self.starts[:-1][rows] - starts[:-1], counts)
        return UnitColumns(
            starts,
            self.positions[np.arange(starts[-1]) + shift],
            self.bytes[rows],
            self.joined[rows],
            tuple(each[rows] for each in self.places),
            tuple(each[rows] for each in self.cuts),
        )

    def of_seqs(self, seqs: Iterable[int]) -> tuple[UnitColumns, Integers]:
        """Return the units of some ``seq``, and where each of them is among these."""
        asked = np.fromiter(seqs, np.int64)
        if not len(asked):
            return self.take(slice(0)), asked
        order = np.argsort(asked)
        own = self.seqs
        found = order[np.searchsorted(asked, own, sorter=order).clip(max=len(asked) - 1)]
        wanted = asked[found] == own
        return self.take(wanted), found[wanted]

    def placed(self, places: Integers) -> UnitColumns:
        """Return the units with the place that each has from here on."""
        return dataclasses.replace(self, places=(*self.places, places))


def told(parts: Iterable[tuple[int, SegmentIndex, Integers, UnitColumns]]) -> bytes:
    """Return what a task is told of its units.

    Parameters
    ----------
    parts
        Units of one track each: its number, the index of its source, in how many units each segment
        of this is wanted, and the units.
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", emit_dictionary_deltas=False)
    with pa.ipc.new_stream(sink, _TOLD, options=options) as writer:
        for track, index, planned, units in parts:
            for start in range(0, len(units), _BATCH_UNITS):
                own = units.take(slice(start, start + _BATCH_UNITS))
                starts = pa.array(own.starts, pa.int32())
                columns = [
                    pa.array(np.full(len(own), track, np.int32)),
                    pa.array(own.joined),
                    _lists(own.places, len(own)),
                    _lists(own.cuts, len(own)),
                    pa.ListArray.from_arrays(starts, pa.array(planned[own.positions])),
                    pa.ListArray.from_arrays(starts, index.source_columns(own.positions)),
                ]
                writer.write_batch(pa.record_batch(columns, schema=_TOLD))
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _lists(columns: Sequence[Integers], units: int) -> pa.ListArray:
    """Return the values of columns of a unit as a list."""
    values = np.concatenate(columns, axis=1) if columns else np.empty((units, 0), np.int64)
    offsets = np.arange(units + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()))


@dataclass(frozen=True, slots=True)
class ToldUnit:
    """One unit as its task is told of it; fields as of :class:`UnitColumns`.

    Attributes
    ----------
    track
        Number of its track in the flow.
    planned
        In how many units each piece is wanted.
    pieces
        Where its segments are found.
    """

    track: int
    joined: int
    places: Sequence[tuple[int, int]]
    cuts: Sequence[tuple[int, int]]
    planned: Sequence[int]
    pieces: Sequence[PieceSource]

    @property
    def seq(self) -> int:
        """Its ``seq`` on the wire."""
        return sequence(*self.places[-1])


def read_told(stream: pa.Buffer | bytes) -> Iterator[ToldUnit]:
    """Give the units that a task is told of by :func:`told`.

    Raises
    ------
    PlanFormatError
        For anything else.
    """
    try:
        with pa.ipc.open_stream(stream) as reader:
            for batch in reader:
                if not batch.schema.equals(_TOLD):
                    raise PlanFormatError(f"a task is told of {batch.schema.names}, not of units")
                batch.validate(full=True)
                pieces = pieces_of(batch.column("pieces").flatten())
                at = 0
                for track, joined, places, cuts, planned in zip(
                    *(batch.column(name).to_pylist() for name in _TOLD.names[:-1]), strict=True
                ):
                    own = pieces[at : at + len(planned)]
                    at += len(planned)
                    yield ToldUnit(track, joined, _pairs(places), _pairs(cuts), planned, own)
    except (pa.ArrowException, OSError, TypeError) as error:
        raise PlanFormatError(f"what a task is told of its units is damaged ({error})") from error


def _pairs(values: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(values[::2], values[1::2], strict=True))


_TASKS_PER_SLOT = 3
_LEAST_TASK_BYTES = 256 * 1024
"""Less is not shared among slots, unless clauses of somebody else's run, which may be slow."""
_TASK_BYTES = 4 * 1024 * 1024
"""A slot gets one task of less than this: a task has a price, 20 ms in the JVM."""
_MOST_TASK_BYTES = 256 * 1024 * 1024
"""A task of more than this is long to run again, and keeps a slot that others could share."""


def tasks_of(size: int, slots: int, *, has_plugins: bool = False) -> int:
    """Return how many tasks at most read units of so many bytes where so many run at a time."""
    least = 1 if has_plugins else _LEAST_TASK_BYTES
    return max(
        min(slots, -(-size // least)),
        min(slots * _TASKS_PER_SLOT, size // _TASK_BYTES),
        -(-size // _MOST_TASK_BYTES),
        1,
    )
