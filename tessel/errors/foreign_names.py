"""Names that other systems have for what is here: one table, for errors and for the docs.

Nothing here is an alias. A name of theirs that somebody uses raises an error that says ours, and
the pages ``docs/coming-from-*`` are made from the same rows. Imported when an attribute is missing.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from tessel.errors.stores import UnknownVerbError

__all__ = ["FOREIGN_NAMES", "ForeignName", "missing_attribute"]


class ForeignName(NamedTuple):
    """One name of another system.

    Attributes
    ----------
    on
        What it is asked of here: a ``store``, a ``query``, a ``lazy`` table, a ``builder``, an
        ``expression``, a ``result``, a ``recorder``, a ``live`` store.
    ours
        What is written here instead, behind the dot.
    remark
        What else is to know.
    """

    system: str
    on: str
    theirs: str
    ours: str
    remark: str = ""

    @property
    def our_name(self) -> str:
        """The name here, without arguments."""
        return self.ours.partition("(")[0]


_NO_NAMESPACE = "methods of expressions stand in no namespace"
_RANGE = "half-open, from 0"
_IMMUTABLE = "nothing is changed in place: the new query is returned"

_TABLE = f"""
arcticdb | store | list_symbols | symbols()
arcticdb | store | has_symbol | symbols("trades") | a pattern; the list is empty where there is none
arcticdb | store | list_versions | versions("trades") | of the whole store, from 1 on
arcticdb | store | read_metadata | view("trades").metadata
arcticdb | store | write_metadata | set_metadata("trades", {{"source": "feed"}})
arcticdb | store | get_description | view("trades").schema
arcticdb | store | get_info | view("trades").schema
arcticdb | store | head | scan("trades").head(5)
arcticdb | store | tail | scan("trades").tail(5)
arcticdb | store | delete_data_in_range | delete_rows("trades", date_range=("2024-01-01", "2024-01-01"))
arcticdb | store | snapshot | create_tag("eod") | a tag names a version of the whole store
arcticdb | store | list_snapshots | tags()
arcticdb | store | delete_snapshot | delete_tag("eod") | after create_tag("eod")
arcticdb | store | prune_previous_versions | expire(store.version) | of the whole store; dry_run=False does it
arcticdb | store | read_batch | read_many(["trades"])
arcticdb | store | write_batch | transaction("both") | writes in one with block are one commit
arcticdb | store | write_pickle | write("notes", {{"text": ["a"]}}) | objects of Python are not stored
arcticdb | store | reload_symbol_list | symbols() | there is no list to reload
arcticdb | store | stage_finalize | finalize("new", [store.stage("new", {{"a": [1]}}, task_id="1")])
arcticdb | store | finalize_staged_data | finalize("new", [store.stage("new", {{"a": [1]}}, task_id="1")])
arcticdb | store | defragment_symbol_data | compact("trades")
arcticdb | expression | isin | is_in([1, 2])
arcticdb | expression | isnotin | not_in([1, 2])
arcticdb | expression | isnull | is_missing()
arcticdb | expression | isna | is_missing()
arcticdb | expression | notnull | not_missing()
arcticdb | expression | notna | not_missing()
arcticdb | expression | regex_match | matches("1.*") | on text
arcticdb | query | optimise_for_speed | filter("price > 1") | leave it out: there is nothing to choose
arcticdb | query | optimise_for_memory | filter("price > 1") | leave it out: there is nothing to choose
arcticdb | result | data | to_pandas()
polars | query | with_column | with_columns(twice=ts.col("price") * 2)
polars | query | limit | head(5)
polars | query | slice | row_range(10, 20) | {_RANGE}: start and end, not length
polars | query | group_by_dynamic | resample("1h").agg(n="size")
polars | query | sort_by | sort("price")
polars | query | unique | distinct("symbol")
polars | query | top_k_by | top_k(3, "price")
polars | query | drop_nulls | filter(ts.col("price").not_missing())
polars | query | fill_null | fill("price", value=0)
polars | query | fill_nan | fill("price") | NaN is missing
polars | query | with_row_index | cum_count("price")
polars | query | vstack | concat("trades")
polars | query | extend | concat("trades")
polars | query | rolling_mean | rolling(3).agg(mean=("price", "mean"))
polars | lazy | fetch | head(5).collect()
polars | lazy | collect_schema | schema()
polars | lazy | sink_parquet | iter_batches() | batches of Arrow, for a writer of Parquet
polars | lazy | show_graph | explain()
polars | lazy | profile | explain(analyze=True)
polars | expression | is_null | is_missing()
polars | expression | is_nan | is_missing() | NaN is missing
polars | expression | is_not_null | not_missing()
polars | expression | is_not_nan | not_missing()
polars | expression | fill_null | fill_missing(0)
polars | expression | fill_nan | fill_missing(0)
polars | expression | is_between | between(1, 2)
polars | expression | n_unique | nunique()
polars | expression | len | count()
polars | expression | str | contains("a") | {_NO_NAMESPACE}
polars | expression | dt | year() | {_NO_NAMESPACE}
polars | expression | struct | field("a") | {_NO_NAMESPACE}
polars | expression | len_chars | length()
polars | expression | to_lowercase | lower()
polars | expression | to_uppercase | upper()
polars | expression | strip_chars | strip()
polars | expression | truncate | floor("1h") | of times
polars | result | write_csv | to_polars() | which writes CSV
polars | result | rows | to_arrow().to_pylist()
polars | result | to_dicts | to_arrow().to_pylist()
polars | result | to_dict | to_arrow().to_pydict()
polars | result | to_numpy | to_arrow().column("price").to_numpy()
polars | result | get_column | to_arrow().column("price")
duckdb | query | project | select("symbol", "price")
duckdb | query | aggregate | groupby("symbol").agg(mean=("price", "mean"))
duckdb | query | order | sort("price")
duckdb | query | limit | head(5)
duckdb | query | union | concat("trades") | keeps duplicates, as UNION ALL
duckdb | query | unnest | explode("marks") | of lists
duckdb | query | asof_join | join_asof("trades")
duckdb | query | window | rolling(3).agg(mean=("price", "mean"))
duckdb | query | qualify | filter("price > 1") | behind the window function
duckdb | lazy | df | collect().to_pandas()
duckdb | lazy | pl | collect().to_polars()
duckdb | lazy | arrow | collect().to_arrow()
duckdb | lazy | fetchall | collect().to_arrow().to_pylist()
duckdb | lazy | fetchdf | collect().to_pandas()
duckdb | lazy | execute | collect()
duckdb | result | df | to_pandas()
duckdb | result | pl | to_polars()
duckdb | result | arrow | to_arrow()
duckdb | result | fetchall | to_arrow().to_pylist()
duckdb | result | fetchdf | to_pandas()
duckdb | result | fetch_arrow_table | to_arrow()
duckdb | store | sql | scan("trades").filter("price > 1") | DuckDB reads results: read("trades").to_duckdb()
duckdb | store | execute | scan("trades").filter("price > 1")
duckdb | store | table | scan("trades")
duckdb | store | tables | symbols()
duckdb | expression | isin | is_in([1, 2])
duckdb | expression | isnotnull | not_missing()
duckdb | expression | isnull | is_missing()
spark | query | where | filter("price > 1")
spark | query | withColumn | with_columns(twice=ts.col("price") * 2)
spark | query | withColumns | with_columns(twice=ts.col("price") * 2)
spark | query | withColumnRenamed | rename({{"price": "p"}})
spark | query | selectExpr | with_columns(twice="price * 2")
spark | query | groupBy | groupby("symbol").agg(mean=("price", "mean"))
spark | query | orderBy | sort("price")
spark | query | sortBy | sort("price")
spark | query | limit | head(5)
spark | query | dropDuplicates | distinct("symbol")
spark | query | drop_duplicates | distinct("symbol")
spark | query | dropna | filter(ts.col("price").not_missing())
spark | query | fillna | fill("price", value=0)
spark | query | union | concat("trades")
spark | query | unionByName | concat("trades")
spark | query | crossJoin | join("trades", on="symbol") | every join has keys
spark | query | summary | describe()
spark | query | alias | rename({{"price": "p"}}) | of columns; symbols have their names
spark | lazy | toPandas | collect().to_pandas()
spark | lazy | toArrow | collect().to_arrow()
spark | lazy | show | head(20).collect() | prints itself
spark | lazy | printSchema | schema()
spark | lazy | toLocalIterator | iter_batches()
spark | lazy | foreachPartition | iter_batches()
spark | lazy | persist | collect() | a result may be used many times
spark | lazy | cache | collect() | a result may be used many times
spark | lazy | write | collect() | store.write("new", lazy) writes it
spark | lazy | createOrReplaceTempView | collect() | store.register_views(session) makes views of symbols
spark | result | toPandas | to_pandas()
spark | result | toArrow | to_arrow()
spark | result | toDF | to_spark()
spark | store | listTables | symbols()
spark | expression | isin | is_in([1, 2])
spark | expression | isNull | is_missing()
spark | expression | isNotNull | not_missing()
spark | expression | isNaN | is_missing() | NaN is missing
spark | expression | startswith | starts_with("a")
spark | expression | endswith | ends_with("a")
spark | expression | rlike | matches("1.*") | on text
spark | expression | substr | slice(0, 2) | {_RANGE}
spark | expression | astype | cast("float64")
spark | expression | getField | field("a")
spark | expression | otherwise | fill_missing(0) | of a condition: ts.when(condition).then(1).otherwise(0)
spark | expression | over | sum() | of a window: rolling, cum_sum, rank with by=
lance | store | checkout_version | scan("trades", as_of=2)
lance | store | checkout_latest | scan("trades") | each call sees the newest version
lance | store | latest_version | version
lance | store | restore | revert(2) | all symbols, in a new version
lance | store | to_table | read("trades").to_arrow()
lance | store | to_pandas | read("trades").to_pandas()
lance | store | to_batches | scan("trades").iter_batches()
lance | store | scanner | scan("trades").filter("price > 1").select("price")
lance | store | count_rows | scan("trades").count()
lance | store | take | scan("trades").row_range(10, 20) | {_RANGE}
lance | store | sample | scan("trades").sample(5)
lance | store | insert | append("names", {{"symbol": ["c"]}}) | at the end of a symbol; write() replaces it
lance | store | merge_insert | upsert("names", {{"symbol": ["c"]}}, keys=["symbol"])
lance | store | add_columns | add_column("trades", "venue", "X")
lance | store | drop_columns | drop_column("trades", "price")
lance | store | alter_columns | rename_columns("trades", {{"price": "p"}}) | types are changed by widen()
lance | store | cleanup_old_versions | expire(store.version) | and gc() then; dry_run=False does it
lance | store | optimize | compact("trades")
lance | store | get_fragments | physical("trades")
lance | store | validate | check()
lance | store | create_scalar_index | physical("trades") | there is none to make: statistics of segments and pages prune
lance | store | create_index | physical("trades") | there is none to make: statistics of segments and pages prune
lance | store | update_metadata | set_metadata("trades", {{"source": "feed"}})
icechunk | store | writable_session | transaction("both") | writes in one with block are one commit
icechunk | store | commit | transaction("both") | the end of its with block commits
icechunk | store | rebase | transaction("both") | changes of other rows land beside others by themselves
icechunk | store | readonly_session | scan("trades", as_of="before")
icechunk | store | ancestry | log()
icechunk | store | inspect_snapshot | at(2)
icechunk | store | lookup_snapshot | at(2)
icechunk | store | list_branches | branches()
icechunk | store | lookup_branch | branches()["main"]
icechunk | store | list_tags | tags()
icechunk | store | lookup_tag | tags()["before"]
icechunk | store | expire_snapshots | expire(store.version) | dry_run=False does it
icechunk | store | garbage_collect | gc() | dry_run=False does it
icechunk | store | rewrite_manifests | repack(dry_run=True)
icechunk | store | chunk_storage_stats | physical("trades")
icechunk | store | total_chunks_storage | physical("trades")
icechunk | store | save_config | set_manifest_configuration(store.manifest_configuration)
icechunk | store | fetch_config | manifest_configuration
icechunk | store | reopen | on_branch("main")
rerun | recorder | set_time | log("robot/arm", {{"angle": 0.5}}, frame=1) | times are given with what they are of
rerun | recorder | reset_time | log("robot/arm", {{"angle": 0.5}}, frame=1) | times are given with what they are of
rerun | recorder | disable_timeline | log("robot/arm", {{"angle": 0.5}}, frame=1) | times are given with what they are of
rerun | recorder | send_property | log("run", {{"place": "lab"}}, timeless=True)
rerun | recorder | disconnect | close()
rerun | live | log | insert([]) | a Recorder(live) logs
rerun | live | view | table("frame", "robot/arm", fill="latest_at") | `range` gives all events
rerun | live | reader | table("frame", "robot/arm", fill="latest_at") | `range` gives all events
rerun | live | filter_contents | table("frame", "robot/arm")
rerun | live | filter_range_sequence | range("frame", 1, 3, "robot/arm")
rerun | live | filter_range_timestamps | range("frame", 1, 3, "robot/arm") | of any kind of timeline
rerun | live | using_index_values | table("frame", "robot/arm", at=[1, 3], fill="latest_at")
rerun | live | fill_latest_at | table("frame", "robot/arm", fill="latest_at")
rerun | live | schema | contents()
rerun | live | component_columns | components("robot/arm")
rerun | live | index_columns | timelines()
rerun | live | timeline_names | timelines()
rerun | live | chunks | batches()
rerun | live | serve_grpc | serve()
rerun | live | write_rrd | dump("run.events")
pandas | query | query | filter("price > 1")
pandas | query | assign | with_columns(twice=ts.col("price") * 2)
pandas | query | sort_values | sort("price")
pandas | query | drop_duplicates | distinct("symbol")
pandas | query | nlargest | top_k(3, "price")
pandas | query | nsmallest | top_k(3, "price", descending=False)
pandas | query | astype | cast({{"price": "float32"}})
pandas | query | ffill | fill("price")
pandas | query | bfill | fill("price", "backward")
pandas | query | interpolate | fill("price", "linear")
pandas | query | cumsum | cum_sum("price")
pandas | query | cummin | cum_min("price")
pandas | query | cummax | cum_max("price")
pandas | query | cumcount | cum_count("price")
pandas | query | iloc | row_range(10, 20) | {_RANGE}
pandas | query | loc | date_range("2024-01-01", "2024-01-02") | both ends included
pandas | query | between_time | date_range("2024-01-01T06", "2024-01-01T07")
pandas | query | merge_asof | join_asof("trades")
pandas | query | asof | latest_at("2024-01-01T06")
pandas | query | append | concat("trades")
pandas | query | set_index | sort("price") | the index of a symbol is told where it is written: index=
pandas | query | reset_index | head(5) | leave it out: to_pandas(index=False) gives columns
pandas | query | nunique | agg(n=("symbol", "nunique"))
pandas | expression | isin | is_in([1, 2])
pandas | expression | isna | is_missing()
pandas | expression | isnull | is_missing()
pandas | expression | notna | not_missing()
pandas | expression | notnull | not_missing()
pandas | expression | fillna | fill_missing(0)
pandas | expression | astype | cast("float64")
pandas | expression | dayofweek | weekday()
pandas | expression | map | cast("float64") | functions of Python are clauses of your own
pandas | lazy | columns | schema().names
pandas | lazy | dtypes | schema()
pandas | lazy | info | schema()
pandas | lazy | shape | count() | collect().shape gives both
pandas | lazy | pivot | collect().to_polars() | Polars and pandas pivot results
pandas | lazy | pivot_table | collect().to_polars() | Polars and pandas pivot results
pandas | lazy | melt | collect().to_polars() | Polars and pandas unpivot results
pandas | lazy | plot | collect().plot()
pandas | lazy | to_csv | collect().to_pandas() | which writes CSV
pandas | lazy | to_parquet | collect().write_parquet("out.parquet")
pandas | result | to_csv | to_pandas() | which writes CSV
pandas | result | to_parquet | write_parquet("out.parquet")
pandas | result | head | to_arrow().slice(0, 5) | or head(5) before collect()
pandas | result | columns | column_names
pandas | result | values | to_pandas().to_numpy()
pandas | result | iloc | to_arrow().slice(0, 2)
others | lazy | to_pandas | collect().to_pandas()
others | lazy | to_arrow | collect().to_arrow()
others | lazy | to_polars | collect().to_polars()
others | lazy | to_duckdb | collect().to_duckdb()
others | store | close | read("trades") | leave it out: a store holds nothing open
others | builder | collect | read("trades", query=q) | a query has no store of its own
others | builder | count | read("trades", query=q) | a query has no store of its own
others | builder | to_pandas | read("trades", query=q) | a query has no store of its own
others | query | first | head(1)
others | query | last | tail(1)
others | query | sel | select("price")
others | query | between | date_range("2024-01-01", "2024-01-02")
others | query | group | groupby("symbol").agg(mean=("price", "mean"))
others | query | order_by | sort("price")
others | query | orderby | sort("price")
others | query | lag | shift("price")
others | query | lead | shift("price", -1)
others | query | forward_fill | fill("price")
others | query | backward_fill | fill("price", "backward")
others | query | lookup | join("trades", on="symbol")
"""  # noqa: E501

FOREIGN_NAMES = tuple(
    ForeignName(*(part.strip() for part in line.split(" | ")))
    for line in _TABLE.split("\n")
    if line
)
"""All rows; where two systems have one name for one thing, it stands there twice."""

_WORDS = {
    "store": "a store",
    "lazy": "a lazy table",
    "builder": "a query",
    "result": "a result",
    "recorder": "a recorder",
    "live": "a live store",
}


@functools.cache
def _by_name() -> dict[tuple[str, str], ForeignName]:
    return {(row.on, row.theirs): row for row in reversed(FOREIGN_NAMES)}


def foreign_name(name: str, kinds: tuple[str, ...]) -> ForeignName | None:
    """Return the row of a name, asked of something that is of these kinds."""
    found = (_by_name().get((kind, name)) for kind in kinds)
    return next((row for row in found if row is not None), None)


def missing_attribute(owner: Any, name: str, *kinds: str) -> Any:
    """Raise the error for an attribute that is not there; called from ``__getattr__``.

    Raises UnknownVerbError, naming ours for a name of another system, else the nearest.

    Parameters
    ----------
    kinds
        What the owner is, as in :attr:`ForeignName.on`; words for people are those of the first.
    """
    if hasattr(type(owner), name):
        return object.__getattribute__(owner, name)  # a property of ours has raised: again
    found = foreign_name(name, kinds)
    if found is not None:
        raise UnknownVerbError.foreign(name, found.our_name, found.ours, found.remark)
    if kinds[0] == "result" and name in owner.column_names:
        raise UnknownVerbError(f"a column of a result is no attribute: {name}", hint=f"[{name!r}]")
    existing = [each for each in dir(owner) if not each.startswith("_")]
    raise UnknownVerbError.for_name(name, existing, _WORDS.get(kinds[0], "an expression"))
