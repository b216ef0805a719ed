from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import os
import random
import re
import tempfile
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, feather, parquet
from pyarrow import json as pa_json

import tessel as ts
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    InvalidInputError,
    SchemaMismatchError,
)
from tessel.store import file_kinds
from tessel.store.csv_files import CsvFile
from tessel.store.csv_text import TIME_FORMATS, Pieces, end_of_rows
from tessel.store.file_kinds import FileOptions, UnfitError
from tessel.store.files import Files


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return an object of JSON a line."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def read_files(paths: list[Path], **options: Any) -> pa.Table:
    """Return all rows of files as one table."""
    return Files(paths, FileOptions(**options)).take(pa.Table.from_batches).combine_chunks()


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


def test_a_pipe_is_sent_to_standard_input(tmp_path: Path) -> None:
    pipe = tmp_path / "a.csv"
    os.mkfifo(pipe)
    with pytest.raises(InvalidInputError, match="is no regular file") as refused:
        read_files([pipe])
    assert "tessel import -" in str(refused.value)


def test_a_link_to_a_file_that_is_not_there(tmp_path: Path) -> None:
    (link := tmp_path / "a.csv").symlink_to(gone := tmp_path / "b.csv")
    with pytest.raises(InvalidInputError, match="no file") as refused:
        read_files([link])
    assert f"it is a link to {str(gone)!r}" in str(refused.value)


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
    with pytest.raises(SchemaMismatchError, match=r"'n' is int64 in .*a\.csv.* string in"):
        read_files([_write(tmp_path, "a.csv"), other])


def test_reader_and_writer_agree_on_text(tmp_path: Path) -> None:
    table = pa.table({"text": ["plain", 'quo"te', "com,ma", "li\nne"]})
    csv.write_csv(table, tmp_path / "a.csv")
    assert read_files([tmp_path / "a.csv"]).equals(table)


# --- types ----------------------------------------------------------------------------------------

VALUES = {
    "null": st.just("NA"),
    "whole": st.integers(-(10**12), 10**12).map(str),
    "double": st.floats(-1e6, 1e6).map(lambda value: f"{value:.3f}"),
    "bool": st.sampled_from(["true", "false"]),
    "date": st.dates(dt.date(1970, 1, 1)).map(str),
    "time": st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1)).map(
        lambda value: value.isoformat(" ", "seconds")
    ),
    "text": st.sampled_from(["a", "two words", 'quo"te', "com,ma", "li\nne"]),
}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_types_are_those_that_arrow_finds_in_the_whole_text(data: st.DataObject) -> None:
    """Whatever the blocks: a value further down widens the column, and no row is lost."""
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    rows = data.draw(st.integers(1, 60))
    seed = data.draw(st.integers(0, 2**32))
    random_ = random.Random(seed)
    columns = {}
    for number in range(data.draw(st.integers(1, 3))):
        drawn = [data.draw(VALUES[kind]) for kind in kinds]
        cuts = sorted(random_.choices(range(rows + 1), k=len(drawn) - 1))
        spans = zip(drawn, [0, *cuts], [*cuts, rows], strict=True)
        columns[f"c{number}"] = [text for text, start, stop in spans for _ in range(start, stop)]
    text = io.BytesIO()
    csv.write_csv(pa.table(columns), text)
    # Arrow quotes all text, and quoted text is missing as well.
    whole = csv.read_csv(
        io.BytesIO(text.getvalue()),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            null_values=["", "NA", "null"],
            strings_can_be_null=True,
            timestamp_parsers=[csv.ISO8601, *TIME_FORMATS],
        ),
    )
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(file_kinds, "BLOCK_BYTES", data.draw(st.integers(200, 4000)))
        path = Path(folder, "a.csv")
        path.write_bytes(text.getvalue())
        found = read_files([path])
        assert found.equals(whole), (found.schema, whole.schema)
        settled = Files([path])
        settled.settled_rows()
        assert settled.schema == whole.schema


def test_a_value_that_does_not_fit_starts_the_taker_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", 64)
    path = tmp_path / "a.csv"
    path.write_text("n\n" + "1\n" * 100 + "2.5\n")
    seen = []

    def take(batches: Any) -> int:
        seen.append(0)
        return sum(batch.num_rows for batch in batches)

    files = Files([path])
    assert files.schema.types == [pa.int64()]
    assert files.take(take) == 101
    assert (len(seen), files.schema.types) == (2, [pa.float64()])


@pytest.mark.parametrize(
    "text",
    [
        "2010/01/02 03:04:05",
        "2010-01-02 03:04:05",
        "2010-01-02T03:04:05",
        "2010.01.02 03:04:05",
        "20100102 03:04:05",
        "Jan 2 2010 03:04:05",
        "2 Jan 2010 03:04:05",
    ],
)
def test_forms_of_times(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"at\n{text}\n")
    assert read_files([path])["at"].to_pylist() == [dt.datetime(2010, 1, 2, 3, 4, 5)]


@pytest.mark.parametrize(
    "text", ["2010/01/02", "2010.01.02", "Jan 2 2010", '"Jan 2, 2010"', "2 Jan 2010", "2-Jan-2010"]
)
def test_forms_of_days(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"at\n{text}\n")
    assert read_files([path])["at"].to_pylist() == [dt.datetime(2010, 1, 2)]


def test_a_form_that_could_mean_two_days_is_taken_as_given(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("at\n03/04/2010\n")
    assert read_files([path])["at"].to_pylist() == ["03/04/2010"]
    found = read_files([path], time_formats=("%d/%m/%Y",))
    assert found["at"].to_pylist() == [dt.datetime(2010, 4, 3)]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_numbers_since_1970(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "a.parquet":
        parquet.write_table(pa.table({"at": [1500]}), path)
    else:
        path.write_text("at\n1500\n" if name == "a.csv" else '{"at": 1500}\n')
    found = read_files([path], epochs={"at": "epoch-ms"})
    assert found["at"].to_pylist() == [dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)]


def test_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 1, "w": "x"}\n{"n": 2.5, "w": null}\n')
    assert read_files([path]).to_pydict() == {"n": [1.0, 2.5], "w": ["x", None]}


@pytest.mark.parametrize(
    ("texts", "kind", "first"),
    [
        (["2024-01-01T02:00:00+02:00", "2024-01-01T00:00:00Z"], "timestamp[s, tz=UTC]",
         dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        (["2024-01-01T00:00:00", "2024-01-01T00:00:00.25"], "timestamp[ns]",
         dt.datetime(2024, 1, 1)),
        (["2024-01-01T00:00:00.5Z"], "timestamp[ns, tz=UTC]",
         dt.datetime(2024, 1, 1, 0, 0, 0, 500_000, dt.UTC)),
        (["Jan 2 2010", "soon"], "string", "Jan 2 2010"),
        (["Jan 2 2010", "Jan 3 2010"], "timestamp[s]", dt.datetime(2010, 1, 2)),
        (["03/04/2010"], "timestamp[s]", dt.datetime(2010, 4, 3)),
        (["2024-01-01T00:00:00Z", "2024-01-01"], "string", "2024-01-01T00:00:00Z"),
        (["NA", ""], "string", "NA"),
    ],
    ids=lambda value: str(value) if isinstance(value, list) else "",
)  # fmt: skip
@pytest.mark.parametrize("block", [64, 8 << 20])
def test_times_in_lines_of_json_keep_their_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str], kind: str, first: Any,
    block: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", block)
    path = tmp_path / "a.jsonl"
    path.write_text(_lines({"at": text} for text in texts))
    found = read_files([path], time_formats=("%d/%m/%Y",))["at"]
    assert str(found.type) == kind
    assert found[0].as_py() == first


_KINDS: list[list[Any]] = [
    [None, 1, 2.5],
    [None, "2024-01-01", "x", "2024-01-01 10:00:00"],
    [None, [1], [2.5], [None], []],
    [None, {"x": 1}, {"x": 2.5, "y": "a"}, {"y": None}, {"z": [1]}, {"z": [None, 2.5]}],
    [None, True],
]


@settings(deadline=None)
@given(st.data())
def test_types_of_json_are_those_of_the_whole_text(data: st.DataObject) -> None:
    """Whatever lies in the first block: Arrow's inference over one block is the oracle."""
    names = data.draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True))
    kinds = {name: data.draw(st.sampled_from(_KINDS)) for name in names}
    rows = []
    for _ in range(data.draw(st.integers(1, 30))):
        of = data.draw(st.sets(st.sampled_from(names), min_size=1))
        row = {name: data.draw(st.sampled_from(kinds[name])) for name in sorted(of)}
        rows.append(row)
    text = _lines(rows).encode()
    # Of lists that begin with null, Arrow's inference makes damaged arrays: it only tells types.
    inferred = pa_json.read_json(pa.BufferReader(text)).schema
    whole = pa_json.read_json(
        pa.BufferReader(text), parse_options=pa_json.ParseOptions(explicit_schema=inferred)
    )
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_kinds, "BLOCK_BYTES", data.draw(st.sampled_from([128, 300, 8 << 20])))
        path = Path(folder, "a.jsonl")
        path.write_bytes(text)
        found = read_files([path])
    assert found.select(whole.column_names).equals(whole.combine_chunks())
    assert sorted(found.column_names) == sorted(whole.column_names)


def test_values_of_two_kinds_in_lines_of_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 1}\n\n{"n": "x"}\n')
    with pytest.raises(
        InvalidInputError, match="line 3, column 'n': a string below values of the kind number"
    ):
        read_files([path])
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", 64)
    path.write_text('{"n": 1}\n' * 20 + '{"n": "x"}\n' * 20)
    with pytest.raises(
        InvalidInputError, match=r"column 'n' of .*a\.jsonl' is|line 21, column 'n'"
    ):
        read_files([path])
    path.write_text('{"n": 1}\n' * 20 + '{"n": 1')
    with pytest.raises(InvalidInputError, match="line 21"):
        read_files([path])


@pytest.mark.parametrize("block", [64, 8 << 20])
def test_times_within_lists_and_objects_of_json_keep_their_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", block)
    path = tmp_path / "a.jsonl"
    rows: list[Any] = [
        {"e": {"at": "2024-01-01T02:00:00+02:00", "n": 1}, "l": ["2024-01-01", None]},
        {"e": None, "l": []},
        {"e": {"at": "2024-01-01T00:00:00.5Z"}, "l": ["2024-01-02T03:00:00"]},
    ]
    path.write_text(_lines(rows))
    found = read_files([path])
    zoned = pa.timestamp("ns", "UTC")
    assert found.schema.types == [
        pa.struct([("at", zoned), ("n", pa.int64())]), pa.list_(pa.timestamp("s"))
    ]  # fmt: skip
    at = pc.struct_field(found["e"], "at").cast(pa.timestamp("ms", "UTC")).to_pylist()
    midnight = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    assert at == [midnight, None, midnight + dt.timedelta(milliseconds=500)]
    rows.append({"e": {"at": "soon"}, "l": ["2024-01-02T03:00:00Z"]})
    path.write_text(_lines(rows))
    assert pc.struct_field(read_files([path])["e"], "at")[0].as_py() == rows[0]["e"]["at"]
    assert read_files([path])["l"].to_pylist()[-1] == ["2024-01-02T03:00:00Z"]


@pytest.mark.parametrize("block", [64, 8 << 20])
def test_long_whole_numbers_in_lines_of_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", block)
    path = tmp_path / "a.jsonl"
    names = [(1 << 63) + 1, (1 << 63) + 2, (1 << 64) - 1]
    path.write_text(_lines({"id": name, "x": 0.5} for name in names))
    assert read_files([path]).to_pydict() == {"id": names, "x": [0.5] * 3}
    path.write_text(_lines({"id": name} for name in [*names, 0.5, None, -1]))
    assert read_files([path])["id"].to_pylist() == [*map(float, names), 0.5, None, -1.0]
    path.write_text(_lines({"id": name} for name in [*[-1] * 9, *names]))
    assert read_files([path])["id"].to_pylist()[-1] == float(names[-1])


@pytest.mark.parametrize("block", [128, 8 << 20])
@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("null\n" + '{"a": 1}\n', 1, "null"),
        ("null", 1, "null"),
        ("\ufeff null\n", 1, "null"),
        ("\n \r\n  null\n" + '{"a": 1}\n', 3, "null"),
        ('{"a": 1}\n' * 50 + "null\n" + '{"a": 1}\n' * 50, 51, "null"),
        ('{"a": 1}\n' * 70 + "\nnull", 72, "null"),
        ('{"a": "\\\\"} null\n', 1, "null"),
        ("[1]\n" + '{"a": 1}\n', 1, "array"),
        ('{"a": 1}\n' * 50 + "1\n", 51, "number"),
        ('"a"\n', 1, "string"),
    ],
)
def test_a_line_of_json_that_is_no_object_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int, what: str, block: int
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", block)
    path = tmp_path / "a.jsonl"
    path.write_text(text, newline="")
    said = re.escape(f"line {line}: a value that is no object but {what}")
    with pytest.raises(InvalidInputError, match=said):
        read_files([path])
    with pytest.raises(InvalidInputError, match=said):
        ts.open("memory://").write("x", path)


def test_null_within_objects_of_json_is_a_missing_value(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "} null", "b": null}\n{"a": "\\"} null",\n"b": [{"c":1},\nnull]}\n')
    assert read_files([path]).to_pylist() == [
        {"a": "} null", "b": None},
        {"a": '"} null', "b": [{"c": 1}, None]},
    ]


def test_a_given_type_in_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 1}\n')
    assert read_files([path], types={"n": pa.float32()})["n"].to_pylist() == [1.0]
    path.write_text('{"n": "1"}\n')
    with pytest.raises(InvalidInputError, match="line 1, column 'n': a string is no int64"):
        read_files([path], types={"n": pa.int64()})


def test_text_that_is_missing_by_default_is_text_where_another_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", 8)
    path = tmp_path / "a.csv"
    path.write_text("n\n" + "1\n" * 9 + "NA\n-\n")
    assert read_files([path], missing=("", "-"))["n"].to_pylist()[-2:] == ["NA", None]


def test_a_file_has_the_types_of_the_symbol_it_is_added_to(tmp_path: Path) -> None:
    store = ts.open("memory://")
    texts = {"a": "t,v,s\n2024-01-01 10:00,1.5,x\n", "b": "t,v,s\n2024-01-02,2,07\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "c.jsonl").write_text('{"s": "y", "v": 3, "t": "2024-01-03T00:00:00"}\n')
    (tmp_path / "d.csv").write_text("t,v,s\n2024-01-04,4,y\n2024-01-05,soon,y\n")
    store.write("s", tmp_path / "a.csv", index="t")
    store.append("s", tmp_path / "b.csv")
    store.append("s", tmp_path / "c.jsonl")
    assert store.read("s").to_arrow()["v"].to_pylist() == [1.5, 2.0, 3.0]
    assert store.read("s").to_arrow()["s"].to_pylist() == ["x", "07", "y"]
    with pytest.raises(SchemaMismatchError, match="column 'v' is string, not double"):
        store.append("s", tmp_path / "d.csv")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", b'{"a": true}\n{"a": fal', "line 2"),
        ("a.csv", b"a\ntrue\n\xff", "no text in utf-8"),
        ("a.csv", b"a\ntrue\nx,y", "line 3 has 2 values"),
    ],
)
def test_a_last_line_that_is_cut_short_is_refused_by_write_and_append(
    tmp_path: Path, name: str, text: bytes, said: str
) -> None:
    path, store = tmp_path / name, ts.open("memory://")
    path.write_bytes(text)
    with pytest.raises(InvalidInputError, match=said):
        store.write("x", path)
    store.write("x", {"a": [True]})
    with pytest.raises(InvalidInputError, match=said):
        store.append("x", path)


def test_whole_numbers_between_spaces_are_written(tmp_path: Path) -> None:
    (path := tmp_path / "a.csv").write_text("a, b\n 1, 2\n3,4\n")
    store = ts.open("memory://")
    store.write("x", path)
    store.append("x", path)
    assert store.read("x").to_arrow().to_pydict() == {"a": [1, 3] * 2, "b": [2, 4] * 2}


@pytest.mark.parametrize("block", [8, 8 << 20])
def test_days_between_spaces_become_times_of_the_symbol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", block)
    (path := tmp_path / "a.csv").write_text("a\n 2024-01-02\n2024-01-03\n")
    store, days = ts.open("memory://"), [dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 3)]
    store.write("x", {"a": pa.array(days[:1], pa.timestamp("us"))})
    store.append("x", path)
    assert store.read("x")["a"].to_pylist() == [*days[:1], *days]
    taken = Files([path], stored=store.schema("x").arrow).take(pa.Table.from_batches)
    assert taken["a"].to_pylist() == days


def test_a_value_past_the_type_of_the_symbol_is_refused_once(tmp_path: Path) -> None:
    (path := tmp_path / "a.jsonl").write_text('{"a": 12345678901234567890}\n')
    store = ts.open("memory://")
    store.write("x", {"a": [1]})
    with pytest.raises(InvalidInputError, match="12345678901234567890"):
        store.append("x", path)
    files = Files([path], stored=store.schema("x").arrow)
    with pytest.raises(InvalidInputError, match="12345678901234567890"):
        files.take(pa.Table.from_batches)


def test_a_file_that_never_fits_is_read_twice_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "a.csv").write_text("a\n1\n")

    def unfit(file: CsvFile, schema: pa.Schema) -> Any:
        raise UnfitError(file)

    monkeypatch.setattr(CsvFile, "batches", unfit)
    files = Files([path])
    for read in (lambda: files.take(pa.Table.from_batches), lambda: list(files.settled_rows())):
        with pytest.raises(InvalidInputError, match="does not fit"):
            read()


def test_a_last_line_of_a_wider_type_is_written(tmp_path: Path) -> None:
    for name, text in (("a.jsonl", '{"a": 1}\n{"a": 1.5}'), ("a.csv", "a\n1\n1.5")):
        (path := tmp_path / name).write_text(text)
        store = ts.open("memory://")
        store.write("x", path)
        assert store.read("x").to_arrow().to_pydict() == {"a": [1.0, 1.5]}


@pytest.mark.parametrize(
    ("text", "line"),
    [('a,b\n1,"x\n2,y\n', 2), ('a,b\n1,"x"\n2,"', 3), ('a,"b\n1,2\n', 1), ('a\n"x""\n', 2)],
)
@pytest.mark.parametrize("block", [16, 8 << 20])
def test_a_file_that_ends_within_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int, block: int
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", block)
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=f"line {line} has a quote that is not closed"):
        read_files([path])


@pytest.mark.parametrize("texts", [["2024-01-02", "hello"], ["2024-01-02", "2024-01-03"]])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_date_in_one_file_and_text_in_the_next(
    tmp_path: Path, texts: list[str], swapped: bool
) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    paths[0].write_text("at\n2024-01-01\n2024-01-01\n")
    paths[1].write_text("at\n" + "\n".join(texts))
    paths = paths[::-1] if swapped else paths
    if texts[1] != "hello":
        assert read_files(paths).num_rows == 4
        return
    with pytest.raises(SchemaMismatchError, match="column 'at' is") as caught:
        read_files(paths)
    assert caught.value.detail is not None
    assert caught.value.detail.endswith("b.csv', line 3: 'hello'")
    assert "--type at=string" in str(caught.value)
    assert read_files(paths, types={"at": pa.string()}).num_rows == 4


@pytest.mark.parametrize("form", ["gzip", "bz2", "zstd", None])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl"])
def test_compression_is_known_by_the_first_bytes(
    tmp_path: Path, form: str | None, name: str
) -> None:
    path = tmp_path / name
    text = b'{"a": 1}\n' if name == "a.jsonl" else b"a\n1\n"
    with pa.output_stream(str(path), compression=form) as stream:
        stream.write(text)
    assert read_files([path]).to_pydict() == {"a": [1]}


def test_two_columns_of_one_name_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b,,\n1,2,,\n")
    with pytest.raises(DuplicateColumnError, match=r"a\.csv.*named ''\n.*--skip-lines 1 --columns"):
        read_files([path])
    names = ("a", "b", "c", "d")
    assert read_files([path], skip_lines=1, columns=names).column_names == list(names)


def test_whole_numbers_in_one_file_and_others_in_the_next(tmp_path: Path) -> None:
    for name, text in (("a.csv", "n\n1\n"), ("b.csv", "n\n2.5\n"), ("c.csv", "n\nNA\n")):
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    assert read_files(paths).to_pydict() == {"n": [1.0, 2.5, None]}
    assert Files(paths).take(pa.Table.from_batches, only=0).to_pydict() == {"n": [1.0]}


def test_a_given_type(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n\n1\nx\n")
    assert read_files([path])["n"].to_pylist() == ["1", "x"]
    with pytest.raises(InvalidInputError, match="line 3, column 'n': 'x' is no double"):
        read_files([path], types={"n": pa.float64()})
    with pytest.raises(ColumnNotFoundError, match="'m'"):
        read_files([path], types={"m": pa.float64()})


# --- what cannot be read --------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["3\n", "3,4,5\n"])
def test_half_a_row_is_named_by_its_line(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"x\ny"\n2,z\n' + end)
    with pytest.raises(InvalidInputError, match=r"a\.csv': line 5 has [13] values") as caught:
        read_files([path])
    assert "the header has 2 names" in str(caught.value)


def test_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\n1,é\n".encode("latin-1"))
    with pytest.raises(InvalidInputError, match=r"column 'b' of .* is no text in utf-8"):
        read_files([path])
    assert read_files([path], encoding="latin-1")["b"].to_pylist() == ["é"]


def test_another_encoding_further_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", 64)
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 100 + "1,é\n".encode("latin-1"))
    with pytest.raises(InvalidInputError, match=r"column 'b' of .* is no text in utf-8"):
        read_files([path])


@pytest.mark.parametrize("block", [64, 8 << 20])
def test_a_byte_that_its_encoding_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", block)
    path = tmp_path / "a.csv"
    path.write_bytes(b"a\n" + b"1\n" * 60 + b"x\n" * 60 + b"\x81\n")
    with pytest.raises(InvalidInputError, match="0x81") as refused:
        read_files([path], encoding="cp1252")
    assert "--encoding" in str(refused.value)


def test_thousands_behind_a_sign_that_is_not_ascii(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n\n1’234\n")
    assert read_files([path], thousands="’").to_pydict() == {"n": [1234]}


def test_a_sheet_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"PK")
    with pytest.raises(InvalidInputError, match="save the sheet as CSV"):
        read_files([path])


def test_a_quote_in_the_header_that_is_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"a,b\n' + "1,2\n" * 100_000)
    with pytest.raises(InvalidInputError, match=r"cannot read .*a\.csv"):
        read_files([path])


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.csv"])
def test_an_empty_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    with pytest.raises(InvalidInputError, match="cannot read"):
        read_files([path])


def test_a_file_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n")
    assert read_files([path]).column_names == ["a", "b"]


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,a\n1,2\n")
    with pytest.raises(DuplicateColumnError, match="'a'"):
        read_files([path])


def test_values_between_tabs(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\n1\tx,y\n")
    assert read_files([path]).to_pydict() == {"a": [1], "b": ["x,y"]}


def test_one_file_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", 64)
    path = tmp_path / "a.csv"
    path.write_text("n\n" + "1\n" * 100 + "2.5\n")
    assert len(read_files([path, path])) == 202


# --- as files are found ---------------------------------------------------------------------------


def _written(folder: Path, text: str | bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


_AS_DUCKDB_SNIFFS = {
    "semicolons": "name;at\nx;2024-01-01\ny,z;2024-01-02\n",
    "tabs": "a\tb\n1\tx,y\n",
    "bars": "a|b\n1|x\n2|y\n",
    "a quoted delimiter in the header": '"a,b";c\n1;2\n',
    "marked as UTF-8": "\ufeffa,b\n1,x\n",
    "lines of Windows": "a,b\r\n1,x\r\n2,y\r\n",
    "lines of old Macs": "a,b\r1,x\r2,y\r",
    "empty lines": "a,b\n1,x\n\n2,y\n\n\n",
    "empty lines before the header": "\n\na,b\n1,2\n",
    "quoted numbers": '"a","b"\n"1","2.5"\n"3","4.5"\n',
    "spaces": "a, b\n1, 2\n3, 4\n",
    "codes": "zip,n\n99999,1\n01234,2\n",
    "quoted codes": 'zip,n\n"99999",1\n"01234",2\n',
    "a quote within a value": 'a,b\n5" pipe,1\n6" pipe,2\n',
    "a line break in a value": 'a,b\n"x\ny",1\n',
}


@pytest.mark.parametrize("text", _AS_DUCKDB_SNIFFS.values(), ids=_AS_DUCKDB_SNIFFS.keys())
def test_files_as_they_are_found(tmp_path: Path, text: str) -> None:
    path = _written(tmp_path, text)
    with duckdb.connect() as connection:
        wanted = connection.sql(f"SELECT * FROM read_csv('{path}')").to_arrow_table()
    found = read_files([path])
    assert found.schema.equals(wanted.schema)
    assert found.to_pydict() == wanted.to_pydict()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252", "latin-1", "utf-16-le"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_encodings(tmp_path: Path, encoding: str, suffix: str) -> None:
    text = "é;n\nü;1\n".encode(encoding)
    path = _written(tmp_path, gzip.compress(text) if suffix else text, f"a.csv{suffix}")
    told = {} if encoding in ("utf-16", "utf-8-sig") else {"encoding": encoding}
    assert read_files([path], **told).to_pydict() == {"é": ["ü"], "n": [1]}
    if told:
        with pytest.raises(InvalidInputError, match=r"no text in utf-8|cannot read"):
            read_files([path])
    with pytest.raises(InvalidInputError, match=r"unknown encoding: klingon\n  such as utf-8"):
        read_files([path], encoding="klingon")
    with pytest.raises(InvalidInputError, match=r"cannot read|no text in ascii"):
        read_files([_written(tmp_path, "a\né\n", "b.csv")], encoding="ascii")


def test_decimals_behind_a_comma(tmp_path: Path) -> None:
    path = _written(tmp_path, "a;b\n1,5;x\n;y\n-2,25;z\n")
    found = Files([path])
    assert found.schema.types == [pa.string(), pa.string()]
    assert found.notes == [
        "the delimiter is ';', by the header (--delimiter)",
        "column 'a' is text such as 1,5 (--decimal ,)",
    ]
    assert read_files([path], decimal=",")["a"].to_pylist() == [1.5, None, -2.25]
    with pytest.raises(InvalidInputError, match="cannot lie both"):
        read_files([_written(tmp_path, "a,b\n1,2\n")], decimal=",")
    with pytest.raises(InvalidInputError, match="delimiter is one character"):
        read_files([path], delimiter=";;")


def test_what_lies_between_values_is_told_or_told_to_excel(tmp_path: Path) -> None:
    path = _written(tmp_path, "a:b\n1:2\n")
    assert read_files([path], delimiter=":").to_pydict() == {"a": [1], "b": [2]}
    found = Files([_written(tmp_path, "sep=:\na:b\n1:x\n")])
    assert found.take(pa.Table.from_batches).to_pydict() == {"a": [1], "b": ["x"]}
    assert found.notes == []


def test_files_without_a_header(tmp_path: Path) -> None:
    text = "2024-01-01,1.5,01\n2024-01-02,2.5,2\n"
    path = _written(tmp_path, text)
    assert Files([path]).notes[0] == "the first line is names, such as '2024-01-01' (--no-header)"
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    wanted = {"f0": days, "f1": [1.5, 2.5], "f2": ["01", "2"]}
    assert read_files([path], columns=()).to_pydict() == wanted
    named = read_files([path], columns=("day", "price", "code")).to_pydict()
    assert named == dict(zip(("day", "price", "code"), wanted.values(), strict=True))
    with pytest.raises(InvalidInputError, match="line 1 has 3 values"):
        read_files([path], columns=("day", "price"))
    path.write_text(text + "x,2.5,1\n")
    with pytest.raises(InvalidInputError, match=r"line 3, column 'f0': 'x' is no"):
        read_files([path], columns=(), types={"f0": pa.date32()})


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_digit_of_a_code_is_lost(data: st.DataObject) -> None:
    """Whichever row has the first leading zero: text comes back as it was, or as its number."""
    codes = st.from_regex(r"[0-9]{1,3}", fullmatch=True)
    rows = data.draw(st.lists(st.one_of(codes, st.just("NA")), min_size=1, max_size=60))
    blocks = data.draw(st.sampled_from([16, 64, 8 << 20]))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_kinds, "BLOCK_BYTES", blocks)
        path = _written(Path(folder), "code,n\n" + "".join(f"{row},1\n" for row in rows))
        files = Files([path])
        found = files.take(pa.Table.from_batches)["code"].to_pylist()
    are_codes = any(len(row) > 1 and row.startswith("0") for row in rows)
    assert found == [None if row == "NA" else row if are_codes else int(row) for row in rows]
    assert any("column 'code' is text" in note for note in files.notes) == are_codes


def test_numbers_that_are_given_as_such_may_have_leading_zeros(tmp_path: Path) -> None:
    path = _written(tmp_path, "n,m\n007,12345678901234567890\n")
    assert read_files([path]).to_pydict() == {"n": ["007"], "m": ["12345678901234567890"]}
    types = {"n": pa.int64(), "m": pa.float64()}
    assert read_files([path], types=types).to_pydict() == {"n": [7], "m": [12345678901234567890.0]}
    padded = _written(tmp_path, "n\n  7\n 0x1F\n\n", "b.csv")
    assert read_files([padded])["n"].to_pylist() == [7, 31]


_PIECES = st.lists(
    st.sampled_from(["a", "b c", '"', '""', ",", "\n", "\r\n", '"a"', '"x,y"', '"x\ny"', '"d""q"']),
    max_size=60,
).map("".join)


@given(_PIECES, st.integers(4, 40))
@settings(max_examples=300, deadline=None)
def test_pieces_of_whole_rows_are_what_arrow_reads_at_once(text: str, half: int) -> None:
    """Wherever pieces end: within values, quotes, rows longer than a piece."""
    text = "p,q\n" + text
    types = {"p": pa.string(), "q": pa.string()}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, "a.csv")
        path.write_bytes(text.encode())
        try:
            file = CsvFile(path, FileOptions(missing=()))
            patch.setattr(file_kinds, "BLOCK_BYTES", 2 * half)
            batches = list(file.batches(pa.schema(list(types.items()))))
            found: Any = [list(row.values()) for batch in batches for row in batch.to_pylist()]
        except InvalidInputError as error:
            if "quote that is not closed" in str(error):  # which Arrow takes for the end of a value
                assert text.count('"') % 2
                return
            found = "refused"
    try:
        table = csv.read_csv(
            pa.py_buffer(text.encode()),
            csv.ReadOptions(use_threads=False),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=True),
        )
        expected: Any = [list(row.values()) for row in table.to_pylist()]
    except pa.ArrowInvalid:
        expected = "refused"
    if found == "refused" != expected:  # a stream's rows are no longer than its blocks
        pieces = (bytearray(text[:end].encode()) for end in range(len(text) + 1))
        assert any(end_of_rows(piece, len(piece), ",") is None for piece in pieces)
        assert len(text) >= 2 * half
    else:
        assert found == expected


def test_a_header_without_a_line_break_and_a_row_longer_than_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("a,b")
    assert read_files([tmp_path / "a.csv"]).num_rows == 0
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", 64)
    (tmp_path / "b.csv").write_text("a,b\n1,x\n2," + "y" * 1_000 + "\n3,z\n")
    assert read_files([tmp_path / "b.csv"])["b"].to_pylist() == ["x", "y" * 1_000, "z"]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_pieces_have_all_rows_whichever_are_given_back(
    lengths: list[int], random: random.Random
) -> None:
    text = b"a\n" + b"".join(b"x" * length + b"\n" for length in lengths)
    pieces, held, found = Pieces(pa.BufferReader(text), 8, ",", 1), [], b""
    for piece in pieces:
        found += bytes(piece.rows)
        held.append(piece)
        while held and random.random() < 0.5:
            pieces.give_back(held.pop(random.randrange(len(held))))
    assert found == text


@pytest.mark.parametrize(
    ("text", "skip", "names"),
    [
        ('# of X, "Monday"\n# more, "\n\na,b\n1,x\n2,"y\nz"\n', None, ["a", "b"]),
        ("#\n## two\r\na,b\r\n1,x\r\n2,y\r\n", None, ["a", "b"]),
        ("#id,b\n1,x\n2,y\n", None, ["#id", "b"]),
        ('Report, of "sales\nCreated\n\na,b\n1,x\n2,y\n', 2, ["a", "b"]),
        ("# a,b\n1,x\n2,y\n", 0, ["# a", "b"]),
    ],
)
@pytest.mark.parametrize("block", [64, 8 << 20])
def test_lines_before_the_header(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    skip: int | None,
    names: list[str],
    block: int,
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", block)
    (tmp_path / "a.csv").write_text(text, newline="")
    found = read_files([tmp_path / "a.csv"], skip_lines=skip)
    assert found.column_names == names
    assert found[names[0]].to_pylist() == [1, 2]
    (tmp_path / "bad.csv").write_text(text + "3\n", newline="")
    line = (text + "3\n").count("\n")
    with pytest.raises(InvalidInputError, match=f"line {line} has 1 values"):
        read_files([tmp_path / "bad.csv"], skip_lines=skip)


def test_a_title_is_left_out_as_the_error_says(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Report of sales\nCreated 2024-01-01\n\na,b\n1,x\n")
    with pytest.raises(InvalidInputError, match="if line 4 is the header: --skip-lines 3"):
        read_files([tmp_path / "a.csv"])
    assert read_files([tmp_path / "a.csv"], skip_lines=3).to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    ("rows", "options", "numbers"),
    [
        (['A,"1,234.5"', 'B,"2,345,678"', "C,12"], {}, [1234.5, 2345678.0, 12.0]),
        (['A,"1,234"', 'B,"2,345,678"', "C,-12", "D,"], {}, [1234, 2345678, -12, None]),
        (["A;1.234,5", "B;-2.345.678,25"], {"decimal": ","}, [1234.5, -2345678.25]),
        (['A,"1,234.5"', 'B,"23,45"', "C,12"], {}, None),
    ],
)
def test_the_note_of_numbers_with_thousands_makes_them_numbers(
    tmp_path: Path, rows: list[str], options: dict[str, Any], numbers: list[float] | None
) -> None:
    header = "name;amount" if ";" in rows[0] else "name,amount"
    (tmp_path / "a.csv").write_text("\n".join([header, *rows]))
    files = Files([tmp_path / "a.csv"], FileOptions(**options))
    notes = [note for note in files.notes if "amount" in note]
    if numbers is None:
        assert not notes
        return
    (note,) = notes
    options["thousands"] = re.findall(r"--thousands (.)\)$", note)[0]
    found = read_files([tmp_path / "a.csv"], **options)["amount"]
    assert found.to_pylist() == numbers
    assert found.type == (pa.int64() if isinstance(numbers[0], int) else pa.float64())


@pytest.mark.parametrize("block", [64, 8 << 20])
@pytest.mark.parametrize(
    ("rows", "value", "kind"),
    [
        (["1.5"] * 30 + ["no value"] + ["2"] * 30 + ["?"], "no value", "double"),
        (["1"] * 30 + ["2.5"] * 30 + ["2024-01-01", "?"], "2024-01-01", "double"),
        (["", *["7"] * 60, "?"], "?", "int64"),
        (["2024-01-01"] * 60 + ["?"], "?", "date32[day]"),
        (["x"] + ["1"] * 5 + ["?"], None, None),
    ],
)
def test_the_value_for_which_a_column_is_text_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[str],
    value: str | None,
    kind: str,
    block: int,
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", block)
    (tmp_path / "a.csv").write_text("\n".join(["n,m", *(f"{row},0" for row in rows), ""]))
    files = Files([tmp_path / "a.csv"])
    files.take(list)
    assert files.schema.field("n").type == pa.string()
    if block > 64 and kind is not None:  # then one look says that it is text
        kind = "number"
    if value is None or (block > 64 and rows[0] == "2024-01-01"):
        assert files.notes == []
    else:
        (note,) = files.notes
        told = "'no value'" if value == "no value" else value
        assert note.startswith(f"column 'n' is text: {value!r} is no {kind} (--missing ")
        assert note.endswith((f"--missing {told})", f"--missing '{told}')"))
    if value == "no value":
        missing = ("", "no value", "?")
        found = read_files([tmp_path / "a.csv"], missing=missing)["n"]
        assert found.type == pa.float64()


@pytest.mark.parametrize("block", [64, 8 << 20])
def test_thousands_further_down_and_of_given_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(file_kinds, "BLOCK_BYTES", block)
    (path := tmp_path / "a.csv").write_text(
        "n,code,f,t\n" + "1,7,1e3,1\n" * 40 + "1'234,08,2.5,x\n-1'000'000,1,1'000.5,2\n"
    )
    found = read_files([path], thousands="'")
    ends = found.slice(39).to_pydict()
    assert ends["n"] == [1, 1234, -1_000_000]
    assert ends["code"] == ["7", "08", "1"]
    assert ends["t"] == ["1", "x", "2"]
    assert ends["f"] == [1000.0, 2.5, 1000.5]
    small = read_files([path], thousands="'", types={"n": pa.int32()})
    assert small["n"].type == pa.int32()
    assert pc.sum(small["n"]).as_py() == 40 + 1234 - 1_000_000
    with pytest.raises(InvalidInputError, match=r"line 42, column 't': 'x' is no int64"):
        read_files([path], thousands="'", types={"t": pa.int64()})
    path.write_text('t,d,u\n1700000000,"1,234.50",255\n1700000060,2,0\n')
    types = {"d": pa.decimal128(10, 2), "u": pa.uint8()}
    found = read_files([path], thousands=",", epochs={"t": "epoch"}, types=types)
    assert found.schema.types == [pa.timestamp("s"), types["d"], types["u"]]
    assert found["d"].to_pylist() == [Decimal("1234.50"), Decimal(2)]
    assert found["t"].cast("int64").to_pylist() == [1700000000, 1700000060]
    path.write_text("n\n1\n")
    (other := tmp_path / "b.csv").write_text('n\n"1,234.5"\n')
    assert read_files([path, other], thousands=",")["n"].to_pylist() == [1.0, 1234.5]
    with pytest.raises(InvalidInputError, match="between thousands and before decimals"):
        read_files([path], thousands=".")
