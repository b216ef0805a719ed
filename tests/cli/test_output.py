from __future__ import annotations

import csv
import io
import json
import math

import pyarrow as pa
import pytest
from rich.console import Console

from tessel.cli.output import ArrowOutput, CsvOutput, JsonOutput
from tessel.cli.output_table import TableOutput
from tessel.errors import InvalidInputError

TABLE = pa.table(
    {
        "at": pa.array([1, None], pa.timestamp("ns", "UTC")),
        "took": pa.array([1500, None], pa.duration("ms")),
        "x": pa.array([math.inf, math.nan]),
        "name": pa.array(['say "hi",\nthere', None]).dictionary_encode(),
        "parts": pa.array([[1, None], []], pa.list_(pa.int64())),
    }
)


def test_json_rows() -> None:
    stream = io.StringIO()
    JsonOutput(stream).table(TABLE)
    assert json.loads(stream.getvalue()) == [
        {
            "at": "1970-01-01 00:00:00.000000001Z",
            "took": "1500ms",
            "x": "inf",
            "name": 'say "hi",\nthere',
            "parts": [1, None],
        },
        {"at": None, "took": None, "x": None, "name": None, "parts": []},
    ]


def test_json_of_no_rows_is_an_empty_array() -> None:
    stream = io.StringIO()
    JsonOutput(stream).table(TABLE.slice(0, 0))
    assert json.loads(stream.getvalue()) == []


def test_csv_is_read_back_by_the_standard_library() -> None:
    stream = io.StringIO()
    CsvOutput(stream).table(TABLE)
    assert list(csv.reader(io.StringIO(stream.getvalue()))) == [
        ["at", "took", "x", "name", "parts"],
        ["1970-01-01 00:00:00.000000001Z", "1500ms", "inf", 'say "hi",\nthere', "[1, null]"],
        ["", "", "", "", "[]"],
    ]


def test_arrow_is_the_table_itself() -> None:
    stream = io.BytesIO()
    ArrowOutput(stream).table(TABLE)
    found = pa.ipc.open_stream(stream.getvalue()).read_all()
    assert found.schema == TABLE.schema
    assert str(found) == str(TABLE)


def test_arrow_is_not_printed_on_a_terminal() -> None:
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    with pytest.raises(InvalidInputError, match="not printed on a terminal"):
        ArrowOutput(Terminal())


def _printed(table: pa.Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    TableOutput(console).table(table, title="a title")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_table_for_people() -> None:
    table = pa.table({"count": [1, 1_000, None], "name": ["[bold]a", "b", None], "x": [0.1, 2, 3]})
    lines = [line.rstrip() for line in _printed(table, 80).splitlines()]
    assert lines == [
        "a title",
        "count   name        x",
        "─────────────────────",
        "    1   [bold]a   0.1",
        " 1000   b           2",
        "    -   -           3",
        "3 rows",
    ]


def test_long_tables_show_both_ends() -> None:
    lines = _printed(pa.table({"n": list(range(100))}), 80).splitlines()
    assert [line.strip() for line in lines[3:-1]] == [
        *map(str, range(10)),
        "…",
        *map(str, range(95, 100)),
    ]
    assert lines[-1] == "100 rows, 15 shown"


def test_columns_that_do_not_fit_are_named() -> None:
    wide = pa.table({f"column{number}": [number] for number in range(20)})
    lines = _printed(wide, 60).splitlines()
    assert all(len(line) <= 60 for line in lines[:-1])
    assert "column5" in lines[1]
    assert "column6" not in lines[1]
    assert lines[-1].startswith("1 row · 14 more columns: column6, column7, ")


FACTS = {"symbol": "flights", "rows": 3, "index": None}


def test_facts() -> None:
    text, data = io.StringIO(), io.StringIO()
    console = Console(file=text, width=80, color_system=None)
    TableOutput(console).facts(FACTS)
    assert text.getvalue() == "symbol  flights\nrows    3\nindex   -\n"
    JsonOutput(data).facts(FACTS)
    assert json.loads(data.getvalue()) == FACTS
    binary = io.BytesIO()
    ArrowOutput(binary).facts(FACTS)
    assert pa.ipc.open_stream(binary.getvalue()).read_all().to_pydict() == {
        "name": ["symbol", "rows", "index"],
        "value": ["flights", "3", None],
    }


def test_documents() -> None:
    text, data, lines = io.StringIO(), io.StringIO(), io.StringIO()
    TableOutput(Console(file=text, width=20, color_system=None)).document("a [b] c" * 9, {})
    assert text.getvalue() == "a [b] c" * 9 + "\n"
    JsonOutput(data).document("ignored", {"kept": [1]})
    assert json.loads(data.getvalue()) == {"kept": [1]}
    CsvOutput(lines).document("one\ntwo", {})
    assert lines.getvalue() == "line\none\ntwo\n"
