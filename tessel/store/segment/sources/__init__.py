"""Where segments' bytes are read from: sources behind one protocol.

The reader of segments enters here; ``open_source`` chooses.
"""
