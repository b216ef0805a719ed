"""Few rows of units, which are read together once it is known which of them a query needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from tessel.clauses.capabilities import DynamicFilter
from tessel.errors import TesselError
from tessel.pipeline.packing import ROWS_TOGETHER
from tessel.store.manifest.batch import Batch

__all__ = ["SparseRows", "joined_rows", "with_error"]

Other = TypeVar("Other")

_UNITS_TOGETHER = 1 << 6


class SparseRows:
    """Few rows of a unit, or of several that follow one another, whose columns are not read yet.

    Parameters
    ----------
    ordinals
        Of the units.
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
        rows = [(batch, len(batch.places)) for batch in batches]
        self.batches = [batch for batch, count in rows if count]
        self.rows = sum(count for _, count in rows)
        self.row_bytes = row_bytes
        self.bytes = int(self.rows * row_bytes)

    def takes(self, other: SparseRows, most_bytes: int) -> bool:
        """Return whether the rows of another are read together with these."""
        return (
            self.done == other.done
            and self.rows + other.rows <= ROWS_TOGETHER
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
            most_units = max(most_units, min(2 * most_units, _UNITS_TOGETHER))
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
