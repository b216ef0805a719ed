"""How a plan runs in this process: units, stages, barriers, threads, and what is read of a unit.

The Spark executor uses the same stage functions. Clauses know nothing of this room.
"""
