"""The segments of one source as entities, and the units that are made of them.

The first stage of a query enters here, from many threads. A unit whose segments no other unit wants
is given unread, and reads what its clauses ask for; the others are read when the first of them is
asked for. Few rows that filters selected in several units, and small segments, are read in one pass
(late materialization across units).
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tessel import telemetry
from tessel.arrays import unified
from tessel.cancelling import check_cancelled
from tessel.clauses.units.bound_unit import BoundUnit, bound_unit
from tessel.clauses.units.pieces import load_piece, piece_of, place_of
from tessel.ecs import Columns, ComponentManager, FetchCount, Piece, ProcessingUnit
from tessel.errors import CancelledError, TesselError
from tessel.errors.root import naming
from tessel.pipeline.plan import SourcePlan, Stage
from tessel.pipeline.stage import run_stage
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.lazy_columns import plain_text
from tessel.store.manifest.piece import PieceSource, SegmentSource


def read_together(
    batches: Sequence[Batch], segments: SegmentSource, symbol: int = 0
) -> list[Piece]:
    """Gather few rows of several batches, those of neighbours cut alike in one pass.

    Parameters
    ----------
    batches
        At least one, each of at least one row, in the order of the rows; all conjuncts hold for
        these, and the columns are stored ones.

    Returns
    -------
    list
        For each run of batches with the same column slices one piece a slice.
    """
    found: list[Piece] = []

    def cut(batch: Batch) -> list[tuple[object, ...]]:
        return [(each.columns, each.column_ids, each.absent) for each in batch.source.pieces]

    for _, run in itertools.groupby(batches, key=cut):
        own = list(run)
        slices = zip(*(batch.source.pieces for batch in own), strict=True)
        found += [_gathered(own, pieces, segments, symbol) for pieces in slices]
    return found


def _gathered(
    batches: Sequence[Batch], pieces: Sequence[PieceSource], segments: SegmentSource, symbol: int
) -> Piece:
    """Gather the rows of one column slice of several batches."""
    check_cancelled()
    first = pieces[0]
    inside = [
        batch.places + piece.segment_row_start for batch, piece in zip(batches, pieces, strict=True)
    ]
    stops = list(itertools.accumulate(map(len, inside)))
    with telemetry.span("segment.read", object=first.key.object) as facts:
        forms = dict.fromkeys(first.columns, "values of single rows")

        def read() -> list[pa.Array | pa.ChunkedArray]:
            found = segments.gather(pieces, np.concatenate(inside), stops, None)
            columns = dict(zip(first.columns, found, strict=True))
            left = [name for name, column in columns.items() if column is None]
            forms.update(dict.fromkeys(left, "values"))
            return list((columns | _decoded(batches, left) if left else columns).values())

        try:
            table = segments.table_of(first, stops[-1], read)
        except TesselError as error:
            error.with_context(segment=str(error.attributes.get("object", first.key.object)))
            raise
        facts.update(rows=table.num_rows, bytes=table.nbytes, columns=forms)
    return place_of(first, pieces[-1], symbol).with_table(table)


def _decoded(batches: Sequence[Batch], names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """Return columns that are not gathered in one pass, read batch by batch."""
    chunks: dict[str, list[pa.Array]] = {name: [] for name in names}
    for batch in batches:
        check_cancelled()
        with naming(segment=batch.source.pieces[0].key.object):
            table = batch.narrowed()[0].values(names)
        for name, column in zip(names, table.columns, strict=True):
            kind = batch.source.schema.type_of(name)
            chunks[name] += [c if c.type == kind else plain_text(c) for c in column.chunks]
    return {name: unified(pa.chunked_array(found)) for name, found in chunks.items()}


def read_joined(
    units: Sequence[Sequence[PieceSource]], segments: SegmentSource, symbol: int = 0
) -> list[Piece] | None:
    """Read small units that follow one another in one pass, and return the pieces of one unit.

    Parameters
    ----------
    units
        The pieces of each, all of one row range.

    Returns
    -------
    list or None
        A piece for each column slice. None where they must be read one by one.
    """
    if len({len(unit) for unit in units}) > 1:
        return None
    found: list[Piece] = []
    for pieces in zip(*units, strict=True):
        check_cancelled()
        with telemetry.span("segment.read", object=pieces[0].key.object) as facts:
            table = segments.load_joined(pieces)
            if table is None:
                return None
            facts.update(rows=table.num_rows, bytes=table.nbytes)
            facts.update(columns=dict.fromkeys(table.column_names, "values"))
        found.append(place_of(pieces[0], pieces[-1], symbol).with_table(table))
    return found


def run_joined(
    stage: Stage,
    units: Sequence[Sequence[PieceSource]],
    segments: SegmentSource,
    ordinal: int,
    symbol: int = 0,
) -> ProcessingUnit:
    """Read small units as one, and run a stage on it.

    Where that fails they are read and processed one by one, and the first of them that fails says
    which rows of which segment it has.

    Parameters
    ----------
    units
        As of :func:`read_joined`.
    """

    def run(number: int, pieces: Sequence[Piece]) -> ProcessingUnit:
        return run_stage(stage, ProcessingUnit(number, stage.schemas[0], pieces))

    pieces = read_joined(units, segments, symbol)
    if pieces is None:
        each_read = [load_piece(each, segments.load, symbol) for unit in units for each in unit]
        return run(ordinal, each_read)
    try:
        return run(ordinal, pieces)
    except CancelledError:
        raise
    except TesselError:
        for number, unit in enumerate(units, ordinal):
            run(number, [load_piece(each, segments.load, symbol) for each in unit])
        raise


class SourceLoader:
    """The entities of one source.

    Parameters
    ----------
    source
        The segments, and which of them each unit has.
    symbol
        Ordinal of the input, in a query over several symbols.
    """

    def __init__(self, manager: ComponentManager, source: SourcePlan, symbol: int) -> None:
        self._manager = manager
        self.source = source
        self._read = read = source.read
        self._segments = source.segments()
        self._symbol = symbol
        planned = read.fetches
        components: dict[type, Sequence[object]] = {
            PieceSource: read.index.sources(planned),
            FetchCount: [FetchCount(count, count) for count in planned.values()],
        }
        self._entities = dict(zip(planned, manager.add(len(planned), components), strict=True))
        # Only an entity that several units want can be asked for by two threads at once.
        self._locks = {position: threading.Lock() for position, n in planned.items() if n > 1}

    @property
    def is_far(self) -> bool:
        """Whether units wait for a store that is far."""
        return self._segments.is_far

    def naming(self) -> contextlib.AbstractContextManager[None]:
        """Let errors name the symbol that is read."""
        view = self.source.view
        return naming(symbol=lambda: f"{view.name!r} (version {view.version})")

    def units(self, pack: range) -> BoundUnit:
        """Return units whose segments no other unit wants as one that is not read yet."""
        positions = list(itertools.chain.from_iterable(map(self._read.units.__getitem__, pack)))
        return self._bound(positions, pack.start)

    def unit(self, ordinal: int) -> ProcessingUnit:
        """Return a unit: not read yet, where no other unit wants its segments."""
        positions = self._read.units[ordinal]
        if positions and self._locks.keys().isdisjoint(positions):
            return self._bound(positions, ordinal)
        return ProcessingUnit(ordinal, self._read.index.schema, map(self._gather, positions))

    def read_selected(self, batches: Sequence[Batch], ordinal: int) -> ProcessingUnit:
        """Return the unit of the rows that are left of batches, few of several in one pass."""
        first = batches[0]
        if len(batches) > 1 and first.bindings.keeps_names:
            pieces = read_together(batches, self._segments, self._symbol)
            unit = ProcessingUnit(ordinal, first.source.schema, pieces)
            return unit.select(first.schema.names)
        return BoundUnit(ordinal, first.schema, batches, self._symbol)

    def run_joined(self, units: range, stage: Stage) -> ProcessingUnit:
        """Read small units, whose segments no other unit wants, as one, and run a stage on it."""
        pieces = [self._sources(self._read.units[unit]) for unit in units]
        return run_joined(stage, pieces, self._segments, units.start, self._symbol)

    def whole(self, ordinal: int) -> ProcessingUnit:
        """Return a unit that was to be read with others, or of few rows, with all of its rows."""
        positions = self._read.units[ordinal]
        pieces = [
            load_piece(source, self._segments.load, self._symbol, self._read.fetches[position])
            for position, source in zip(positions, self._sources(positions), strict=True)
        ]
        return ProcessingUnit(ordinal, self._read.index.schema, pieces)

    def _bound(self, positions: Sequence[int], ordinal: int) -> BoundUnit:
        sources, bindings = self._sources(positions), self._read.bindings
        return bound_unit(sources, self._segments, bindings, ordinal, self._symbol)

    def _sources(self, positions: Sequence[int]) -> Sequence[PieceSource]:
        """Return where segments lie, each given by its position in the index."""
        entities = [self._entities[position] for position in positions]
        (sources,) = self._manager.get(entities, PieceSource)
        return sources

    def _gather(self, position: int) -> Piece:
        """Return a piece that other threads may be asking for, read now or before."""
        (source,) = self._sources([position])
        if position not in self._locks:
            return load_piece(source, self._segments.load, self._symbol)
        entity, planned = self._entities[position], self._read.fetches[position]
        with self._locks[position]:
            ((count,),) = self._manager.get([entity], FetchCount)
            if count.live < planned:
                ((columns,),) = self._manager.gather([entity], Columns)
                return piece_of(source, columns.table, self._symbol, planned)
            piece = load_piece(source, self._segments.load, self._symbol, planned)
            self._manager.attach([entity], {Columns: [Columns(piece.table)]})
            self._manager.gather([entity])
            return piece
