"""The stores that commits are measured on, one a file."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from benchmarks.commits.stores.base import CommitStore, StoreKind, Timing

__all__ = ["CommitStore", "StoreKind", "Timing", "installed", "kind_named"]

_NEEDS = {
    "tessel": (),
    "icechunk": ("icechunk", "zarr"),
    "arcticdb": ("arcticdb",),
}


def installed() -> tuple[list[StoreKind], list[str]]:
    """Return the stores that can be measured here, and the names of those that cannot."""
    found = [name for name, needs in _NEEDS.items() if all(map(find_spec, needs))]
    return [kind_named(name) for name in found], [name for name in _NEEDS if name not in found]


def kind_named(name: str) -> StoreKind:
    """Return a kind of store."""
    kind: StoreKind = import_module(f"benchmarks.commits.stores.{name}_store").KIND
    return kind
