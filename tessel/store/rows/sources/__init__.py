"""Where rows come from as bytes: a socket, a growing file. One source a file."""

from tessel.store.rows.sources.file_tail import FileTail
from tessel.store.rows.sources.listener import RowListener

__all__ = ["FileTail", "RowListener"]
