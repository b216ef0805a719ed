"""Events logged by many things at many rates, and a store that answers while they are written.

A :class:`Recorder` logs events and hands them on in batches; a :class:`LiveStore` holds them by
entity, timeline and component, answers ``latest_at``, ``range`` and ``table`` at any moment, and
serves recorders of other processes, which log to a :class:`SocketSink`. A :class:`Row` is one
event, a :class:`Cell` the values of one of its components, a :class:`Table` a batch of events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessel.lazy import names_from
from tessel.store.events.batch import EventBatch
from tessel.store.events.collection import Change, Collected
from tessel.store.events.converters import Converter, converter_names, register_converter
from tessel.store.events.extension_types import Reference
from tessel.store.events.live_store import LiveStore
from tessel.store.events.queries import Found, join_instances
from tessel.store.events.recorder import Recorder, Sink
from tessel.store.events.reference_reader import ReferenceReader
from tessel.store.events.row import Cell, Row
from tessel.store.events.sinks import FileSink, SocketSink
from tessel.store.events.table import Table
from tessel.store.events.timeline import (
    EventIds,
    Timeline,
    TimelineKind,
    id_bytes,
    id_parts,
    log_time,
)

if TYPE_CHECKING:
    from tessel.store.events.server import EventServer

__all__ = [
    "Cell",
    "Change",
    "Collected",
    "Converter",
    "EventBatch",
    "EventIds",
    "EventServer",
    "FileSink",
    "Found",
    "LiveStore",
    "Recorder",
    "Reference",
    "ReferenceReader",
    "Row",
    "Sink",
    "SocketSink",
    "Table",
    "Timeline",
    "TimelineKind",
    "converter_names",
    "id_bytes",
    "id_parts",
    "join_instances",
    "log_time",
    "register_converter",
]

__getattr__ = names_from(__name__, {"server": "EventServer"})  # the event loop's modules are many
