"""Where segments' bytes are read from: one file per source, behind one protocol.

The I/O queue and the reader of segments enter here; ``open_source`` chooses.
"""
