"""Looking after a store: what may go, what must stay, and whether all of it is sound.

- ``expire``: versions are given up
- ``gc``: what no kept version refers to is deleted
- ``leases``: what long sessions need is left alone
- ``fsck``: everything that is referred to is read and verified
- ``marking``: what is referred to
- ``upkeep``: these as verbs of a repository, and which symbols share a manifest

Nothing of ours is imported here, so that a transaction, which needs leases, does not load the rest.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

__all__ = ["LEASE_SECONDS", "MINIMUM_AGE"]

LEASE_SECONDS: Final = 24 * 3600
"""How long a lease lasts where nothing else is said; it can be renewed."""

MINIMUM_AGE: Final = timedelta(hours=24)
"""The age below which a garbage collection deletes nothing."""
