"""Makes ``docs/coming-from-*.md`` of the table of names: ``python -m tests.migration_pages``."""

from __future__ import annotations

from pathlib import Path

from tessel.errors.foreign_names import FOREIGN_NAMES

__all__ = ["PAGES", "page"]

_MISSING = (
    "A null and a NaN are one thing, *missing*: `is_missing()`, `fill_missing(0)`. Aggregates skip "
    "it; comparisons with it are missing (Kleene's logic)."
)
_IMMUTABLE = "A query is immutable: each verb returns a new one, and nothing is changed in place."
_VERSIONS = (
    "Versions are those of the whole store: every write is one commit and has one number. "
    '`as_of` takes a number, a tag, a branch or a time; `versions("trades")` lists those that '
    "touched a symbol."
)

_TITLES = {
    "arcticdb": "ArcticDB",
    "polars": "Polars",
    "duckdb": "DuckDB",
    "spark": "Spark",
    "lance": "Lance",
    "icechunk": "Icechunk",
    "rerun": "Rerun",
}

PAGES: dict[str, tuple[str, ...]] = {
    "arcticdb": (
        _VERSIONS,
        "There are no libraries: a store is one place, and several are several folders.",
        _IMMUTABLE + ' `q = q[q["price"] > 1]`, not `q = q[q.price > 1]` on the same object.',
        _MISSING,
        "Objects of Python are not pickled. Tables are stored, and `metadata=` is plain JSON.",
        "`append` does not create a symbol, and refuses rows before its last time: `update` "
        "replaces a range of times, `upsert` replaces by key, stages take rows in any order.",
        "A frame comes back with its index; see [pandas](pandas.md).",
    ),
    "polars": (
        'Data is in a store: `store.scan("trades")` begins a query, `collect()` runs it, on '
        "threads or as a Spark job.",
        _MISSING,
        "Conditions may be text: `filter(\"price > 1 and symbol == 'a'\")`.",
        'Aggregates are named: `agg(mean=("price", "mean"))`, or '
        '`agg(mean=ts.col("price").mean())`.',
        "Groups come out ordered by their keys. `sort` is stable, missing values last.",
        "Sums of floats are exact, rounded once: no answer depends on threads.",
    ),
    "duckdb": (
        "There is no SQL here: verbs follow one another. DuckDB reads results: "
        '`store.read("trades").to_duckdb()`.',
        _VERSIONS,
        _MISSING,
        "Rows have an order, and a symbol may have a time index: `resample`, `join_asof`, "
        '`rolling("5m")` need no `ORDER BY`.',
        "A sum of integers that overflows 64 bits is an error; DuckDB widens it.",
    ),
    "spark": (
        'A query is one object that runs on threads or, with `executor="spark"`, as a Spark job; '
        "the answers are equal. `lazy.to_spark()` is a DataFrame; see [Spark](spark.md).",
        "Rows have an order, and results come in it.",
        _MISSING,
        _VERSIONS,
        "Names of verbs are in small letters, with one spelling each; `groupby` and `group_by` are "
        "the only pair.",
    ),
    "lance": (
        "A dataset is a symbol: one store holds many, and a commit may change several of them. "
        + _VERSIONS,
        "`delete` deletes a symbol; rows go by `delete_rows`. `schema` and `versions` are asked of "
        'a symbol: `store.schema("trades")`.',
        "A store opened at a version is `as_of=` of a read; there is nothing to check out.",
        "Rows have an order, and a symbol may have a time index, which `update`, `date_range`, "
        "`resample` and `join_asof` go by.",
        "There are no indexes to make and no vectors to search: statistics of segments and pages "
        "prune, and `explain` says which and why.",
        _MISSING,
    ),
    "icechunk": (
        "Tables, not arrays: a symbol has rows and columns, where a group has arrays of chunks.",
        'A session is a transaction: `with store.transaction("both") as both:` is one commit. '
        "Reading needs no session: each read sees one version.",
        "Versions are numbers, from 1 on, of the whole store; `as_of` takes one, a tag, a branch "
        "or a time. There are no snapshot ids.",
        "`revert(to)` makes a new version with what was there; `reset_branch(name, to)` moves a "
        "branch, as there.",
        "Two writers whose changes are of different rows both land, with no rebase; where they are "
        "not, one gets a `CommitConflictError` that names the conflict.",
        "`gc` and `expire` only say what they would do, unless `dry_run=False`.",
    ),
    "rerun": (
        "There is no viewer. Events are logged, asked and saved; results are Arrow tables, which "
        "[charts](plots.md) draw.",
        "A `Recorder` is made by its sink: `Recorder(LiveStore())`, `Recorder(FileSink(path))` "
        "or `Recorder(SocketSink(address))`; nothing is global, and no `init` or `spawn`.",
        'Times are given with what is logged, `recorder.log("robot/arm", {"angle": 0.5}, '
        "frame=1)`: no state of a thread says what time it is.",
        "Components are plain Arrow values by name; there are no archetypes, and a unit or another "
        "type is asked for by `convert=`. `timeless=True` is what `static=True` is there.",
        "A saved recording is a symbol, with versions, queries and Spark as any other: "
        '`live.save(store, "run")`.',
    ),
}
"""What is different on purpose, by system."""

_OWNERS = {
    "module": "ts.",
    "store": "store.",
    "query": "lazy.",
    "lazy": "lazy.",
    "expression": 'ts.col("price").',
    "result": "result.",
    "schema": 'store.schema("trades").',
    "recorder": "recorder.",
    "live": "live.",
}
_HEADINGS = {
    "module": "The package",
    "store": "The store",
    "query": "Queries",
    "lazy": "Running a query",
    "expression": "Expressions",
    "result": "Results",
    "schema": "Schemas",
    "recorder": "Recording",
    "live": "Live stores",
}


def page(system: str) -> str:
    """Return the text of one page."""
    title = _TITLES[system]
    lines = [
        f"# Coming from {title}",
        "",
        f"A name of {title} that has another name here raises an error that says ours; this page "
        "lists all of them.",
        "",
        "## Different on purpose",
        "",
        *(f"- {each}" for each in PAGES[system]),
    ]
    for on, heading in _HEADINGS.items():
        rows = [row for row in FOREIGN_NAMES if row.system == system and row.on == on]
        if rows:
            lines += ["", f"## {heading}", "", f"| {title} | here | |", "|---|---|---|"]
            theirs = "" if on != "module" else "…"
            lines += [
                f"| `{theirs}.{row.theirs}` | `{row.written(_OWNERS[on][:-1])}` | {row.remark} |"
                for row in rows
            ]
    return "\n".join(lines) + "\n"


def _write() -> None:
    for system in PAGES:
        path = Path(__file__).parents[1] / "docs" / f"coming-from-{system}.md"
        path.write_text(page(system))


if __name__ == "__main__":
    _write()
