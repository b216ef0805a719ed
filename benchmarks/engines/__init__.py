"""The engines, one file each. A file is imported only in the process that runs its engine."""

from __future__ import annotations

import importlib

from benchmarks.engines.base import Engine

__all__ = ["DEFAULT_ENGINES", "ENGINE_NAMES", "Engine", "load_engine"]

ENGINE_NAMES = (
    "tessel",
    "tessel_compact",
    "tessel_spark",
    "spark_sql",
    "duckdb",
    "polars",
    "pandas",
    "pyarrow",
    "arrow_ipc",
    "lance",
    "vortex",
    "arcticdb",
)

DEFAULT_ENGINES = ("tessel", "duckdb", "polars", "pandas", "pyarrow")
"""Those that run unless others are asked for; the extras ``bench-formats`` and ``spark`` install
the rest."""


def load_engine(name: str) -> Engine:
    """Import and make the engine of that name."""
    if name not in ENGINE_NAMES:
        raise SystemExit(f"no engine {name!r}: there are {', '.join(ENGINE_NAMES)}")
    engine: Engine = importlib.import_module(f"benchmarks.engines.{name}_engine").ENGINE
    return engine
