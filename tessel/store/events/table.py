"""Table: many events of any entities as one batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.store.events.batch import EventBatch, batches_of_rows
from tessel.store.events.row import Row
from tessel.store.events.table_arrow import batch_of_rows, rows_of_batch

__all__ = ["Table"]


@checks_arguments
class Table:
    """A batch of events; made by :meth:`from_rows`, filled by :meth:`append_row`.

    A component is of one type for each entity. An event that is there already is taken once; one
    with its id and other content is refused.
    """

    def __init__(self) -> None:
        self._rows: dict[bytes, Row] = {}
        self._types: dict[tuple[str, str], pa.DataType] = {}

    @classmethod
    def from_rows(cls, rows: Iterable[Row]) -> Table:
        """Make a batch of events."""
        table = cls()
        for row in rows:
            table.append_row(row)
        return table

    def append_row(self, row: Row) -> Self:
        """Add an event; return the table.

        Raises
        ------
        InvalidInputError
            For a component of another type than before, or an id that another event has; the table
            is as it was.
        """
        before = self._rows.get(row.event_id)
        if before is not None:
            if before != row:
                raise InvalidInputError(
                    f"two events have the id {row.event_id.hex()}: {before!r} and {row!r}"
                )
            return self
        types = {(row.entity, cell.component): cell.type for cell in row.cells}
        for (entity, component), kind in types.items():
            known = self._types.get((entity, component), kind)
            if known != kind:
                raise InvalidInputError(
                    f"component {component!r} of {entity!r} is {known} in a batch, and {kind} now",
                    component=component,
                )
        self._types.update(types)
        self._rows[row.event_id] = row
        return self

    @property
    def rows(self) -> list[Row]:
        """The events, by id."""
        return [self._rows[event_id] for event_id in sorted(self._rows)]

    def batches(self) -> list[EventBatch]:
        """Return the events as columns, a batch a shape."""
        return batches_of_rows(self.rows)

    def to_arrow(self) -> pa.RecordBatch:
        """Return the events as one record batch that says by itself what its columns are.

        A row an event, in the order of ids: ``event_id``, ``entity_path``, a column a timeline,
        ``num_instances``, and a list a component, null where the event has none.

        Raises
        ------
        InvalidInputError
            For a timeline of two kinds.
        """
        return batch_of_rows(self.rows)

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> Table:
        """Read what :meth:`to_arrow` made.

        Raises
        ------
        InvalidInputError
            For a batch that is none, whatever is wrong with it.
        """
        return cls.from_rows(rows_of_batch(batch))

    def __len__(self) -> int:
        return len(self._rows)
