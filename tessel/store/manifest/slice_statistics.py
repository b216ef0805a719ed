"""What manifests know of the columns of an index, one value per row slice."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from tessel.arrays import arrow_array
from tessel.expression.schema import TableSchema
from tessel.store.manifest.table import Flags, Integers, SegmentTable
from tessel.store.segment.statistics import SliceFacts, bounds_type


class SliceStatistics:
    """Statistics of the row slices of a segment index.

    Bounds stay sound when a row slice is cut, but are no longer exact.
    """

    def __init__(
        self,
        table: SegmentTable,
        schema: TableSchema,
        column_ids: Mapping[str, int],
        slices: Integers | slice,
        rows: Integers,
        whole: Flags,
    ) -> None:
        self._table = table
        self._schema = schema
        self._column_ids = column_ids
        self._slices = slices
        self._rows = rows
        self._whole = whole
        self._facts: dict[str, SliceFacts] = {}

    @property
    def row_counts(self) -> Integers:
        """Rows left of each row slice. int64."""
        return self._rows

    def facts(self, name: str) -> SliceFacts:
        """Return what is known of one column; reads its statistics the first time.

        Raises ColumnNotFoundError for a name that is no column; CorruptStoreError when a manifest
        is damaged.
        """
        if name not in self._facts:
            bounds = bounds_type(self._schema.type_of(name))
            whole = self._table.statistics(self._column_ids[name], bounds)
            minimum, maximum = whole.minimum, whole.maximum
            if not isinstance(self._slices, slice):
                at = arrow_array(self._slices)
                minimum, maximum = minimum.take(at), maximum.take(at)
            self._facts[name] = dataclasses.replace(
                whole,
                minimum=minimum,
                maximum=maximum,
                minimum_exact=whole.minimum_exact[self._slices] & self._whole,
                maximum_exact=whole.maximum_exact[self._slices] & self._whole,
                missing=np.minimum(whole.missing[self._slices], self._rows),
            )
        return self._facts[name]
