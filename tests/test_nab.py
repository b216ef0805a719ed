"""Several symbols of real time series: the Numenta benchmark's, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest

import tessel as ts
from tests.oracles import as_declared, polars_frame, same_rows

DATA = Path(__file__).parents[2] / "shared" / "data" / "nab"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the time series are not at {DATA}; they are not part of the project"
)
Q = ts.QueryBuilder()


@pytest.fixture(scope="module")
def series() -> dict[str, pa.Table]:
    convert = pyarrow.csv.ConvertOptions(
        column_types={"timestamp": pa.timestamp("s"), "value": pa.float64()}
    )
    return {
        path.stem: pyarrow.csv.read_csv(path, convert_options=convert)
        for path in sorted(DATA.glob("*.csv"))
    }


@pytest.fixture(scope="module")
def store(series: dict[str, pa.Table]) -> ts.Store:
    made = ts.open("memory://nab")
    with ts.options(segment_rows=1000), made.transaction("all series") as transaction:
        for name, table in series.items():
            transaction.write(name, table, index="timestamp", sort=True)
    return made


def _sorted(table: pa.Table) -> pl.DataFrame:
    """Sort as we do; Polars knows no seconds and makes them milliseconds."""
    return polars_frame(table).sort("timestamp", maintain_order=True)


def test_all_are_there_after_one_commit(store: ts.Store, series: dict[str, pa.Table]) -> None:
    assert store.version == 1
    assert store.symbols() == sorted(series)
    assert store.symbols("Twitter.*") == [
        name for name in sorted(series) if name.startswith("Twitter")
    ]


def test_every_series_comes_back(store: ts.Store, series: dict[str, pa.Table]) -> None:
    for name, found in store.read_many(series).items():
        table = found.to_arrow()
        expected = as_declared(_sorted(series[name]).to_arrow(), table.schema)
        assert same_rows(table, expected), name


@pytest.mark.parametrize("how", ["mean", "sum", "max", "count", "median", "first", "last"])
@pytest.mark.parametrize("rule", ["15min", "1h", "1D"])
def test_resample_of_every_series(
    store: ts.Store, series: dict[str, pa.Table], how: str, rule: str
) -> None:
    found = store.read_many(series, query=Q.resample(rule).agg(o=("value", how)))
    for name, answer in found.items():
        frame = _sorted(series[name]).to_pandas().set_index("timestamp")["value"]
        buckets = frame.resample(rule, origin="epoch")
        wanted = buckets.agg(how)[buckets.size() > 0]
        ours = answer.to_pandas(index=True)["o"]
        assert ours.index.tolist() == wanted.index.tolist(), name
        # pandas adds up doubles one after another, which is off by a few units in the last place.
        exact = how not in ("mean", "sum")
        pd.testing.assert_series_equal(
            ours.astype(float),
            wanted.astype(float),
            check_exact=exact,
            **({} if exact else {"rtol": 1e-12}),
            check_names=False,
            check_index_type=False,
            check_freq=False,
        )


def test_concat_of_all_is_one_after_another(store: ts.Store, series: dict[str, pa.Table]) -> None:
    first, *others = sorted(series)
    found = store.read(first, query=Q.concat(*others)).to_arrow()
    expected = pl.concat([_sorted(series[name]) for name in sorted(series)]).to_arrow()
    assert same_rows(found, as_declared(expected, found.schema))


def test_each_with_clauses_of_its_own_then_together(
    store: ts.Store, series: dict[str, pa.Table]
) -> None:
    names = store.symbols("Twitter.*")
    parts = [
        store.scan(name)
        .resample("1D")
        .agg(tweets=("value", "sum"))
        .apply("company", ts.lit(name[-4:]))
        for name in names
    ]
    found = (
        parts[0]
        .concat(*parts[1:])
        .groupby("company")
        .agg(days="size", most=("tweets", "max"), middle=("tweets", "median"))
    )
    daily = pl.concat(
        [
            _sorted(series[name])
            .group_by_dynamic("timestamp", every="1d")
            .agg(tweets=pl.col("value").sum())
            .with_columns(company=pl.lit(name[-4:]))
            for name in names
        ]
    )
    expected = (
        daily.group_by("company")
        .agg(
            days=pl.len().cast(pl.Int64),
            most=pl.col("tweets").max(),
            middle=pl.col("tweets").median(),
        )
        .sort("company")
    )
    assert same_rows(found.collect().to_arrow(), expected.to_arrow())


def test_a_stretch_of_one_series_reads_only_its_segments(store: ts.Store) -> None:
    query = Q.date_range("2014-11-01", "2014-11-03").filter("value > 20000")
    found = store.read("nyc_taxi", query=query)
    assert found.lineage.segments_read < found.lineage.segments
    days = {at.date().isoformat() for at in found.to_arrow().column("timestamp").to_pylist()}
    assert days <= {"2014-11-01", "2014-11-02", "2014-11-03"}
    assert len(found) > 0
