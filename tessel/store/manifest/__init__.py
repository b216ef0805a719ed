"""Segment index tables: what is known of segments without reading them.

The repository writes manifests and makes a :class:`SegmentIndex` of them; clauses prune it; a
:class:`SegmentSource` loads what is left.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "manifest": "Manifest",
        "piece": "SegmentSource",
        "table": "Extent SegmentTable",
    },
)
