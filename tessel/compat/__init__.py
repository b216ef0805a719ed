"""Programs of other systems, over Tessel's public API.

One package for each system: :mod:`tessel.compat.arcticdb`. Each gives the names of the other
system, imports nothing of Tessel but what users import, and holds no logic that a user of Tessel
would miss. No other part of Tessel imports it.
"""
