"""The aggregates of ``groupby`` and ``resample``, one a file; the listing is the list of them.

All skip missing values (null or NaN), except ``size``, which counts rows. What they return:

============================= ========= =========== ======= ====== ===============
column                        sum       mean,       min,    first, count, nunique,
                                        median      max     last   size
============================= ========= =========== ======= ====== ===============
bool                          int64     float64     same    same   int64
int8 … int64                  int64     float64     same    same   int64
uint8 … uint64                uint64    float64     same    same   int64
float16, float32, float64     float64   float64     same¹   same¹  int64
decimal128(p, s)              (38, s)²  float64     same    same   int64
text, binary                  –         –           same    same   int64
date32, date64                –         same, days  same    same   int64
time32, time64                –         same        same    same   int64
timestamp                     –         same        same    same   int64
duration                      same      same        same    same   int64
null                          int64     float64     null    null   int64
dictionary, view types        as the type of their values
list, struct, others          –         –           –       same   int64³
----------------------------- --------- ----------- ------- ------ ---------------
of no values                  0         missing     missing missing 0
============================= ========= =========== ======= ====== ===============

¹ float16 comes back as float32. ² decimal128 of 38 digits. ³ not ``nunique``.
A dash is refused at plan time with :class:`tessel.errors.AggregateError`. A sum past its type
raises :class:`tessel.errors.IntegerOverflowError`.

A new aggregate is one file here with a registered subclass of :class:`Aggregate` or
:class:`MergeableAggregate`, and one line in this module.
"""

from __future__ import annotations

from tessel.clauses.aggregates.base import (
    Aggregate,
    MergeableAggregate,
    aggregate_from_json,
    aggregate_names,
    find_aggregate,
    register,
)
from tessel.clauses.aggregates.count import Count
from tessel.clauses.aggregates.first import First
from tessel.clauses.aggregates.last import Last
from tessel.clauses.aggregates.max import Max
from tessel.clauses.aggregates.mean import Mean
from tessel.clauses.aggregates.median import Median
from tessel.clauses.aggregates.min import Min
from tessel.clauses.aggregates.nunique import NUnique
from tessel.clauses.aggregates.size import Size
from tessel.clauses.aggregates.sum import Sum

__all__ = [
    "Aggregate",
    "Count",
    "First",
    "Last",
    "Max",
    "Mean",
    "Median",
    "MergeableAggregate",
    "Min",
    "NUnique",
    "Size",
    "Sum",
    "aggregate_from_json",
    "aggregate_names",
    "find_aggregate",
    "register",
]
