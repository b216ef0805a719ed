"""Late materialization across units: few selected rows, and small segments, are read in one pass.

The scan enters here with batches that are not read, whose rows filters have selected.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tessel import telemetry
from tessel.cancelling import check_cancelled
from tessel.clauses.units.pieces import place_of
from tessel.ecs import Piece
from tessel.errors import TesselError
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.lazy_columns import plain_text
from tessel.store.manifest.piece import PieceSource, SegmentSource

__all__ = ["read_joined", "read_together"]


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
    for _, run in itertools.groupby(batches, key=_cut):
        own = list(run)
        slices = zip(*(batch.source.pieces for batch in own), strict=True)
        found += [_gathered(own, pieces, segments, symbol) for pieces in slices]
    return found


def _cut(batch: Batch) -> list[tuple[tuple[object, ...], ...]]:
    """Return the columns of each slice of a batch."""
    return [(each.columns, each.column_ids, each.absent) for each in batch.source.pieces]


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
        try:
            table = batch.narrowed()[0].values(names)
        except TesselError as error:
            error.with_context(segment=batch.source.pieces[0].key.object)
            raise
        for name, column in zip(names, table.columns, strict=True):
            kind = batch.source.schema.type_of(name)
            chunks[name] += [c if c.type == kind else plain_text(c) for c in column.chunks]
    return {name: pa.chunked_array(found) for name, found in chunks.items()}


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
