"""The arithmetic under the aggregates: exact sums, extremes and positions by group.

Kernels work on numpy arrays of values and group codes and know nothing of aggregates, clauses or
Arrow tables, except that sums can be laid out as Arrow columns. Only
:mod:`tessel.clauses.aggregates` and carry clauses that need exact sums enter here.
"""
