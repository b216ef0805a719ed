"""The workloads, one file each."""

from __future__ import annotations

from benchmarks.workloads import flights, segments, trades
from benchmarks.workloads.base import Query, Workload

__all__ = ["WORKLOADS", "Query", "Workload"]

WORKLOADS = {
    workload.name: workload for workload in (flights.WORKLOAD, trades.WORKLOAD, segments.WORKLOAD)
}
