"""Late materialization across units: few chosen rows, and small segments, are read in one pass.

The scan enters here with units that are bound and not read. A clause that chooses rows is asked of
all units before the other columns are read, so that what one unit found can drop what others chose;
the few rows that are left are gathered in one pass.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel import telemetry
from tessel.cancelling import check_cancelled
from tessel.clauses.base import Clause
from tessel.clauses.capabilities import Chooses, Settles, has_capability
from tessel.clauses.running.bound_unit import BoundUnit
from tessel.clauses.running.pieces import place_of
from tessel.ecs import ColRange, Piece
from tessel.errors import TesselError
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.piece import PieceSource, SegmentSource

__all__ = [
    "ChosenRows",
    "choose_rows",
    "chooses",
    "read_joined",
    "read_together",
    "settle_rows",
]


@dataclass(slots=True, eq=False)
class ChosenRows:
    """Rows of one batch that a clause chose; their other columns are not read yet.

    Attributes
    ----------
    batch
        The batch, unread.
    places
        The chosen rows, counted from the first of the row range, ascending, int64.
    """

    batch: Batch
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.places)

    def selected(self) -> Batch:
        """Return the batch with these rows selected."""
        return self.batch.keep(self.places)


def chooses(clause: Clause) -> bool:
    """Return whether a clause can choose rows before their other columns are read."""
    return has_capability(clause, Chooses, "choose")


def choose_rows(unit: BoundUnit, clause: Clause) -> list[ChosenRows] | None:
    """Return the rows that a clause chooses of each batch; None where it needs values first.

    The unit itself stays as it is.
    """
    chosen: list[ChosenRows] = []
    with telemetry.span("clause.choose", clause=clause.name, unit=unit.ordinal) as facts:
        facts.update(rows_in=unit.rows_spanned, stored=False)
        try:
            for batch in unit.batches:
                places = cast(Chooses, clause).choose(batch)
                if places is None:
                    return None
                chosen.append(ChosenRows(batch.unread(), places))
        except TesselError:
            return None  # the values say what is wrong, and which clause it belongs to
        facts.update(rows_out=sum(map(len, chosen)), stored=True)
        facts.update(columns=unit.take_forms())
    return chosen


def settle_rows(clause: Clause, chosen: Iterable[ChosenRows]) -> None:
    """Drop chosen rows that later units have made needless, where the clause can tell."""
    if not isinstance(clause, Settles):
        return
    for each in chosen:
        places = clause.settle(each.batch.first_row)
        if places is not None and len(each):
            each.places = places


def read_together(
    chosen: Sequence[ChosenRows], segments: SegmentSource, symbol: int = 0
) -> Piece | None:
    """Gather few rows of several batches into one piece, in one pass over all segments.

    Parameters
    ----------
    chosen
        At least one, each of at least one row, in the order of the rows; the columns of their
        batches are stored ones.

    Returns
    -------
    Piece or None
        None where columns are cut or stored so that they must be read segment by segment.
    """
    sources = [each.batch.source.pieces for each in chosen]
    pieces = [each[0] for each in sources]
    first, schema = pieces[0], chosen[0].batch.source.schema
    if any(len(each) > 1 or each[0].absent or each[0].columns != first.columns for each in sources):
        return None
    if first.columns != tuple(schema.names):
        return None
    stops = list(itertools.accumulate(map(len, chosen)))
    inside = [
        each.places + piece.segment_row_start for each, piece in zip(chosen, pieces, strict=True)
    ]
    with telemetry.span("segment.read", object=first.key.object) as facts:
        try:
            columns = segments.gather(pieces, np.concatenate(inside), stops, None)
        except TesselError as error:
            error.with_context(segment=str(error.attributes.get("object", first.key.object)))
            raise
        if any(column is None for column in columns):
            return None
        table = pa.table(columns, schema=schema.arrow)
        facts.update(rows=table.num_rows, bytes=table.nbytes)
        facts.update(columns=dict.fromkeys(schema.names, "values of single rows"))
    place = place_of(first, pieces[-1], symbol)
    return dataclasses.replace(place, table=table, col_range=ColRange(0, table.num_columns))


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
