from __future__ import annotations

import datetime as dt
import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from tessel.cli.files import read_files
from tessel.errors import InvalidInputError, SchemaMismatchError

CSV = "at,name,n\n2024-01-01T10:00:00Z,a,1\n2024-01-01T11:00:00Z,NA,NA\n"
WHOLE = pa.table(
    {
        "at": pa.array(
            [
                dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC),
                dt.datetime(2024, 1, 1, 11, tzinfo=dt.UTC),
            ],
            pa.timestamp("s", "UTC"),
        ),
        "name": ["a", None],
        "n": [1, None],
    }
)


def _write(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(".csv"):
        path.write_text(CSV)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(CSV.encode()))
    elif name.endswith(".parquet"):
        parquet.write_table(WHOLE, path)
    else:
        feather.write_feather(WHOLE, path)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.CSV.csv", "a.csv.gz", "a.feather", "a.arrow"])
def test_each_kind_of_file(tmp_path: Path, name: str) -> None:
    assert read_files([_write(tmp_path, name)]).equals(WHOLE)


def test_parquet(tmp_path: Path) -> None:
    # Parquet has no seconds: they come back as milliseconds.
    found = read_files([_write(tmp_path, "a.parquet")])
    assert found.set_column(0, "at", found["at"].cast(pa.timestamp("s", "UTC"))).equals(WHOLE)


def test_files_follow_one_another_in_the_order_given(tmp_path: Path) -> None:
    first, second = _write(tmp_path, "b.csv"), _write(tmp_path, "a.feather")
    assert read_files([first, second]).equals(pa.concat_tables([WHOLE, WHOLE]))


def test_a_column_without_values_takes_its_type_from_another_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("at,name,n\n2024-01-01T12:00:00Z,NA,NA\n")
    found = read_files([empty, _write(tmp_path, "a.csv")])
    assert found.schema == WHOLE.schema
    assert found.num_rows == 3


def test_what_means_missing_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,name\n1,x\n-999,NA\n")
    found = read_files([path], missing=("-999",))
    assert found.to_pydict() == {"n": [1, None], "name": ["x", "NA"]}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    _write(tmp_path, "flights.csv")
    with pytest.raises(InvalidInputError) as caught:
        read_files([tmp_path / "flihgts.csv"])
    assert "no file" in str(caught.value)
    assert f"did you mean {str(tmp_path / 'flights.csv')!r}?" in str(caught.value)


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is a folder"):
        read_files([tmp_path])


def test_a_kind_that_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_text("x")
    with pytest.raises(InvalidInputError, match="no kind that is read"):
        read_files([path])


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.feather"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path, name)
    path.write_bytes(b"a,b\n1\n2,3,4\n" if name == "a.csv" else path.read_bytes()[:40])
    with pytest.raises(InvalidInputError, match="cannot read") as caught:
        read_files([path])
    assert str(path) in str(caught.value)


def test_files_of_other_columns(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("at,n\n2024-01-01T10:00:00Z,1\n")
    with pytest.raises(SchemaMismatchError, match=r"the columns of .*other"):
        read_files([_write(tmp_path, "a.csv"), other])


def test_files_of_other_types(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(CSV.replace(",1\n", ",many\n"))
    with pytest.raises(SchemaMismatchError, match="column types differ"):
        read_files([_write(tmp_path, "a.csv"), other])


def test_reader_and_writer_agree_on_text(tmp_path: Path) -> None:
    table = pa.table({"text": ["plain", 'quo"te', "com,ma", "li\nne"]})
    csv.write_csv(table, tmp_path / "a.csv")
    assert read_files([tmp_path / "a.csv"]).equals(table)
