"""Where segments' bytes are read from: one file per source, behind one protocol.

The reader of segments enters here; ``open_source`` chooses.
"""
