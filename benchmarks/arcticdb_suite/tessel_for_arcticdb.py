"""A plugin of pytest that gives ArcticDB's own tests Tessel's package in place of theirs.

Loaded by :mod:`benchmarks.arcticdb_suite`. Their wheel is imported for what the tests take from it
beside the store (helpers that compare frames), and the names of :mod:`tessel.compat.arcticdb` are
put in the place of theirs. Their fixtures are made anew: a fixture with ``library`` in its name is
one of our libraries, and one with ``store`` the stand-in for their inner ``NativeVersionStore``.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import os
import random
import string
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

import tessel.compat.arcticdb as adb
from tessel.compat.arcticdb import reading

_TESTS = Path(os.environ["ARCTICDB_TESTS"])
_names = itertools.count()


def _put_in_place() -> None:
    import arcticdb.version_store.library  # noqa: F401  # with all that it imports
    import arcticdb_ext  # noqa: F401

    ours = {name: getattr(adb, name) for name in adb.__all__ if name != "exceptions"}
    ours |= {name: getattr(adb.exceptions, name) for name in ("ErrorCategory", "ErrorCode")}
    # Their tests also call Library(description, native) and library._nvs.
    ours["Library"] = lambda _, native: native._library
    adb.Library._nvs = property(Native.of)  # type: ignore[attr-defined]
    described = reading.NameWithDType
    reading.NameWithDType = lambda name, kind: described(name, _Kind(kind))  # type: ignore[attr-defined]
    raised = {
        name: _Kinds(value) if isinstance(value, tuple) else value
        for name, value in vars(adb.exceptions).items()
        if isinstance(value, tuple) or (inspect.isclass(value) and issubclass(value, Exception))
    }
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("arcticdb", "arcticdb_ext"):
            for each, value in {**ours, **raised}.items():
                theirs = getattr(module, each, None)
                if inspect.isclass(theirs) or inspect.isfunction(theirs):
                    setattr(module, each, value)


class _Kinds(tuple[type[Exception], ...]):
    """Classes of ours in the place of one of theirs, which their tests make as well."""

    def __call__(self, *given: Any) -> Exception:
        return self[0](*(given or ("of theirs",)))


class _Kind(str):
    """The name of a type of Arrow, which is asked as theirs are."""

    def data_type(self) -> Any:
        from arcticdb_ext.types import DataType

        names = {"double": "FLOAT64", "float": "FLOAT32", "bool": "BOOL8"}
        return getattr(DataType, names.get(self, self.upper()), None)


_NOTHING_TO_DO = (
    "_set_allow_arrow_input",
    "create_column_stats_experimental",
    "set_arrow_string_format_default",
)


class Native:
    """The stand-in for ``NativeVersionStore``: its names, over a library of ours."""

    def __init__(self, dynamic_schema: bool = False, library: adb.Library | None = None) -> None:
        self._library = library or _library(_options(bool(dynamic_schema)))

    @classmethod
    def of(cls, library: adb.Library) -> Native:
        return cls(library=library)

    def __getattr__(self, name: str) -> Any:
        if name in _NOTHING_TO_DO:
            return lambda *_, **__: None
        return getattr(self._library, name)

    def set_output_format(self, output_format: Any) -> None:
        self._library._output_format = output_format

    _set_output_format_for_pipeline_tests = set_output_format

    def write(self, symbol: str, data: Any, metadata: Any = None, **options: Any) -> Any:
        if options.get("pickle_on_failure") or options.get("recursive_normalizers"):
            return self._library.write_pickle(symbol, data)
        parallel = bool(options.get("parallel") or options.get("incomplete"))
        checked = bool(options.get("validate_index"))
        return self._library.write(symbol, data, metadata, staged=parallel, validate_index=checked)

    def name(self) -> str:
        return self._library.name

    def append(self, symbol: str, dataframe: Any, metadata: Any = None, **options: Any) -> Any:
        if options.get("incomplete"):
            return self._library.write(symbol, dataframe, staged=True)
        checked = bool(options.get("validate_index"))
        return self._library.append(symbol, dataframe, metadata, validate_index=checked)

    def update(self, symbol: str, data: Any, metadata: Any = None, **options: Any) -> Any:
        within = options.get("date_range")
        upsert = bool(options.get("upsert"))
        return self._library.update(symbol, data, metadata, upsert=upsert, date_range=within)

    def read(self, symbol: str, as_of: Any = None, **options: Any) -> Any:
        return self._library.read(symbol, as_of, **_public(options))

    def head(self, symbol: str, n: int = 5, as_of: Any = None, **options: Any) -> Any:
        return self._library.head(symbol, n, as_of, **_public(options))

    def tail(self, symbol: str, n: int = 5, as_of: Any = None, **options: Any) -> Any:
        return self._library.tail(symbol, n, as_of, **_public(options))

    def compact_incomplete(self, symbol: str, append: bool, *_: Any, **options: Any) -> Any:
        mode = "append" if append else "write"
        return self._library.finalize_staged_data(symbol, mode, metadata=options.get("metadata"))

    def delete(self, symbol: str, date_range: Any = None, **_: Any) -> None:
        if date_range is not None:
            self._library.delete_data_in_range(symbol, date_range)
        else:
            self._library.delete(symbol)

    def delete_version(self, symbol: str, version_num: int) -> None:
        self._library.delete(symbol, versions=[version_num])

    def delete_versions(self, symbol: str, versions: Any) -> None:
        self._library.delete(symbol, versions=versions)

    def batch_delete_versions(self, symbols: list[str], versions: list[list[int]]) -> Any:
        requests = map(adb.DeleteRequest, symbols, versions)
        return [each for each in self._library.delete_batch(list(requests)) if each is not None]

    def batch_delete_symbols(self, symbols: list[str]) -> Any:
        return [each for each in self._library.delete_batch(symbols) if each is not None]

    def list_versions(self, symbol: str | None = None, **options: Any) -> list[dict[str, Any]]:
        found = self._library.list_versions(symbol, **_public(options))
        return [{**key._asdict(), **info._asdict()} for key, info in found.items()]

    def is_symbol_pickled(self, symbol: str, as_of: Any = None) -> bool:
        self._library.get_description(symbol, as_of)
        return False

    def get_info(self, symbol: str, version: Any = None, **_: Any) -> dict[str, Any]:
        found = self._library.get_description(symbol, version)
        assert found.last_update_time is not None
        index = {"index": [each.name for each in found.index]}
        view = self._library.store.view(symbol, as_of=version)
        return {
            "col_names": {"columns": [each.name for each in found.columns], **index},
            "dtype": [_Kind(each.dtype) for each in found.columns],
            "rows": found.row_count,
            "last_update": np.datetime64(found.last_update_time.replace(tzinfo=None), "ns"),
            "index_type": found.index_type,
            "type": "pandasseries" if view.pandas and view.pandas.series else "pandasdf",
            "date_range": found.date_range,
            "sorted": found.sorted,
        }

    def get_timerange_for_symbol(self, symbol: str, version: Any = None) -> Any:
        return self._library.get_description(symbol, version).date_range

    def get_num_rows(self, symbol: str, as_of: Any = None) -> int:
        return self._library.get_description(symbol, as_of).row_count

    def column_names(self, symbol: str, as_of: Any = None) -> list[str]:
        found = self._library.get_description(symbol, as_of)
        return [each.name for each in found.columns]

    def update_time(self, symbol: str, as_of: Any = None) -> Any:
        return self.get_info(symbol, as_of)["last_update"]

    def update_times(self, symbols: list[str], as_ofs: Any = None) -> list[Any]:
        return list(map(self.update_time, symbols, as_ofs or [None] * len(symbols)))

    def batch_get_info(self, symbols: list[str], as_ofs: Any = None) -> list[Any]:
        return list(map(self.get_info, symbols, as_ofs or [None] * len(symbols)))

    def batch_write(
        self, symbols: list[str], data_vector: list[Any], *given: Any, **more: Any
    ) -> Any:
        metadata = (given[0] if given else more.get("metadata_vector")) or [None] * len(symbols)
        return list(map(self._library.write, symbols, data_vector, metadata))

    def batch_append(
        self, symbols: list[str], data_vector: list[Any], *given: Any, **more: Any
    ) -> Any:
        metadata = (given[0] if given else more.get("metadata_vector")) or [None] * len(symbols)
        return list(map(self._library.append, symbols, data_vector, metadata))

    def batch_write_metadata(self, symbols: list[str], metadata_vector: list[Any], **_: Any) -> Any:
        return list(map(self._library.write_metadata, symbols, metadata_vector))

    def batch_read_metadata(self, symbols: list[str], as_ofs: Any = None, **_: Any) -> Any:
        asked = zip(symbols, as_ofs or [None] * len(symbols), strict=True)
        return {name: self._library.read_metadata(name, as_of) for name, as_of in asked}

    def batch_read(self, symbols: list[str], as_ofs: Any = None, **options: Any) -> dict[str, Any]:
        requests = self._requests(symbols, {"as_ofs": as_ofs, **options})
        return {each.symbol: self._library.read(**each._asdict()) for each in requests}

    def batch_read_and_join(self, symbols: list[str], query_builder: Any, **options: Any) -> Any:
        per_symbol = options.pop("per_symbol_query_builders", None)
        requests = self._requests(symbols, {**options, "query_builder": per_symbol})
        return self._library.read_batch_and_join(requests, query_builder)

    def _requests(self, symbols: list[str], options: dict[str, Any]) -> list[adb.ReadRequest]:
        listed: dict[str, Any] = {
            name: options.get(f"{name}s") or [None] * len(symbols)
            for name in ("as_of", "date_range", "row_range")
        }
        columns = options.get("columns") or [None] * len(symbols)
        listed["columns"] = [each or None for each in columns]
        query = options.get("query_builder")
        listed["query_builder"] = query if isinstance(query, list) else [query] * len(symbols)
        return [
            adb.ReadRequest(symbol, **{name: values[i] for name, values in listed.items()})
            for i, symbol in enumerate(symbols)
        ]


def _public(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the public API has too."""
    if (
        isinstance(options.get("columns"), list) and not options["columns"]
    ):  # which is all of them there
        options = {**options, "columns": None}
    dropped = ("_output_format", "allow_secondary", "implement_read_index", "iterate_on_failure")
    return {name: value for name, value in options.items() if name not in dropped}


_WITHOUT_EFFECT = (
    "clear_query_stats",
    "column_stats_filtering_enabled",
    "column_stats_filtering_enabled_and_disabled",
    "encoding_version",
    "only_test_encoding_version_v1",
    "single_threaded_config",
)


class _Storage:
    """The stand-in for a place of their tests."""

    def __init__(self, uri: str) -> None:
        self.arctic_uri = uri

    def create_arctic(self, **_: Any) -> adb.Arctic:
        return adb.Arctic(self.arctic_uri)


def _fixture(name: str) -> Any:
    """Return a fixture in place of one of theirs; None for what is about their storages."""
    dynamic = "dynamic" in name
    if name in _WITHOUT_EFFECT:
        return pytest.fixture(lambda: None, name=name)
    if name in ("lib_name", "sym"):
        return pytest.fixture(lambda: f"{name}{next(_names)}", name=name)
    if name == "any_arrow_string_format":
        return pytest.fixture(lambda: None, name=name)
    if name == "any_output_format":
        return pytest.fixture(lambda: adb.OutputFormat.PANDAS, name=name)
    if "s3" in name or "azur" in name or "gcp" in name or "mongo" in name or "nfs" in name:
        return None
    if name.endswith("library_factory"):
        return pytest.fixture(lambda: lambda options=None, **_: _library(options), name=name)
    if name.endswith("store_factory"):
        return pytest.fixture(
            lambda: lambda **given: Native(dynamic or given.get("dynamic_schema", False)), name=name
        )
    if "static" in name and "dynamic" in name:
        make = (lambda d: _library(_options(d))) if "library" in name else Native
        return pytest.fixture(lambda request: make(request.param), name=name, params=[False, True])
    if name.endswith("arctic") or "arctic_client" in name:
        return pytest.fixture(lambda tmp_path: adb.Arctic(str(tmp_path)), name=name)
    if name in ("lmdb_storage", "mem_storage"):
        place = "mem://" if name == "mem_storage" else None
        return pytest.fixture(lambda tmp_path: _Storage(place or str(tmp_path)), name=name)
    if "library" in name:
        return pytest.fixture(lambda: _library(_options(dynamic)), name=name)
    if "store" in name:
        return pytest.fixture(lambda: Native(dynamic), name=name)
    return None


def _options(dynamic: bool) -> adb.LibraryOptions:
    return adb.LibraryOptions(dynamic_schema=dynamic)


def _library(options: Any) -> adb.Library:
    given = adb.LibraryOptions(dynamic_schema=bool(getattr(options, "dynamic_schema", False)))
    return adb.Arctic("mem://").create_library(f"library{next(_names)}", given)


def _their_fixtures() -> list[str]:
    tree = ast.parse((_TESTS / "tests" / "conftest.py").read_text(encoding="utf-8"))
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("fixture" in ast.unparse(each) for each in node.decorator_list)
    ]


# A failure is counted, not made small.
hypothesis.settings.register_profile(
    "count", phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate], max_examples=50
)
hypothesis.settings.load_profile("count")


def _frames() -> dict[str, Any]:
    """Return their fixtures that make frames out of nothing."""
    import pandas as pd
    from arcticdb.util.test import create_df

    source = (_TESTS / "tests" / "conftest.py").read_text(encoding="utf-8")
    names: dict[str, Any] = {"np": np, "pd": pd, "pytest": pytest, "partial": partial}
    names |= {"string": string, "random": random, "create_df": create_df}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_df") and not node.args.args:
            exec(compile(ast.Module([node], []), "conftest", "exec"), names)
    return {name: made for name, made in names.items() if name.endswith("_df")}


_put_in_place()
globals().update(_frames())
for _name in _their_fixtures():
    _made = _fixture(_name)
    if _made is not None:
        globals()[f"fixture_{_name}"] = _made


# --- what is counted ------------------------------------------------------------------------------

_OUTCOMES = Path(os.environ["ARCTICDB_OUTCOMES"])
_CURRENT = Path(os.environ["ARCTICDB_CURRENT"])


def _count(test: str, outcome: str, why: str = "") -> None:
    with _OUTCOMES.open("a", encoding="utf-8") as file:  # at once: a run may be cut short
        file.write(json.dumps({"test": test, "outcome": outcome, "why": why}) + "\n")


def _known() -> set[str]:
    if not _OUTCOMES.exists():
        return set()
    lines = _OUTCOMES.read_text(encoding="utf-8").splitlines()
    return {json.loads(line)["test"] for line in lines}


def pytest_collection_modifyitems(items: list[Any]) -> None:
    known = _known()
    items[:] = [item for item in items if item.nodeid not in known]


def pytest_collectreport(report: Any) -> None:
    if report.failed and report.nodeid not in _known():
        _count(report.nodeid, "failed", f"not collected: {_short(str(report.longrepr)[-200:])}")


def pytest_runtest_protocol(item: Any) -> None:
    if time.time() > float(os.environ["ARCTICDB_UNTIL"]):
        item.session.shouldstop = "the time is over"
        item.session.tessel_is_over = True
    _CURRENT.write_text(item.nodeid, encoding="utf-8")


def pytest_sessionfinish(session: Any) -> None:
    _CURRENT.write_text("stopped" if hasattr(session, "tessel_is_over") else "all", "utf-8")


def _short(text: str) -> str:
    return " ".join(text.split())[:400]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    report = (yield).get_result()
    if call.excinfo is not None and not report.skipped:
        if report.when != "teardown" or item.nodeid not in _known():
            _count(item.nodeid, "failed", _short(f"{call.excinfo.typename}: {call.excinfo.value}"))
    elif report.skipped:
        _count(item.nodeid, "skipped", _short(str(getattr(report, "wasxfail", report.longrepr))))
    elif report.when == "call":
        _count(item.nodeid, "passed")
