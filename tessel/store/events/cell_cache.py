"""The LRU cache of cells that were read of a saved recording.

Its entries are pages, the units in which the store reads. A reader has a reference to the page that
it got, so evictions need not wait for readers.
"""

from __future__ import annotations

import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.store.lru_cache import ByteLruCache

__all__ = ["CellCache", "CellKey"]

CellKey = tuple[int, int]
"""Number of a column, counted in its recording; first row of the page in the symbol."""


class CellCache(ByteLruCache[CellKey, pa.Array]):
    """An LRU cache of so many bytes of pages of cells.

    Parameters
    ----------
    budget_bytes
        Of all pages together, as Arrow arrays.

    Raises
    ------
    InvalidInputError
        For a budget that is no number of bytes.
    """

    def __init__(self, budget_bytes: int) -> None:
        if isinstance(budget_bytes, bool) or not isinstance(budget_bytes, int) or budget_bytes < 0:
            raise InvalidInputError(
                f"a budget of {budget_bytes!r} bytes for cells",
                hint="give a whole number from 0 on; with 0 nothing is kept",
            )
        super().__init__(budget_bytes, lambda page: int(page.nbytes))
