"""Looking after a store: what may go, what must stay, and whether all of it is sound.

- ``expire``: versions are given up
- ``gc``: what no kept version refers to is deleted
- ``leases``: what long sessions need is left alone
- ``fsck``: everything that is referred to is read and verified
- ``marking``: what is referred to
- ``upkeep``: these as verbs of a repository
- ``reports``: what they tell

Nothing is imported here, so that a transaction, which needs leases, does not load the rest.
"""
