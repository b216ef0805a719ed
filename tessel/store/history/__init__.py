"""The history of a store: commits, snapshots, conflicts.

Only the repository enters here.
"""
