"""Segment index tables: what is known of segments without reading them.

The repository writes manifests and makes a ``SegmentIndex`` of them; clauses prune it; a
``SegmentSource`` loads what is left.
"""
