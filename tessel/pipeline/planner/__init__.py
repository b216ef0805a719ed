"""The planner: plain functions in an ordered tuple, from clauses as written to a plan.

Each pass is a file with one function ``Draft -> Draft`` and golden before/after tests. A pass may
move or replace clauses only where :mod:`tessel.pipeline.planner.commutation` says so.
"""

from tessel.pipeline.planner.draft import Draft, Input
from tessel.pipeline.planner.planner import PASSES, REQUIRED, Pass, plan_query, query_schema

__all__ = ["PASSES", "REQUIRED", "Draft", "Input", "Pass", "plan_query", "query_schema"]
