"""The aggregates of ``groupby`` and ``resample``, one a file; the listing is the list of them.

All skip missing values (null or NaN), except ``size``, which counts rows. Which types they take and
return is a table in ``docs/aggregates.md``, held to the code by a test. What a type has no meaning
for is refused at plan time with :class:`tessel.errors.AggregateError`; a sum past its type raises
:class:`tessel.errors.IntegerOverflowError`.

A new aggregate is one file here with a registered subclass of :class:`Aggregate` or
:class:`MergeableAggregate`, or of :class:`FromReductions`, which is faster and shorter; the file
has the name of the aggregate.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "all": "AllTrue",
        "any": "AnyTrue",
        "base": "Aggregate AggregateBundle MergeableAggregate",
        "count": "Count",
        "first": "First",
        "from_reductions": "FromReductions",
        "last": "Last",
        "max": "Max",
        "mean": "Mean",
        "median": "Median",
        "min": "Min",
        "nunique": "NUnique",
        "ohlc": "Ohlc",
        "quantile": "Quantile",
        "registry": (
            "aggregate_from_json aggregate_names bind_aggregate find_aggregate find_bundle register"
        ),
        "sem": "Sem",
        "size": "Size",
        "std": "Std",
        "sum": "Sum",
        "var": "Var",
        "weighted_mean": "WeightedMean",
    },
)
