"""What commits cost, beside Icechunk and ArcticDB where they are installed.

``python -m benchmarks.commits``: many small symbols touched in one commit; one small symbol made,
written and appended to as the store gets more of them; one append to a store of
ever more segments, cached and cold, with the time in fsync apart; objects and bytes of a commit as
a store grows; commits of many processes a second; requests from a cold open to the first row.
Everything is on a local disk, ours with fsync on. What a store holds afterwards is compared with
what was committed, and a difference is said instead of a time.
"""

from benchmarks.commits.simulated import simulate

__all__ = ["simulate"]
