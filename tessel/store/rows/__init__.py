"""Event rows: input that arrives row by row, until it becomes columns.

A :class:`RowSchema` says where the fields of a row lie; :class:`Rows` reads them where they are; a
:class:`RowArena` or :class:`RowBuffer` writes them; a :class:`RowBatchBridge` gives Arrow batches
by rows, bytes and time; a :class:`RowPipeline` filters and projects on arrival; a
:class:`CommitStream` makes commits of batches, each row exactly once. Rows exist at this
edge alone: nothing inside is turned from columns into rows to be processed.
"""

from tessel.store.rows.arena import MutableEventRow, RowArena
from tessel.store.rows.bridge import FlushTimer, RowBatchBridge
from tessel.store.rows.buffer import RowBuffer
from tessel.store.rows.commit_stream import CommitStream
from tessel.store.rows.field_types import FieldType
from tessel.store.rows.pipeline import RowPipeline
from tessel.store.rows.rows import EventRow, Rows
from tessel.store.rows.schema import FieldLayout, Layout, RowSchema
from tessel.store.rows.sources import FileTail, RowListener, RowStream

__all__ = [
    "CommitStream",
    "EventRow",
    "FieldLayout",
    "FieldType",
    "FileTail",
    "FlushTimer",
    "Layout",
    "MutableEventRow",
    "RowArena",
    "RowBatchBridge",
    "RowBuffer",
    "RowListener",
    "RowPipeline",
    "RowSchema",
    "RowStream",
    "Rows",
]
