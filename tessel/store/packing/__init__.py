"""Packing at a commit: what :mod:`tessel.store.manifest.packing` plans is carried out here.

The plan is pure and knows no objects. Here the snapshot is put before it as a lazy
:class:`SnapshotMembership`; what it decides is encoded, checked against the limits of bytes and
planned again where it does not fit; and the extents of the symbols are told where their rows went.
Transactions, ``repack`` and the preloading at open enter here.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "membership": "SnapshotMembership",
    },
)
