"""What a recorder hands its events to, besides a live store of its own process; one sink a file."""

from tessel.store.events.sinks.file_sink import FileSink
from tessel.store.events.sinks.socket_sink import SocketSink

__all__ = ["FileSink", "SocketSink"]
