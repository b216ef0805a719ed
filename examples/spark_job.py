"""The same query object on the local pool and as a Spark job, and a check that both agree."""

import tempfile

import pyarrow as pa

import tessel as ts


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Spark's workers open the store themselves, so it lies on disk and not in memory.
        store = ts.open(f"{folder}/sensors")
        rows = range(100_000)
        readings = pa.table(
            {
                "at": pa.array([1_700_000_000 + row for row in rows]).cast(pa.timestamp("s")),
                "sensor": [f"s{row % 7}" for row in rows],
                "value": [row % 1000 / 8 for row in rows],
            }
        )
        with ts.options(segment_rows=20_000):
            store.write("readings", readings, index="at")

        query = (
            ts.QueryBuilder()
            .filter("value > 10")
            .groupby("sensor")
            .agg(readings=("value", "count"), mean=("value", "mean"), middle=("value", "median"))
        )
        local = store.read("readings", query=query)
        spark = store.read("readings", query=query, executor="spark")
        print(spark)
        print("equal:", local.to_arrow().equals(spark.to_arrow()))


if __name__ == "__main__":
    main()
