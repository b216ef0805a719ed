"""The aggregates of ``groupby`` and ``resample``, one a file; the listing is the list of them.

All skip missing values (null or NaN), except ``size``, which counts rows. Which types they take and
return is a table in ``docs/aggregates.md``, held to the code by a test. What a type has no meaning
for is refused at plan time with :class:`tessel.errors.AggregateError`; a sum past its type raises
:class:`tessel.errors.IntegerOverflowError`.

A new aggregate is one file here with a registered subclass of :class:`Aggregate` or
:class:`MergeableAggregate`, and one line in this module.
"""

from __future__ import annotations

from tessel.clauses.aggregates.all import AllTrue
from tessel.clauses.aggregates.any import AnyTrue
from tessel.clauses.aggregates.base import (
    Aggregate,
    AggregateBundle,
    FromFacts,
    MergeableAggregate,
)
from tessel.clauses.aggregates.count import Count
from tessel.clauses.aggregates.first import First
from tessel.clauses.aggregates.last import Last
from tessel.clauses.aggregates.max import Max
from tessel.clauses.aggregates.mean import Mean
from tessel.clauses.aggregates.median import Median
from tessel.clauses.aggregates.min import Min
from tessel.clauses.aggregates.nunique import NUnique
from tessel.clauses.aggregates.ohlc import Ohlc
from tessel.clauses.aggregates.quantile import Quantile
from tessel.clauses.aggregates.registry import (
    aggregate_from_json,
    aggregate_names,
    bind_aggregate,
    find_aggregate,
    find_bundle,
    register,
)
from tessel.clauses.aggregates.sem import Sem
from tessel.clauses.aggregates.size import Size
from tessel.clauses.aggregates.std import Std
from tessel.clauses.aggregates.sum import Sum
from tessel.clauses.aggregates.var import Var
from tessel.clauses.aggregates.weighted_mean import WeightedMean

__all__ = [
    "Aggregate",
    "AggregateBundle",
    "AllTrue",
    "AnyTrue",
    "Count",
    "First",
    "FromFacts",
    "Last",
    "Max",
    "Mean",
    "Median",
    "MergeableAggregate",
    "Min",
    "NUnique",
    "Ohlc",
    "Quantile",
    "Sem",
    "Size",
    "Std",
    "Sum",
    "Var",
    "WeightedMean",
    "aggregate_from_json",
    "aggregate_names",
    "bind_aggregate",
    "find_aggregate",
    "find_bundle",
    "register",
]
