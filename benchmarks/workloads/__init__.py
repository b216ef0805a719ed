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
    unseen,
    wide,
    windows,
)
from benchmarks.workloads.base import Query, Workload

__all__ = ["NAMES", "WORKLOADS", "Query", "Workload", "workload_named"]

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

NAMES = (*WORKLOADS, "unseen")


def workload_named(name: str, seed: int) -> Workload:
    """Return a workload; that of a seed where it is drawn."""
    return unseen.drawn_from(seed) if name == "unseen" else WORKLOADS[name]
