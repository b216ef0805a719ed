"""Kernels of the joins: equal keys of two tables, the rows that match, the table they make.

The clauses that people write are in :mod:`tessel.clauses.join` and ``join_asof``; what the planner
makes of them, and what is computed on one unit, is here. Nothing here knows of executors.
"""
