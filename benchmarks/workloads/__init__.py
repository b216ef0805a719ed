"""The workloads, one file each."""

from __future__ import annotations

from benchmarks.workloads import (
    aggregates,
    flights,
    groups,
    joins,
    ordered,
    segments,
    spark,
    trades,
    trades_with_nulls,
    wide,
    windows,
)
from benchmarks.workloads.base import Query, Workload

__all__ = ["WORKLOADS", "Query", "Workload"]

WORKLOADS = {
    module.WORKLOAD.name: module.WORKLOAD
    for module in (
        aggregates,
        flights,
        trades,
        trades_with_nulls,
        segments,
        wide,
        groups,
        joins,
        ordered,
        windows,
        spark,
    )
}
