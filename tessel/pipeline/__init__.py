"""The pipeline: how the clauses of a query become a plan, and how a plan runs on threads.

The planner (:mod:`tessel.pipeline.planner`) turns clauses into stages over units of work; the
executor pulls units through the stages, and restructures them between two. The Spark executor runs
the same plans with the same stage functions. Clauses know nothing of all this.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "carrying": "Between carries_between",
        "executor": "Executor LocalExecutor result_table run_stages run_units symbols_of",
        "explain": "Explanation explain_plan",
        "plan": "Catalog Plan Question SourcePlan Stage answered plugins_of",
        "planner.planner": "plan_query query_schema",
        "stage": (
            "bound_stage interleave_units run_between run_bound run_clauses run_stage "
            "summarise without_segments"
        ),
    },
)
