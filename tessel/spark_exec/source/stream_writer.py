"""Writes batches of a stream as rows of a symbol, as :mod:`tessel.spark_exec.source.writer` does.

A module of its own: pyspark has its base class from 4.1 on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from tessel.spark_exec.source.writer import StagingWriter, came_back
from tessel.store.operations.write_ids import StreamBatch


class StreamWriter(StagingWriter, DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each once."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Make the rows of a batch those of the symbol, in one commit, unless they are already."""
        staged = came_back(messages)
        queries = [each.query for each in staged if each.query is not None]
        named = self.asked.write_id
        assert isinstance(named, StreamBatch)
        self.finalize_staged(
            staged, dataclasses.replace(named, number=batch, query=next(iter(queries), None))
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Do nothing: what was staged belongs to no version, and ``gc`` collects it."""
