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
import sys
from pathlib import Path
from typing import Any

import pytest

import tessel.compat.arcticdb as adb

_TESTS = Path(os.environ["ARCTICDB_TESTS"])
_names = itertools.count()


def _put_in_place() -> None:
    import arcticdb.version_store.library  # noqa: F401  # with all that it imports
    import arcticdb_ext  # noqa: F401

    ours = {name: getattr(adb, name) for name in adb.__all__ if name != "exceptions"}
    raised = {name: getattr(adb.exceptions, name) for name in adb.exceptions.__all__}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("arcticdb", "arcticdb_ext"):
            for each, value in {**ours, **raised}.items():
                theirs = getattr(module, each, None)
                if inspect.isclass(theirs) or inspect.isfunction(theirs):
                    setattr(module, each, value)


class Native:
    """The stand-in for ``NativeVersionStore``: its names, over a library of ours."""

    def __init__(self, dynamic_schema: bool = False) -> None:
        options = adb.LibraryOptions(dynamic_schema=bool(dynamic_schema))
        self._library = adb.Arctic("mem://").create_library(f"native{next(_names)}", options)

    def __getattr__(self, name: str) -> Any:
        if name in ("create_column_stats_experimental", "set_output_format", _FORMAT):
            return lambda *_, **__: None  # statistics are always kept, and pandas is asked for
        return getattr(self._library, name)

    def write(self, symbol: str, data: Any, metadata: Any = None, **options: Any) -> Any:
        parallel = options.get("parallel") or options.get("incomplete")
        return self._library.write(symbol, data, metadata, staged=bool(parallel))

    def append(self, symbol: str, dataframe: Any, metadata: Any = None, **_: Any) -> Any:
        return self._library.append(symbol, dataframe, metadata)

    def update(self, symbol: str, data: Any, metadata: Any = None, **options: Any) -> Any:
        within = options.get("date_range")
        upsert = bool(options.get("upsert"))
        return self._library.update(symbol, data, metadata, upsert=upsert, date_range=within)

    def read(self, symbol: str, as_of: Any = None, **options: Any) -> Any:
        return self._library.read(symbol, as_of, **_known(options))

    def head(self, symbol: str, n: int = 5, as_of: Any = None, **options: Any) -> Any:
        return self._library.head(symbol, n, as_of, **_known(options))

    def tail(self, symbol: str, n: int = 5, as_of: Any = None, **options: Any) -> Any:
        return self._library.tail(symbol, n, as_of, **_known(options))

    def delete(self, symbol: str, date_range: Any = None, **_: Any) -> None:
        if date_range is not None:
            self._library.delete_data_in_range(symbol, date_range)
        else:
            self._library.delete(symbol)

    def list_versions(self, symbol: str | None = None, **options: Any) -> list[dict[str, Any]]:
        found = self._library.list_versions(symbol, **_known(options))
        return [{**key._asdict(), **info._asdict()} for key, info in found.items()]

    def batch_write(self, symbols: list[str], data_vector: list[Any], **_: Any) -> list[Any]:
        pairs = zip(symbols, data_vector, strict=True)
        return [self._library.write(symbol, data) for symbol, data in pairs]

    def batch_append(self, symbols: list[str], data_vector: list[Any], **_: Any) -> list[Any]:
        pairs = zip(symbols, data_vector, strict=True)
        return [self._library.append(symbol, data) for symbol, data in pairs]

    def batch_read(self, symbols: list[str], **options: Any) -> dict[str, Any]:
        many = [options.get(f"{name}s") or [None] * len(symbols) for name in _MANY]
        query = options.get("query_builder")
        found = {}
        for i, symbol in enumerate(symbols):
            one = {name: values[i] for name, values in zip(_MANY, many, strict=True)}
            one["query_builder"] = query[i] if isinstance(query, list) else query
            one["columns"] = (options.get("columns") or [None] * len(symbols))[i]
            found[symbol] = self._library.read(symbol, **one)
        return found


_FORMAT = "_set_output_format_for_pipeline_tests"
_MANY = ("as_of", "date_range", "row_range")


def _known(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the public API has too."""
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
    if "arrow" in name:
        return None
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


_put_in_place()
for _name in _their_fixtures():
    _made = _fixture(_name)
    if _made is not None:
        globals()[f"fixture_{_name}"] = _made


# --- what is counted ------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    report = (yield).get_result()
    outcome, why = "", ""
    if call.excinfo is not None and not report.skipped:
        kind, text = call.excinfo.typename, " ".join(str(call.excinfo.value).split())
        outcome, why = "failed", f"{kind}: {text[:300]}"
    elif report.skipped or report.when == "call":
        outcome = "skipped" if report.skipped else "passed"
    if outcome:  # at once, so that a run that is cut short has counted what it ran
        with Path(os.environ["ARCTICDB_REPORT"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"test": item.nodeid, "outcome": outcome, "why": why}) + "\n")
