"""Wrong calls of everything public: functions and methods by a walk, arguments from a table.

The walk starts at the names of :mod:`tessel` and of :mod:`tessel.store.events` and goes on with
the classes that public methods say they return. What is not walked is listed with the reason.
"""

from __future__ import annotations

import collections.abc
import contextlib
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import inspect
import io
import itertools
import math
import pathlib
import random
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import tessel as ts
from tessel.clauses import (
    GroupedQuery,
    Head,
    ResampledQuery,
    SubQuery,
    WindowQuery,
)
from tessel.expression.build import WhenBranches, WhenCondition
from tessel.plotting import Plot
from tessel.store import SymbolView, Transaction, events
from tessel.store.maintenance.leases import Lease
from tessel.store.objects import MemoryObjects
from tessel.store.operations.appender import Appender
from tessel.store.operations.staged import StagedRows

UTC = datetime.UTC
ROWS = 24

FRAME = pa.table(
    {
        "t": pa.array(np.arange(ROWS) * 3_600_000_000, pa.timestamp("us")),
        "v": pa.array(range(ROWS), pa.int64()),
        "f": pa.array([None if n % 7 == 3 else n / 4 for n in range(ROWS)], pa.float64()),
        "k": pa.array(["a", "b", None, "c"] * (ROWS // 4)),
        "c": pa.array(["x", "y"] * (ROWS // 2)).dictionary_encode(),
        "ok": pa.array([True, False, None] * (ROWS // 3)),
        "l": pa.array([[n, n + 1] for n in range(ROWS)]),
        "d": pa.array([decimal.Decimal(n) / 8 for n in range(ROWS)], pa.decimal128(12, 3)),
    }
)
"""The rows of the symbol ``frame``."""


# --- a world to call into ---------------------------------------------------------------------


class World:
    """A store with history, a live store, and one object of every class that has public methods."""

    def __init__(self) -> None:
        self._objects = _stored()
        self.objects = MemoryObjects("memory://calls")
        self.restore()
        self.live = _live()
        self.recorder = events.Recorder(events.LiveStore(), max_delay_seconds=3600.0)

    def restore(self) -> None:
        """Make the store what it was."""
        self.objects._data = dict(self._objects._data)
        self.objects._modified_us = dict(self._objects._modified_us)
        self.objects._names = list(self._objects._names)
        self.store = ts.Store(self.objects, _IDENTITY[0], read_only=False)

    def digest(self) -> tuple[int, str]:
        """Return the version of the store, and a hash over the names and bytes of its objects."""
        seen = hashlib.sha256()
        for name in sorted(self.objects._data):
            seen.update(name.encode() + b"\0" + hashlib.sha256(self.objects._data[name]).digest())
        live = hashlib.sha256(repr(self.live).encode()).hexdigest()
        return self.store.version, seen.hexdigest() + live


_IDENTITY: list[str] = []


@functools.cache
def _stored() -> MemoryObjects:
    store = ts.open("memory://")
    store.write("frame", FRAME.slice(0, 20), index="t", metadata={"unit": "h"})
    store.create_tag("old")
    store.append("frame", FRAME.slice(20))
    store.write("other", FRAME.select(["t", "v", "k"]), index="t")
    store.create_branch("side")
    _IDENTITY.append(store.id)
    return store.objects


def _live() -> events.LiveStore:
    live = events.LiveStore()
    with events.Recorder(live) as recorder:
        recorder.log("robot/arm", {"angle": [0.5, 0.25]}, frame=42)
        recorder.log("robot/arm", {"angle": [1.5, 0.75]}, frame=43)
        recorder.log("robot", {"name": "r"}, timeless=True)
    return live


SUBJECTS: dict[type, Callable[[World], Any]] = {
    ts.Store: lambda world: world.store,
    ts.LazyTable: lambda world: world.store.scan("frame"),
    ts.QueryBuilder: lambda world: ts.QueryBuilder(),
    GroupedQuery: lambda world: world.store.scan("frame").groupby("k"),
    ResampledQuery: lambda world: world.store.scan("frame").resample("6h"),
    WindowQuery: lambda world: world.store.scan("frame").rolling(3),
    ts.Expression: lambda world: ts.col("v"),
    WhenCondition: lambda world: ts.when("v > 3"),
    WhenBranches: lambda world: ts.when("v > 3").then(1),
    ts.TableSchema: lambda world: world.store.schema("frame"),
    ts.SubQuery: lambda world: ts.SubQuery("frame"),
    ts.Result: lambda world: world.store.read("frame"),
    Plot: lambda world: world.store.read("frame").plot,
    ts.Job: lambda world: world.store.scan("frame").submit(),
    ts.Explanation: lambda world: world.store.explain("frame"),
    ts.Options: lambda world: ts.Options(),
    ts.CloudOptions: lambda world: ts.CloudOptions(),
    ts.TesselError: lambda world: ts.TesselError("x"),
    Transaction: lambda world: world.store.transaction(),
    Appender: lambda world: world.store.appender("frame", flush_rows=2, flush_interval_ms=None),
    StagedRows: lambda world: world.store.stage("frame", FRAME, task_id="1"),
    Lease: lambda world: world.store.lease(),
    events.LiveStore: lambda world: world.live,
    events.Recorder: lambda world: world.recorder,
    events.Row: lambda world: events.Row(events.id_bytes(1, 1), "robot"),
    events.Table: lambda world: events.Table(),
    events.Cell: lambda world: events.Cell.from_values("angle", [1.0]),
    events.Reference: lambda world: events.Reference("/nowhere"),
    events.ReferenceReader: lambda world: events.ReferenceReader([]),
    events.EventBatch: lambda world: world.live.batches()[0],
    events.Timeline: lambda world: events.Timeline("frame", events.TimelineKind.SEQUENCE),
    SymbolView: lambda world: world.store.view("frame"),
}
"""How to come by an object of each class whose methods are called."""

MADE: tuple[Any, ...] = (
    *(getattr(ts, name) for name in ("col", "lit", "parse", "when", "where", "coalesce", "open")),
    *(ts.options, ts.register, ts.QueryBuilder, ts.SubQuery, ts.TableSchema, ts.Options),
    *(ts.CloudOptions, ts.S3Credentials, ts.GoogleCredentials, ts.AzureCredentials),
    *(ts.LocalExecutor, ts.LazyTable, ts.from_spark),
    *(events.LiveStore, events.Recorder, events.Row, events.Cell, events.Reference),
    *(events.ReferenceReader, events.id_bytes, events.id_parts, events.log_time),
    *(events.join_instances, events.register_converter, events.EventIds, events.Timeline),
)
"""Public functions, and classes that people make objects of."""

LEFT_OUT = {
    # What an executor, a clause or the store itself calls, with arguments of its own making.
    "Store.manifest": "takes what only a manifest has",
    "Store.reading": "the store's own",
    "Expression.compute": "an operator's own, called when it is evaluated",
    "Expression.fitted": "an operator's own, called when it is typed",
    "Expression.signature": "an operator's own, called when it is typed",
    "Expression.of": "an operator's own, called by its method",
    "TesselError.with_rows": "a stage's own, called with the rows of a unit",
    "Transaction.finalize": "Store.finalize is the way in",
    "LiveStore.serve": "listens; its tests are those of the server",
    "LiveStore.dump": "writes files",
    "LazyTable.to_spark": "starts Spark; its tests are those of the data source",
    "Result.to_spark": "starts Spark; its tests are those of the data source",
    "Store.register_views": "starts Spark; its tests are those of the data source",
}


@dataclass(frozen=True)
class Public:
    """A public function, method or class, with what its parameters say.

    Attributes
    ----------
    name
        ``Store.read``, ``col``.
    owner
        The class of the method, or None.
    function
        What has the signature.
    """

    name: str
    owner: type | None
    function: Any

    def __str__(self) -> str:
        return self.name

    @property
    def parameters(self) -> list[inspect.Parameter]:
        found = list(inspect.signature(self.function).parameters.values())
        return found[1:] if self.owner is not None and _takes_self(self.owner, self.name) else found

    def bound(self, world: World) -> Callable[..., Any]:
        """Return what is called."""
        if self.owner is None:
            return self.function
        return getattr(SUBJECTS[self.owner](world), self.name.partition(".")[2])


def _takes_self(owner: type, name: str) -> bool:
    return not isinstance(inspect.getattr_static(owner, name.partition(".")[2]), staticmethod)


def public_calls() -> list[Public]:
    """Return everything public that takes an argument, by name."""
    found = [Public(getattr(made, "__name__", "options"), None, made) for made in MADE]
    for owner in SUBJECTS:
        for name in dir(owner):
            raw = inspect.getattr_static(owner, name)
            function = getattr(raw, "__func__", raw)
            if (name.startswith("_") and name not in DUNDERS) or not inspect.isfunction(function):
                continue
            if function.__module__.partition(".")[0] == "tessel":
                found.append(Public(f"{owner.__name__}.{name}", owner, function))
    return [each for each in found if each.name not in LEFT_OUT and each.parameters]


DUNDERS = {
    *("__getitem__", "__call__", "__eq__", "__lt__", "__gt__", "__ne__", "__le__", "__ge__"),
    *("__add__", "__radd__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__"),
    *("__pow__", "__and__", "__or__", "__rand__", "__xor__"),
}


# --- arguments --------------------------------------------------------------------------------

VALID: dict[str, Callable[[World], Any]] = {
    "symbol": lambda world: "frame",
    "data": lambda world: FRAME.slice(20),
    "columns": lambda world: "v",
    "names": lambda world: ["v"],
    "types": lambda world: {"v": "int64"},
    "keys": lambda world: ["v"],
    "name": lambda world: "v",
    "names_": lambda world: "v",
    "rule": lambda world: "6h",
    "window": lambda world: 3,
    "expression": lambda world: "v + 1",
    "predicates": lambda world: "v > 3",
    "condition": lambda world: "v > 3",
    "query": lambda world: ts.QueryBuilder().head(3),
    "by": lambda world: "k",
    "on": lambda world: "v",
    "other": lambda world: "other",
    "others": lambda world: "other",
    "as_of": lambda world: 1,
    "at": lambda world: None,
    "to": lambda world: 1,
    "before": lambda world: 1,
    "after": lambda world: 2,
    "text": lambda world: "v + 1",
    "uri": lambda world: "memory://calls-other",
    "index": lambda world: "t",
    "task_id": lambda world: "1",
    "staged": lambda world: [world.store.stage("new", FRAME, task_id="1")],
    "older_than": lambda world: 1,
    "date_range": lambda world: ("1970-01-01T02", "1970-01-01T05"),
    "rows": lambda world: (1, 3),
    "where": lambda world: "v > 3",
    "symbols": lambda world: ["frame", "other"],
    "timeline": lambda world: "frame",
    "times": lambda world: [42, 43],
    "time": lambda world: 42,
    "first": lambda world: 41,
    "last": lambda world: 50,
    "entity": lambda world: "robot/arm",
    "component": lambda world: "angle",
    "components": lambda world: ["angle"],
    "event_id": lambda world: events.id_bytes(7, 7),
    "events": lambda world: events.Table(),
    "store": lambda world: world.store,
    "references": lambda world: None,
    "outputs": lambda world: ("v", "sum"),
    "by_column": lambda world: {"v": "sum"},
    "q": lambda world: 0.5,
    "n": lambda world: 2,
    "k": lambda world: 2,
    "value": lambda world: 1,
    "values": lambda world: [1, 2],
    "clauses": lambda world: Head(2),
    "configuration": lambda world: None,
    "sink": lambda world: world.live,
    "schema": lambda world: world.store.schema("frame"),
    "input_schema": lambda world: world.store.schema("frame"),
    "arrow": lambda world: FRAME.schema,
    "metadata": lambda world: {"a": 1},
    "log.components": lambda world: {"angle": [1.0]},
    "log.times": lambda world: 50,
    "Row.times": lambda world: {"frame": 3},
    "cast.columns": lambda world: {"v": "float64"},
    "rename.columns": lambda world: {"v": "w"},
    "Cell.values": lambda world: pa.array([1.0]),
    "from_arrow.values": lambda world: pa.array([1.0]),
    "rename_columns.names": lambda world: {"v": "w"},
    "with_columns.columns": lambda world: "v * 2",
    "add_column.name": lambda world: "new",
    "add_column.values": lambda world: 1,
    "on_branch.branch": lambda world: "side",
    "pattern": lambda world: "f.*",
    "part": lambda world: "a",
    "regex": lambda world: "a.*",
}
"""What is right for a parameter, by its name or ``function.name``."""


def right(world: World, public: Public, parameter: inspect.Parameter) -> Any:
    """Return a value that a parameter takes."""
    *_, function = public.name.split(".")
    made = VALID.get(f"{function}.{parameter.name}") or VALID.get(parameter.name)
    if made is not None:
        return made(world)
    if parameter.default is not inspect.Parameter.empty:
        return parameter.default
    return 1


class Odd:
    """Of no type that anybody takes."""


class Kind(enum.Enum):
    """An enumeration of nobody's."""

    ONE = "v"


def _itself() -> list[Any]:
    held: list[Any] = []
    held.append(held)
    return held


class OwnError(Exception):
    """Raised by what a caller passes in; it comes out as it is."""


def _raising() -> Iterator[str]:
    yield "v"
    raise OwnError


WRONG: dict[str, Callable[[World], Any]] = {
    **{
        repr(value): (lambda world, value=value: value)
        for value in (
            None,
            True,
            False,
            0,
            1,
            -1,
            3,
            2**63,
            -(2**63) - 1,
            10**30,
            0.5,
            1.5,
            -0.0,
            1e308,
            math.nan,
            math.inf,
            1j,
            "",
            " ",
            "v",
            "t",
            "k",
            "nope",
            "frame",
            "v >",
            "v > 'a'",
            "1h",
            "1d",
            "-1",
            "sum",
            "main",
            "old",
            "1970-01-01",
            "\0",
            "\ud800",
            "a/../b",
            "..",
            "/",
            "~",
            "é",
            "9" * 30,
            b"",
            b"v",
            b"\xff",
            (),
            (1,),
            (1, 2),
            ("v", "sum"),
            ("v", "k"),
            (None, None),
            ("nope", "sum", 3),
            [],
            [None],
            [1],
            ["v"],
            ["v", "v"],
            ["nope"],
            [["v"]],
            [""],
            [b"v"],
            [1, "v"],
            {},
            {"v": 1},
            {"v": "sum"},
            {"v": None},
            {1: 2},
            {None: None},
            {"v": "int64"},
            {"v": ["sum"]},
            {"nope": "int8"},
            {"v": {}},
            {"v": "k"},
            ...,
            slice(1, 2),
            range(3),
            datetime.datetime(2024, 1, 1),
            datetime.datetime(2024, 1, 1, tzinfo=UTC),
            datetime.date(2024, 1, 1),
            datetime.time(1),
            datetime.timedelta(hours=1),
            datetime.timedelta(-1),
            decimal.Decimal("1.5"),
            decimal.Decimal("NaN"),
            fractions.Fraction(1, 3),
            np.int64(1),
            np.uint64(2**63),
            np.float64("nan"),
            np.float32(1),
            np.bool_(True),
            np.str_("v"),
            np.datetime64("2024-01-01"),
            np.datetime64("NaT", "ns"),
            np.timedelta64(1, "h"),
            pd.Timestamp("2024-01-01"),
            pd.Timedelta("5min"),
            pd.NA,
            pd.NaT,
            int,
            Odd,
            ts.Store,
            pa,
            pa.int64(),
            pa.null(),
            pa.scalar(1),
            pa.scalar("v"),
            pa.scalar(None),
            Kind.ONE,
            pathlib.Path("v"),
            re.compile("v"),
            len,
            frozenset(["v"]),
            memoryview(b"v"),
            bytearray(b"v"),
        )
    },
    "memoryview": lambda world: memoryview(b"v"),
    "bytearray": lambda world: bytearray(b"v"),
    "np.array([1, 2])": lambda world: np.array([1, 2]),
    "np.array(['v'])": lambda world: np.array(["v"]),
    "np.array(1.5)": lambda world: np.array(1.5),
    "np.zeros((2, 2))": lambda world: np.zeros((2, 2)),
    "np.array([None])": lambda world: np.array([None]),
    "np.array([True, False])": lambda world: np.array([True, False]),
    "pd.Series([1, 2])": lambda world: pd.Series([1, 2]),
    "pd.Series(['v'])": lambda world: pd.Series(["v"]),
    "pd.Index(['v'])": lambda world: pd.Index(["v"]),
    "pd.DataFrame": lambda world: pd.DataFrame({"v": [1], "w": ["a"]}),
    "pd.DataFrame()": lambda world: pd.DataFrame(),
    "pd.DataFrame(1)": lambda world: pd.DataFrame([[1, 2]]),
    "pl.DataFrame": lambda world: pl.DataFrame({"v": [1]}),
    "pl.LazyFrame": lambda world: pl.LazyFrame({"v": [1]}),
    "pl.col": lambda world: pl.col("v"),
    "pl.Series": lambda world: pl.Series("v", [1, None]),
    "pa.table": lambda world: pa.table({"v": [1]}),
    "pa.table of nothing": lambda world: pa.table({}),
    "pa.table of frame": lambda world: FRAME,
    "pa.array": lambda world: pa.array([1, None]),
    "pa.array of text": lambda world: pa.array(["v"]),
    "pa.chunked_array": lambda world: pa.chunked_array([[1], [2]]),
    "pa.schema": lambda world: pa.schema([("v", pa.int64())]),
    "pa.RecordBatch": lambda world: pa.record_batch({"v": [1]}),
    "pa.RecordBatchReader": lambda world: pa.table({"v": [1]}).to_reader(),
    "pa.map": lambda world: pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "col('v')": lambda world: ts.col("v"),
    "col('nope')": lambda world: ts.col("nope"),
    "col('v') > 1": lambda world: ts.col("v") > 1,
    "col('k') + 1": lambda world: ts.col("k") + 1,
    "[col('v')]": lambda world: [ts.col("v")],
    "{'v': col('v')}": lambda world: {"v": ts.col("v")},
    "col('v').sum()": lambda world: ts.col("v").sum(),
    "lit(None)": lambda world: ts.lit(None),
    "QueryBuilder()": lambda world: ts.QueryBuilder().head(2),
    "LazyTable": lambda world: world.store.scan("other"),
    "SubQuery": lambda world: ts.SubQuery("other"),
    "GroupedQuery": lambda world: ts.QueryBuilder().groupby("k"),
    "Result": lambda world: world.store.read("other"),
    "Store": lambda world: world.store,
    "Transaction": lambda world: world.store.transaction(),
    "Head(2)": lambda world: Head(2),
    "Head": lambda world: Head,
    "TableSchema": lambda world: world.store.schema("other"),
    "Options()": lambda world: ts.Options(),
    "LiveStore": lambda world: world.live,
    "Row": lambda world: events.Row(events.id_bytes(9, 9), "robot"),
    "Cell": lambda world: events.Cell.from_values("angle", [1.0]),
    "Odd()": lambda world: Odd(),
    "generator": lambda world: (n for n in range(2)),
    "generator of names": lambda world: (n for n in ["v"]),
    "generator that raises": lambda world: _raising(),
    "iter of Odd": lambda world: iter([Odd()]),
    "lambda": lambda world: lambda *given: Odd(),
    "a list of itself": lambda world: _itself(),
    "a dictionary of itself": lambda world: {"v": _itself()},
    "[{'v': itself}]": lambda world: [{"v": _itself()}],
    "nested a thousand times": lambda world: functools.reduce(lambda a, _: [a], range(1000), 1),
    "a long text": lambda world: "v" * 5000,
    "a deep text": lambda world: "(" * 3000 + "v" + ")" * 3000,
    "{'v'}": lambda world: {"v"},
    "io.BytesIO": lambda world: io.BytesIO(b"v"),
    "{'tessel_plan': 1}": lambda world: {
        "tessel_plan": 1,
        "clauses": [{"clause": "head", "n": "x"}],
    },
    "[{'v': 1}]": lambda world: [{"v": 1}],
    "mapping of arrays": lambda world: {"v": np.array([1, 2]), "w": [1]},
    "mapping of odds": lambda world: {"v": [Odd()]},
}
"""What most parameters do not take, by what is shown of it."""


@dataclass
class Call:
    """One call: of what, with what, as it can be told and repeated."""

    public: Public
    seed: int
    shown: str = ""

    def made(self, world: World) -> Callable[[], None]:
        """Return the call, which uses up whatever comes of it."""
        draw = random.Random(f"{self.public.name} {self.seed}")
        positional, named = self._arguments(world, draw)
        bound = self.public.bound(world)
        return lambda: used(world, bound(*positional, **named))

    def _arguments(self, world: World, draw: random.Random) -> tuple[list[Any], dict[str, Any]]:
        parameters = self.public.parameters
        wrong = set(
            draw.sample(range(len(parameters)), min(len(parameters), draw.choice([1, 1, 1, 2])))
        )
        positional: list[Any] = []
        named: dict[str, Any] = {}
        shown = []
        for at, parameter in enumerate(parameters):
            optional = parameter.default is not inspect.Parameter.empty
            if at not in wrong and optional and draw.random() < 0.7:
                continue
            if at in wrong:
                name = draw.choice(list(WRONG))
                value, told = WRONG[name](world), name
            else:
                value, told = right(world, self.public, parameter), "…"
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                named["made"] = value
            elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional += [value] * draw.choice([1, 1, 2])
            elif parameter.kind is inspect.Parameter.KEYWORD_ONLY or len(positional) < at:
                named[parameter.name] = value
            else:
                positional.append(value)
            shown.append(f"{parameter.name}={told}")
        self.shown = f"{self.public.name}({', '.join(shown)})"
        return positional, named


def used(world: World, found: Any) -> None:
    """Go on with what a call returned as people would: run it, go through it, show it."""
    if isinstance(found, ts.QueryBuilder):
        found = world.store.scan("frame").then(*found.clauses)
    elif isinstance(found, SubQuery):
        found = world.store.scan("frame").concat(found)
    elif isinstance(found, GroupedQuery | ResampledQuery | WindowQuery):
        used(world, found.agg(made=("v", "sum")))
    elif isinstance(found, ts.Expression):
        str(found)
        world.store.scan("frame").apply("made", found).collect()
        world.store.scan("frame").agg(made=found).collect()
    elif isinstance(found, WhenBranches | WhenCondition):
        used(world, found.then(1) if isinstance(found, WhenCondition) else found.otherwise(2))
    elif isinstance(found, Transaction):
        with found as transaction:
            transaction.write("new", FRAME)
    elif isinstance(found, Appender):
        with found as appender:
            appender.append(FRAME.slice(20))
    elif isinstance(found, collections.abc.Iterator):
        for _ in itertools.islice(found, 10):
            pass
    elif isinstance(found, contextlib.AbstractContextManager) and not isinstance(
        found, (events.LiveStore)
    ):
        with found:
            pass
    if isinstance(found, ts.LazyTable):
        repr(found)
        found.collect()
        found.explain()
    if type(found).__module__.startswith("tessel"):
        repr(found)


MISCALLED = re.compile(
    r"(missing \d+ required|takes (from )?\d+ .*positional|takes no arguments"
    r"|got an unexpected keyword|got multiple values)"
)
"""What Python says of a wrong number of arguments, or of a keyword that is none."""


def complaint(call: Call, world: World) -> str | None:
    """Return what is wrong with how a call ended, or None."""
    made = call.made(world)
    before = world.digest()
    refused = True
    try:
        made()
        refused = False
    except (ts.TesselError, OwnError):
        pass
    except TypeError as error:
        if MISCALLED.search(str(error)) is None or not _of_the_call(error):
            return _told(call, error)
    except Exception as error:
        return _told(call, error)
    if world.digest() != before:
        world.restore()
        if refused:
            return f"{call.shown}: refused, and the store is another"
    return None


def _of_the_call(error: BaseException) -> bool:
    """Whether an error is of the call itself: raised where it is made, in no function below."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return pathlib.Path(last.filename).name in ("public_calls.py", "arguments.py")


def _told(call: Call, error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)
    ours = [each for each in last if "/tessel/" in each.filename]
    where = f"{ours[-1].filename.rpartition('tessel/')[2]}:{ours[-1].lineno}" if ours else "?"
    return f"{where} {type(error).__name__}: {error!s:.150} <- {call.shown}"


NOT_CALLED = {
    **dict.fromkeys(("Clause", "ProcessingUnit", "Converter", "Sink"), "people write these"),
    **dict.fromkeys(
        ("ClauseInfo", "IndexEffect", "Structure", "TimelineKind", "JobState"), "constants"
    ),
    **dict.fromkeys(("Lineage", "Plan", "Version", "Commit", "Difference"), "only looked at"),
    **dict.fromkeys(("CollectionReport", "CompactReport", "ExpiryReport"), "only looked at"),
    **dict.fromkeys(("RepackReport", "Change", "Collected", "Found", "State"), "only looked at"),
    **dict.fromkeys(("EventServer", "SocketSink", "FileSink"), "of sockets and files"),
    "converter_names": "takes nothing",
    "SegmentSource": "of what reads segments",
}
"""Public classes whose objects nobody makes or calls, and why."""
