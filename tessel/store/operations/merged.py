"""What a finalise has merged, kept for the case that it has to begin anew.

Merging reads all rows of stages that overlap and writes them again. Where the commit cannot land
after what others did meanwhile, the rows are the same when it is tried again, and mostly so are the
columns they go into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa

from tessel.errors import CorruptStoreError, LeaseExpiredError, NotFoundError
from tessel.store.history.symbol import SymbolState
from tessel.store.operations.stage import Stage
from tessel.store.operations.staged import StagedRows
from tessel.store.segment.writer import WrittenSlice

__all__ = ["Merged"]

_Key: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, int, str], ...]]


class Merged:
    """Segments that tries of one finalise have written; used by one thread."""

    def __init__(self) -> None:
        self._slices: dict[_Key, list[WrittenSlice]] = {}
        self._stage: Stage | None = None

    def begin(self, stage: Stage, survived: Callable[[], None]) -> None:
        """Begin a try; drop what was written before unless all of it is there and will stay.

        Parameters
        ----------
        stage
            The transaction.
        survived
            Raises ``LeaseExpiredError`` where an object of the transaction was condemned.
        """
        self._stage = stage
        names = sorted(
            {
                segment.key.object
                for slices in self._slices.values()
                for each in slices
                for segment in each.segments
            }
        )
        try:
            for name in names:
                stage.objects.size(name)
            stage.session.adopt(names)
            survived()
        except (NotFoundError, CorruptStoreError, LeaseExpiredError):
            stage.session.disown(names)
            self._slices.clear()

    def written(
        self,
        group: Sequence[StagedRows],
        target: SymbolState,
        rows: Callable[[], Iterable[pa.Table]],
    ) -> list[WrittenSlice]:
        """Return the segments of some stages in the columns of a symbol, written at most once.

        Parameters
        ----------
        group
            The stages.
        target
            The symbol that they become rows of.
        rows
            Returns the rows.
        """
        assert self._stage is not None
        attempts = tuple(each.attempt for each in group)
        columns = [(f.name, target.column_ids[f.name], str(f.type)) for f in target.schema.arrow]
        key = attempts, tuple(columns)
        if key not in self._slices:
            self._slices[key] = self._stage.write_segments(target, rows())
        return self._slices[key]
