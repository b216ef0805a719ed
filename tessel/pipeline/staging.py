"""Where the result of a plan is staged, in this process or in the tasks of a job."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING

import pyarrow as pa

from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.store.operations.staged import StagedRows
    from tessel.store.repository import Repository


@dataclass(frozen=True)
class Staging:
    """Where the rows of a result are staged.

    Attributes
    ----------
    store
        Opened anew in each task.
    schema
        Their columns, and the index that they get.
    sort
        Whether each task sorts its rows by the index.
    job
        Tells the tasks of this result from those of others.
    """

    store: Repository
    symbol: str
    schema: TableSchema
    sort: bool
    job: str = field(default_factory=lambda: secrets.token_hex(8))

    def staged(self, tables: Iterable[pa.Table], place: int) -> StagedRows:
        """Stage some tables of the result; ``place`` names the piece of work."""
        return self.store.stage(
            self.symbol,
            itertools.chain([self.schema.empty()], tables),
            task_id=f"{self.job}-{place}",
            index=self.schema.index or False,
            sort=self.sort,
        )
