"""The aggregates of ``groupby`` and ``resample``, a family a file.

All skip missing values (null or NaN), except ``size``, which counts rows. Which types they take and
return is a table in ``docs/aggregates.md``, held to the code by a test. What a type has no meaning
for is refused at plan time with :class:`tessel.errors.AggregateError`; a sum past its type raises
:class:`tessel.errors.IntegerOverflowError`.

A new aggregate is one file here with a registered subclass of :class:`Aggregate` or
:class:`MergeableAggregate`, or of :class:`FromReductions`, which is faster and shorter; the file
has the name of the aggregate, or a line in :mod:`~tessel.clauses.aggregates.registry` says where it
lies.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "base": "Aggregate AggregateBundle MergeableAggregate",
        "count": "Count Size",
        "from_reductions": "FromReductions",
        "mean": "Mean",
        "median": "Median",
        "nunique": "NUnique",
        "quantile": "Quantile",
        "registry": (
            "aggregate_from_json aggregate_names bind_aggregate find_aggregate find_bundle register"
        ),
        "selective": "AllTrue AnyTrue First Last Max Min Ohlc",
        "spread": "Sem Std Var",
        "sum": "Sum",
        "weighted_mean": "WeightedMean",
    },
)
