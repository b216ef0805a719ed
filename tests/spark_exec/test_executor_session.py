"""The executor in a session: nothing is left behind, nothing configured, clauses from anywhere."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest

from tessel import options
from tessel.api import Store, open_store
from tessel.clauses import ClauseInfo, QueryBuilder, Structure
from tessel.ecs import ProcessingUnit
from tessel.errors import InvalidInputError, PlanError, SparkError
from tessel.pipeline.plan import plugins_of
from tessel.spark_exec import SparkExecutor, jobs, plugins
from tessel.testing.parity import assert_parity
from tests.spark_exec.queries import Pairs, Whole, many_symbols

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Q = QueryBuilder()
QUERIES = [
    Q.filter("b").tail(9),
    Q.then(Pairs()),
    Q.groupby("k").agg(n=("u", "nunique")),
    Q.resample("2h").agg(m=("v", "median")).tail(3),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return many_symbols(tmp_path_factory.mktemp("session"))


@dataclass(frozen=True)
class Slow(Whole):
    """Take long, after saying so."""

    name: ClassVar[str] = "test_slow"
    started: str
    seconds: float = 700.0

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        Path(self.started).touch()
        time.sleep(self.seconds)
        return unit


def _settings(spark: SparkSession) -> dict[str, str]:
    every = spark._jsparkSession.sessionState().conf().getAllConfs()  # type: ignore[attr-defined]
    return {str(key): str(every.apply(key)) for key in every.keySet().mkString("\n").split("\n")}


def _left_behind(spark: SparkSession) -> tuple[set[str], bool]:
    """Return tags and whether no frame is kept; wait for Spark to notice the end of its jobs.

    The test's timeout is the bound: a job that was not cancelled runs for longer.
    """
    while list(spark.sparkContext.statusTracker().getActiveJobsIds()):
        time.sleep(0.02)
    shared = spark._jsparkSession.sharedState()  # type: ignore[attr-defined]
    tags = (spark.sparkContext.getLocalProperty("spark.job.tags") or "").split(",")
    return spark.getTags() | set(filter(None, tags)), shared.cacheManager().isEmpty()


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_nothing_is_left_behind_and_nothing_configured(
    spark: SparkSession, store: Store, query: QueryBuilder
) -> None:
    spark.addTag("of-the-user")
    try:
        before = _settings(spark)
        assert_parity(store, "a", query, SparkExecutor(spark))
        parts = store.scan("a").then(*query.clauses).iter_batches(executor=SparkExecutor(spark))
        next(parts)
        parts.close()
        assert _settings(spark) == before
        assert _left_behind(spark) == ({"of-the-user"}, True)
    finally:
        spark.removeTag("of-the-user")


@pytest.mark.parametrize("adaptive", ["false", "true"])
@pytest.mark.parametrize(
    "query",
    [
        Q.distinct("k", "i").shift({"before": "v"}, by="k"),
        Q.distinct("k", "i").resample("6h").agg(m=("v", "median")),
        Q.distinct("k", "i").tail(30).filter("i % 2 == 0"),
    ],
    ids=str,
)
def test_a_second_job_reads_what_an_exchange_wrote(
    spark: SparkSession,
    store: Store,
    query: QueryBuilder,
    adaptive: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.adaptive.enabled", adaptive)
    context: Any = spark.sparkContext
    held: list[Any] = []
    of_versions = jobs.read_again

    def noting(frame: Any) -> Any:
        made: Any = of_versions(frame)
        rows = made._jdf.queryExecution().toRdd()
        held.append(context._jvm.java.lang.ref.WeakReference(rows))
        return made

    monkeypatch.setattr(jobs, "read_again", noting)
    context.addJobTag("again")
    try:
        with options(hash_bucket_bytes=1_000):
            found = assert_parity(store, "a", query, SparkExecutor(theirs))
    finally:
        context.removeJobTag("again")
    context._jsc.sc().listenerBus().waitUntilEmpty(10_000)
    tracker = context.statusTracker()
    stages = [
        tracker.getStageInfo(stage)
        for job in context._jsc.sc().statusTracker().getJobIdsForTag("again")
        for stage in tracker.getJobInfo(job).stageIds
    ]
    assert isinstance(found, pa.Table)
    assert held
    assert any(stage.numCompletedTasks == 0 for stage in stages)  # skipped: its files are there
    while any(each.get() is not None for each in held):  # until then Spark keeps the files
        gc.collect()
        context._jvm.java.lang.System.gc()


def test_a_users_session_with_stock_settings_gives_the_same(
    spark: SparkSession, store: Store
) -> None:
    """Another session of the same context, with what Spark's own defaults are."""
    theirs = spark.newSession()
    stock = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": "200",
        "spark.sql.session.timeZone": "America/St_Johns",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    }
    for key, value in stock.items():
        theirs.conf.set(key, value)
    for query in QUERIES:
        assert_parity(store, "a", query, SparkExecutor(theirs))
    assert {key: theirs.conf.get(key) for key in stock} == stock


def test_queries_of_several_threads(spark: SparkSession, store: Store) -> None:
    executor = SparkExecutor(spark)
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for query in QUERIES[number:] + QUERIES[:number]:
                assert_parity(store, "a", query, executor)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert _left_behind(spark) == (set(), True)


def test_ctrl_c_cancels_the_job_and_the_session_stays_usable(
    spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    """Another thread's query goes on: only the jobs of the interrupted one are cancelled."""
    started, other = tmp_path / "started", tmp_path / "other"
    executor = SparkExecutor(spark)
    answers: list[int] = []

    def undisturbed() -> None:
        query = Q.select("i").then(Slow(str(other), 0.4))
        answers.append(len(store.read("one", query=query, executor=executor)))

    def interrupt() -> None:
        while not (started.exists() and other.exists()):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    # pyspark's own handler cancels every job of the context; here it is ours that is tested.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threads = [threading.Thread(target=undisturbed), threading.Thread(target=interrupt)]
    try:
        for thread in threads:
            thread.start()
        with pytest.raises(KeyboardInterrupt):
            store.read("one", query=Q.then(Slow(str(started))), executor=executor)
    finally:
        signal.signal(signal.SIGINT, before)
    for thread in threads:
        thread.join()
    assert answers == [1]
    assert _left_behind(spark) == (set(), True)
    assert_parity(store, "a", QUERIES[0], executor)


# --- clauses from anywhere ------------------------------------------------------------------------

SOURCE = """
    from __future__ import annotations

    from dataclasses import dataclass
    from typing import ClassVar

    import pyarrow as pa

    import tessel as ts

    FACTOR = {factor}


    def scaled(values: pa.ChunkedArray) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array([v * FACTOR for v in values.to_pylist()])])


    class Base(ts.Clause):
        column: str

        @property
        def structure(self) -> ts.ClauseInfo:
            return ts.ClauseInfo(ts.Structure.ROW_SLICE, ts.Structure.ROW_SLICE)

        def output_schema(self, input_schema: ts.TableSchema) -> ts.TableSchema:
            return input_schema


    @dataclass(frozen=True)
    class Scale(Base):
        name: ClassVar[str] = "test_scale"
        column: str
        also: tuple[str, ...] = ()

        def process(self, unit: ts.ProcessingUnit) -> ts.ProcessingUnit:
            for name in (self.column, *self.also):
                unit = unit.with_column(name, scaled(unit.column(name)))
            return unit
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], ModuleType]:
    def make(factor: int) -> ModuleType:
        name = f"tessel_test_plugin_{factor}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(SOURCE).format(factor=factor))
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)
        found = importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, name, found)
        return found

    return make


def test_a_clause_of_a_script_or_a_notebook(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell that is run again with a change counts, also for workers that knew the old one."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    for factor in (3, 5, 3):
        exec(textwrap.dedent(SOURCE).format(factor=factor), main.__dict__)
        query = Q.then(main.Scale("i"))
        found = assert_parity(store, "a", query, SparkExecutor(spark))
        assert isinstance(found, pa.Table), str(found)
        assert found.column("i").to_pylist() == [i * factor for i in range(60)]


def test_a_clause_of_a_module_that_workers_do_not_have(
    spark: SparkSession, store: Store, module: Callable[[int], ModuleType]
) -> None:
    from pyspark import cloudpickle

    found = module(7)
    query = Q.then(found.Scale("i")).tail(4)
    assert_parity(store, "a", query, SparkExecutor(spark))
    assert found.__name__ not in cloudpickle.list_registry_pickle_by_value()


def test_a_clause_of_an_installed_package_travels_by_name(
    spark: SparkSession,
    store: Store,
    module: Callable[[int], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the workers lack the package, the error says what to do."""
    monkeypatch.setattr(plugins, "_install_folders", lambda: (tmp_path.resolve(),))
    found = module(11)
    with pytest.raises(SparkError, match="No module named 'tessel_test_plugin_11'") as caught:
        store.read("a", query=Q.then(found.Scale("i")), executor=SparkExecutor(spark))
    assert "install the package" in str(caught.value.hint)


def test_a_clause_that_cannot_be_sent_is_refused(
    spark: SparkSession, store: Store, module: Callable[[int], ModuleType]
) -> None:
    found = module(13)
    found.FACTOR = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(PlanError, match="test_scale cannot be sent to Spark's workers"):
        store.read("a", query=Q.then(found.Scale("i")), executor=SparkExecutor(spark))


def test_clauses_of_the_package_alone_send_nothing() -> None:
    assert plugins.packed_plugins(()) == b""
    assert plugins.load_plugins(b"") == {}


def test_a_plan_names_the_clauses_of_its_parts(store: Store) -> None:
    query = Q.concat("b").then(Pairs())
    nested = QueryBuilder(Q.select("i").then(Slow("x")).clauses)
    plan = store.scan("a").concat(store.scan("b").then(*nested.clauses)).then(Pairs()).plan()
    assert set(plugins_of(plan)) == {Slow, Pairs}
    assert plugins_of(store.scan("a").then(*query.clauses).plan()) == (Pairs,)


# --- slots ----------------------------------------------------------------------------------------


def test_slots_are_those_of_the_session(spark: SparkSession) -> None:
    assert SparkExecutor(spark).slots == 2


def test_slots_of_a_session_without_context_are_asked_of_the_server_once(
    spark: SparkSession,
) -> None:
    from pyspark.errors import PySparkAttributeError

    ranges: list[int] = []

    class Connected:
        @property
        def sparkContext(self) -> object:
            raise PySparkAttributeError(
                errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED",
                messageParameters={"attr_name": "sparkContext"},
            )

        def range(self, end: int) -> object:
            ranges.append(end)
            return spark.range(end)

    session: Any = Connected()
    assert [jobs.slots_of_session(session), jobs.slots_of_session(session)] == [2, 2]
    assert len(ranges) == 1


def test_a_bound_of_no_bytes_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match="max_blob_bytes is at least 1"):
        SparkExecutor(spark, max_blob_bytes=0)


def test_many_units_of_nothing_but_a_number_each(spark: SparkSession, tmp_path: Path) -> None:
    """Hundreds of units in a few tasks, each told of its own units only."""
    store = open_store(str(tmp_path / "many"))
    with options(segment_rows=1, fsync=False):
        store.write("a", {"x": list(range(400))})
    executor = SparkExecutor(spark)
    assert store.scan("a").plan().inputs[0].index.slices == 400  # type: ignore[union-attr]
    for query in (Q, Q.filter("x > 30").row_range(-200, -100), Q.filter("x > 30").head(200)):
        assert_parity(store, "a", query, executor)
