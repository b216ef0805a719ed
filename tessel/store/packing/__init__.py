"""Packing at a commit: what :mod:`tessel.store.manifest.packing` plans is carried out here.

The plan is pure and knows no objects. Here the snapshot is put before it as a lazy
:class:`SnapshotMembership`; what it decides is encoded, checked against the limits of bytes and
planned again where it does not fit; and the extents of the symbols are told where their rows went.
Transactions, ``repack`` and the preloading at open enter here.
"""

from tessel.store.packing.flush import Flush, Flushed, usual_configuration
from tessel.store.packing.membership import SnapshotMembership
from tessel.store.packing.preload import Preloader
from tessel.store.packing.repacking import RepackReport, repack_all

__all__ = [
    "Flush",
    "Flushed",
    "Preloader",
    "RepackReport",
    "SnapshotMembership",
    "repack_all",
    "usual_configuration",
]
