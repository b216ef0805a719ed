"""Manifest sets: which symbols share a manifest, decided and carried out at a commit.

What is planned (``pack``, the tails of appends by ``plan_tails`` and ``plan_folds``,
what to fetch at open by ``choose_preloads``) is pure: it is told of a snapshot through a
``Membership``, and neither reads nor writes. A commit puts its snapshot before it as a lazy
``SnapshotMembership``; what is decided is encoded, checked against the limits of bytes and
planned again where it does not fit; and the extents of the symbols are told where their rows went.
Transactions, ``repack`` and the preloading at open enter here.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__, {"configuration": "ManifestConfiguration ManifestRule ManifestSet Preload"}
)
