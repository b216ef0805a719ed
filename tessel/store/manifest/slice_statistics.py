"""What manifests know of the columns of an index, one value per row slice."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field

import numpy as np

from tessel.arrays import arrow_array
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.manifest.table import Flags, Integers, SegmentTable
from tessel.store.segment.statistics import SliceFacts, bounds_type


@dataclass(frozen=True, eq=False)
class SliceStatistics:
    """Statistics of the row slices of a segment index.

    Bounds stay sound when a row slice is cut, but are no longer exact.
    """

    table: SegmentTable
    schema: TableSchema
    column_ids: Mapping[str, int]
    slices: Integers | slice
    row_counts: Integers
    whole: Flags
    _facts: dict[str, SliceFacts] = field(default_factory=dict)

    def facts(self, name: str) -> SliceFacts:
        """Return what is known of one column; reads its statistics the first time.

        Raises ColumnNotFoundError for a name that is no column; CorruptStoreError when a manifest
        is damaged.
        """
        if name not in self._facts:
            bounds = bounds_type(self.schema.type_of(name))
            whole = self.table.statistics(self.column_ids[name], bounds)
            minimum, maximum = whole.minimum, whole.maximum
            if not isinstance(self.slices, slice):
                at = arrow_array(self.slices)
                minimum, maximum = minimum.take(at), maximum.take(at)
            self._facts[name] = dataclasses.replace(
                whole,
                minimum=minimum,
                maximum=maximum,
                minimum_exact=whole.minimum_exact[self.slices] & self.whole,
                maximum_exact=whole.maximum_exact[self.slices] & self.whole,
                missing=np.minimum(whole.missing[self.slices], self.row_counts),
            )
        return self._facts[name]
