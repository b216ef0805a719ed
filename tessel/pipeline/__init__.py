"""The pipeline: how the clauses of a query become a plan, and how a plan runs on threads.

The planner (:mod:`tessel.pipeline.planner`) turns clauses into stages over units of work; the
executor pulls units through the stages, and restructures them between two. The Spark executor runs
the same plans with the same stage functions. Clauses know nothing of all this.
"""
