"""Late materialization across units: few selected rows, and small segments, are read in one pass.

The scan enters here with batches that are not read, whose rows filters have selected.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tessel import telemetry
from tessel.cancelling import check_cancelled
from tessel.clauses.units.pieces import place_of
from tessel.ecs import ColRange, Piece
from tessel.errors import TesselError
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.lazy_columns import plain_text
from tessel.store.manifest.piece import PieceSource, SegmentSource

__all__ = ["read_joined", "read_together"]


def read_together(
    batches: Sequence[Batch], segments: SegmentSource, symbol: int = 0
) -> Piece | None:
    """Gather few rows of several batches into one piece, in one pass over all segments.

    Parameters
    ----------
    batches
        At least one, each of at least one row, in the order of the rows; all conjuncts hold for
        these, and the columns are stored ones.

    Returns
    -------
    Piece or None
        None where columns are cut so that they must be read segment by segment.
    """
    sources = [batch.source.pieces for batch in batches]
    pieces = [each[0] for each in sources]
    first, schema = pieces[0], batches[0].source.schema
    if any(len(each) > 1 or each[0].absent or each[0].columns != first.columns for each in sources):
        return None
    if first.columns != tuple(schema.names):
        return None
    inside = [
        batch.places + piece.segment_row_start for batch, piece in zip(batches, pieces, strict=True)
    ]
    stops = list(itertools.accumulate(map(len, inside)))
    with telemetry.span("segment.read", object=first.key.object) as facts:
        try:
            columns = segments.gather(pieces, np.concatenate(inside), stops, None)
        except TesselError as error:
            error.with_context(segment=str(error.attributes.get("object", first.key.object)))
            raise
        forms = dict.fromkeys(schema.names, "values of single rows")
        left = [name for name, column in zip(schema.names, columns, strict=True) if column is None]
        if left:
            found = dict(zip(schema.names, columns, strict=True)) | _decoded(batches, left)
            columns = list(found.values())
            forms |= dict.fromkeys(left, "values")
        table = pa.table(columns, schema=schema.arrow)
        facts.update(rows=table.num_rows, bytes=table.nbytes, columns=forms)
    place = place_of(first, pieces[-1], symbol)
    return dataclasses.replace(place, table=table, col_range=ColRange(0, table.num_columns))


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
