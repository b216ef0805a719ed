"""Segments: how tables are cut, which types they hold, how they are written and read.

The repository writes through ``SegmentWriter``; a query reads through ``SegmentReader``,
by key and column id only: names are a matter of the snapshot.
"""
