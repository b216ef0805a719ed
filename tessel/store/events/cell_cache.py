"""Cells that were read of a saved recording, kept while the memory granted to them lasts.

What is kept are pages, the units in which the store reads. Who asks holds what he got: a page that
is let go meanwhile lives until he is done with it, so that readers and evictions need not agree.
"""

from __future__ import annotations

import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.store.kept import KeptBytes

__all__ = ["CellCache", "CellKey"]

CellKey = tuple[int, int]
"""Number of a column, counted in its recording; first row of the page in the symbol."""


class CellCache(KeptBytes[CellKey, pa.Array]):
    """Pages of cells by key, up to so many bytes; those not used for longest are let go.

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
