"""The planner: plain functions in an ordered tuple, from clauses as written to a plan.

Each pass is a file with one function ``Draft -> Draft`` and golden before/after tests. A pass may
move or replace clauses only where :mod:`tessel.pipeline.planner.commutation` says so.
"""
