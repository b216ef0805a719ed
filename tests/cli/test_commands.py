"""The commands, run in this process on a small store on disk."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv as pa_csv
from pyarrow import parquet
from typer.testing import CliRunner, Result

import tessel as ts
from tessel.cli.app import app
from tessel.cli.commands.import_files import run_name

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
TIMES = [START + dt.timedelta(hours=hour) for hour in range(6)]
TRADES = pa.table(
    {
        "at": pa.array(TIMES, pa.timestamp("us", "UTC")),
        "name": ["a", "b", "a", None, "b", "a"],
        "size": [1, 2, 3, 4, 5, None],
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with two symbols; ``trades`` was written twice."""
    path = tmp_path / "store"
    store = ts.open(str(path))
    store.write("trades", TRADES.slice(0, 2), index="at")
    store.write("other", TRADES, index="at")
    store.write("trades", TRADES, index="at")
    return path


def _run(arguments: Sequence[object], *, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def _rows(*arguments: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(_run([*arguments, "-o", "json"]).stdout)
    return found


def test_ls(folder: Path) -> None:
    assert _rows("ls", "-s", folder) == [{"symbol": "other"}, {"symbol": "trades"}]
    assert _rows("ls", "-s", folder, "tr*") == [{"symbol": "trades"}]


def test_the_store_may_be_named_by_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSEL_STORE", str(folder))
    assert len(_rows("ls")) == 2


def test_log(folder: Path) -> None:
    entries = _rows("log", "-s", folder)
    assert [entry["number"] for entry in entries] == [3, 2, 1]
    assert {entry["symbol"] for entry in entries if entry["number"] in (1, 3)} == {"trades"}
    assert {entry["change"] for entry in entries} <= {"write", "append"}


def test_versions(folder: Path) -> None:
    rows = _rows("versions", "trades", "-s", folder)
    assert [(row["version"], row["change"], row["message"]) for row in rows] == [
        (1, "write", "write trades"),
        (3, "write", "write trades"),
    ]
    assert all(str(row["timestamp"]).endswith("Z") for row in rows)
    assert "[symbol-not-found]" in _run(["versions", "trdes", "-s", folder], code=3).stderr


def test_show(folder: Path) -> None:
    rows = _rows("show", "trades", "-s", folder)
    assert [row["size"] for row in rows] == [1, 2, 3, 4, 5, None]
    assert [row["size"] for row in _rows("show", "trades", "-s", folder, "--head", 2)] == [1, 2]
    assert len(_rows("show", "trades", "-s", folder, "--as-of", 1)) == 2


def test_show_physical(folder: Path) -> None:
    rows = _rows("show", "trades", "-s", folder, "--physical")
    assert [row["column"] for row in rows] == ["at", "name", "size"]
    at, name, size = rows
    assert (at["encodings"], at["bytes"], at["ratio"]) == ("linear 1", 0, None)
    assert (name["pages"], name["rows"], name["nulls"]) == (1, 6, 1)
    assert (size["type"], size["arrow_bytes"]) == ("int64", 6 * 8 + 1)
    text = _run(["show", "trades", "-s", folder, "--physical"]).stdout
    assert "linear 1" in text


def test_fsck(folder: Path) -> None:
    sound = json.loads(_run(["fsck", "-s", folder, "-o", "json"]).stdout)
    assert (sound["versions"], sound["segments"], sound["damages"]) == (3, 3, [])
    assert "3 segments" in _run(["fsck", "-s", folder]).stdout
    objects = sorted(folder.glob("seg/*/*"), key=lambda path: path.stat().st_mtime_ns)
    damaged = objects[-1]
    data = bytearray(damaged.read_bytes())
    data[0] ^= 1  # the first page that has bytes: of the names
    damaged.write_bytes(data)
    objects[0].unlink()
    report = _run(["fsck", "-s", folder, "-o", "json"], code=5).stdout
    found = json.loads(report)
    assert [(row["version"], row["symbol"]) for row in found] == [(3, "trades"), (2, "trades")]
    assert found[0]["object"].endswith(damaged.name)
    assert "checksum" in found[0]["message"]
    assert "missing" in found[1]["message"]
    assert "2 damaged" in _run(["fsck", "-s", folder], code=5).stdout


def test_show_for_people_and_as_csv(folder: Path) -> None:
    assert "6 rows" in _run(["show", "trades", "-s", folder]).stdout
    text = _run(["show", "trades", "-s", folder, "-o", "csv"]).stdout
    assert list(csv.reader(io.StringIO(text)))[3] == ["2024-01-01 02:00:00.000000Z", "a", "3"]


def test_show_as_arrow(folder: Path) -> None:
    output = _run(["show", "trades", "-s", folder, "-o", "arrow"]).stdout_bytes
    found = pa.ipc.open_stream(output).read_all()
    assert found.replace_schema_metadata(None).equals(TRADES)


def test_query_by_an_expression(folder: Path) -> None:
    rows = _rows("query", "trades", "size > 2 and name == 'a'", "-s", folder)
    assert [row["size"] for row in rows] == [3]


def test_query_by_a_plan(folder: Path, tmp_path: Path) -> None:
    query = ts.QueryBuilder().groupby("name").agg(total=("size", "sum"))
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(query.to_json()), encoding="utf-8")
    rows = _rows("query", "trades", plan, "-s", folder)
    assert rows == [{"name": "a", "total": 4}, {"name": "b", "total": 7}]


def test_explain(folder: Path) -> None:
    text = _run(["explain", "trades", "size > 100", "-s", folder]).stdout
    assert (
        text.strip()
        == str(
            ts.open(str(folder)).explain("trades", ts.QueryBuilder().filter("size > 100"))
        ).strip()
    )
    assert _run(["explain", "trades", "size > 100", "-s", folder, "-o", "json"]).stdout[0] == "{"
    text = _run(["explain", "trades", "size > 2", "-s", folder, "--analyze", "--pages"]).stdout
    assert "clauses as they ran" in text
    assert "pages of 'trades'" in text


def test_import(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "new.csv"
    source.write_text("at,n\n2024-01-02T00:00:00Z,2\n2024-01-01T00:00:00Z,NA\n")
    command = ["import", source, "-s", folder, "--symbol", "new", "--index", "at", "-o", "json"]
    assert json.loads(_run([*command, "--sort"]).stdout) == {
        "symbol": "new",
        "rows": 2,
        "columns": 2,
        "index": "at",
        "version": 4,
    }
    assert [row["n"] for row in _rows("show", "new", "-s", folder)] == [None, 2]


def _dead(folder: Path) -> int:
    asked = ["gc", "--dry-run", "-s", folder, "--minimum-age", "0s", "-o", "json"]
    collected = json.loads(_run(asked).stdout)
    return sum(row["dead"] for row in collected)


def test_a_sorted_import_leaves_no_stages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tessel.store.file_kinds.BLOCK_BYTES", 1 << 12)
    (mixed := folder.parent / "mixed.csv").write_text(
        "a,b\n" + "".join(f"{a * 7919 % 5000},{a}\n" for a in range(5000))
    )
    command = ["import", mixed, "-s", folder, "--symbol", "mixed"]
    before = _dead(folder)
    with ts.options(live_bytes=1 << 16, workers=1):
        _run([*command, "--index", "a", "--sort"])
        assert _dead(folder) == before
        told = _run([*command, "--append", "--sort"], code=4).stderr
    assert "[index-unsorted] what task" in told
    assert "finalize" not in told
    assert _dead(folder) == before
    _run(["fsck", "-s", folder])
    assert ts.open(str(folder)).read("mixed")["a"].to_pylist() == list(range(5000))


def test_numbers_of_rows_are_not_negative(folder: Path) -> None:
    for command in (["query", "trades", "--limit"], ["show", "trades", "--head"]):
        assert "greater than or equal to 0" in _run([*command, "-1", "-s", folder], code=2).stderr


def test_a_tag_is_told_with_the_version_it_names(folder: Path) -> None:
    made = json.loads(_run(["tag", "create", "now", "-s", folder, "-o", "json"]).stdout)
    assert made == _rows("tag", "list", "-s", folder)[0]


def test_a_type_of_a_later_column_that_does_not_fit_names_the_line(folder: Path) -> None:
    """Columns of which no type is given lie before it, so places are those of the header."""
    (bad := folder.parent / "bad.csv").write_text("when,symbol,price\n2010-01-01,a,x\n")
    told = _run(
        ["import", bad, "-s", folder, "--symbol", "b", "--type", "price=float64"], code=4
    ).stderr
    assert "line 2, column 'price': 'x' is no double" in told


def test_an_import_that_is_refused_changes_nothing(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "new.csv"
    source.write_text("at,n\n2024-01-02T00:00:00Z,2\n2024-01-01T00:00:00Z,3\n")
    command = ["import", source, "-s", folder, "--symbol", "new", "--index", "at"]
    for more in ([], ["--dry-run"]):
        assert "[index-unsorted]" in _run([*command, *more], code=4).stderr
    assert ts.open(str(folder)).version == 3


def test_a_dry_run_writes_nothing(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "new.csv"
    source.write_text("n\n1\n")
    result = _run(["import", source, "-s", folder, "--symbol", "new", "--dry-run"])
    assert "none: dry run" in result.stdout
    assert ts.open(str(folder)).symbols() == ["other", "trades"]
    absent = tmp_path / "absent"
    _run(["import", source, "-s", absent, "--symbol", "new", "--dry-run"])
    assert not absent.exists()


def _files(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"part{number}.csv" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def test_each_file_is_a_commit_or_all_are_one(folder: Path, tmp_path: Path) -> None:
    paths = _files(tmp_path, "at,n\n2020/01/01,1\n", "at,n\n2020/01/02,2.5\n")
    command = ["import", *paths, "-s", folder, "--index", "at"]
    _run([*command, "--symbol", "each"])
    _run([*command, "--symbol", "one", "--one-commit"])
    store = ts.open(str(folder))
    assert [len(store.log(symbol)) for symbol in ("each", "one")] == [2, 1]
    assert store.read("each").to_arrow() == store.read("one").to_arrow()
    assert store.read("each").to_arrow()["n"].to_pylist() == [1.0, 2.5]


def test_an_import_goes_on_behind_what_it_wrote(folder: Path, tmp_path: Path) -> None:
    paths = _files(tmp_path, "n,w\n1,a\n", "n,w\n2,b\n", "n,w\n3,c\n4\n")
    command = ["import", *paths, "-s", folder, "--symbol", "new"]
    assert "line 3 has 1 values" in _run(command, code=4).stderr
    store = ts.open(str(folder))
    # What is wrong in the first block is found before anything is written.
    assert "new" not in store.symbols()
    paths[2].write_text("n,w\n3,c\n")
    run = run_name("new", paths)
    store = ts.open(str(folder))
    for at in (1, 2):
        with store.transaction(f"{run} {at}/3") as transaction:
            take = transaction.write if at == 1 else transaction.append
            take("new", {"n": [at], "w": ["ab"[at - 1]]})
    assert json.loads(_run([*command, "--resume", "-o", "json"]).stdout)["rows"] == 1
    assert _rows("query", "new", "n > 0", "-s", folder) == [
        {"n": 1, "w": "a"},
        {"n": 2, "w": "b"},
        {"n": 3, "w": "c"},
    ]
    assert json.loads(_run([*command, "--resume", "-o", "json"]).stdout)["rows"] == 0


def test_rows_are_appended(folder: Path, tmp_path: Path) -> None:
    text = "at,name,size\n2025-01-02T00:00:00Z,z,7\n2025-01-01T00:00:00Z,y,6\n"
    (path,) = _files(tmp_path, text)
    command = ["import", path, "-s", folder, "--symbol", "trades", "--append"]
    types = ["--type", "at=timestamp[us, UTC]"]
    # The text of the error speaks the command line.
    told = _run([*command, *types], code=4).stderr
    assert "[index-unsorted]" in told
    assert "sort=True" not in told
    for dry in (["--dry-run"], []):
        _run([*command, *types, "--sort", *dry])
        sizes = ts.open(str(folder)).read("trades").to_arrow()["size"].to_pylist()
        assert sizes[5:] == ([None] if dry else [None, 6, 7])


def test_an_import_to_a_branch_and_from_standard_input(folder: Path) -> None:
    _run(["branch", "create", "side", "-s", folder])
    command = ["import", "-", "-s", folder, "--symbol", "new", "--branch", "side"]
    outcome = CliRunner().invoke(
        app,
        [*map(str, command), "--index", "t", "--time-format", "epoch"],
        input="t,v\n0,1\n60,2\n",
    )
    assert outcome.exit_code == 0, outcome.output
    assert "new" not in ts.open(str(folder)).symbols()
    found = ts.open(str(folder), branch="side").read("new").to_arrow()
    assert found["t"].to_pylist() == [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 1)]


def test_files_of_later_days_are_added(folder: Path, tmp_path: Path) -> None:
    first, second, bad = _files(
        tmp_path, "t,v\n2024-01-01,1.5\n", "t,v\n2024-01-02,2\n", "t,v\n2024-01-03,x\n"
    )
    command = ["-s", folder, "--symbol", "days", "--index", "t"]
    _run(["import", first, *command])
    _run(["import", second, *command, "--append"])
    assert ts.open(str(folder)).read("days").to_arrow()["v"].to_pylist() == [1.5, 2.0]
    told = _run(["import", bad, *command, "--append"], code=4).stderr
    assert "column 'v' is string, not double" in told
    assert f"'{bad}', line 2: 'x'" in told


def test_an_index_that_is_no_time_names_the_line(folder: Path, tmp_path: Path) -> None:
    (bad,) = _files(tmp_path, "t,v\n2024-01-01,1\n2024-13-45,2\n")
    command = ["import", bad, "-s", folder, "--symbol", "new", "--index"]
    assert f"'{bad}', line 3: '2024-13-45'" in _run([*command, "t"], code=4).stderr
    assert "line" not in _run([*command, "u"], code=4).stderr


@pytest.mark.parametrize("more", [[], ["--sort"], ["--one-commit"]])
def test_files_out_of_order_are_sorted_as_the_error_says(
    folder: Path, tmp_path: Path, more: list[str]
) -> None:
    files = _files(tmp_path, "t,v\n2024-01-02,1\n2024-01-02,1\n", "t,v\n2024-01-01,2\n")
    command = ["import", *files, "-s", folder, "--symbol", "days", "--index", "t"]
    told = _run([*command, *more], code=4).stderr
    assert str(files[1]) in told
    assert ("2024-01-01 before 2024-01-02" if more == ["--sort"] else ", line 2") in told
    (hint,) = re.findall(r"^  (--.*) sorts the rows of all files", told, re.M)
    _run([*command, *hint.split()])
    assert ts.open(str(folder)).read("days")["v"].to_pylist() == [2, 1, 1]


def test_early_rows_are_not_appended_and_the_error_says_what_is(
    folder: Path, tmp_path: Path
) -> None:
    late, early, mixed = files = _files(
        tmp_path, "t,v\n2024-01-03,1\n", "t,v\n2024-01-02,2\n", "t,v\n2024-01-05,3\n2024-01-04,4\n"
    )
    command = ["-s", folder, "--symbol", "days", "--index", "t"]
    _run(["import", late, *command])
    for more in ([], ["--sort"]):
        told = _run(["import", early, *command, "--append", *more], code=4).stderr
        assert str(early) in told
        assert "2024-01-02" in told
        assert "2024-01-03" in told
        assert "anew with --sort --one-commit, without --append" in told
    told = _run(["import", mixed, *command, "--append"], code=4).stderr
    assert f"'{mixed}', line 3" in told
    assert "  --sort sorts the rows first\n" in told
    _run(["import", mixed, *command, "--append", "--sort"])
    _run(["import", *files, *command, "--sort", "--one-commit"])
    assert ts.open(str(folder)).read("days")["v"].to_pylist() == [2, 1, 4, 3]


@pytest.mark.parametrize(
    ("ending", "text", "line", "more"),
    [
        (".csv", "t,v\n1,1\n2,2\n,3\n", 4, []),
        (".csv", "t,v\n1,1\n2,2\n,3\n", 4, ["--time-format", "epoch-ms"]),
        (".csv", 't,v\n2024-01-02,"a\nb"\n\nNA,c\n', 5, []),
        (".csv", "t,v\n2024-01-02,1\n,3\n", 3, ["--sort"]),
        (".jsonl", '{"t": 1}\n\n{"t": null}\n{}\n', 3, []),
    ],
)
def test_a_missing_time_names_the_line(
    folder: Path, tmp_path: Path, ending: str, text: str, line: int, more: list[str]
) -> None:
    (path := tmp_path / f"a{ending}").write_text(text)
    command = ["import", path, "-s", folder, "--symbol", "new", "--index", "t", *more]
    assert f"'{path}', line {line}\n" in _run(command, code=4).stderr


def test_columns_grow_as_the_error_says(folder: Path, tmp_path: Path) -> None:
    first, wider, both = _files(
        tmp_path, "t,v\n2024-01-01,1\n", "t,v,w\n2024-01-02,2,x\n", "t,v,z\n2024-01-03,2.5,true\n"
    )
    command = ["-s", folder, "--symbol", "grown", "--index", "t"]
    _run(["import", first, *command])
    told = _run(["import", wider, *command, "--append"], code=4).stderr
    assert "let them grow with --evolve add," in told
    _run(["import", wider, *command, "--append", "--evolve", "add"])
    told = _run(["import", both, *command, "--append", "--evolve", "add"], code=4).stderr
    assert "let them grow with --evolve flexible," in told
    _run(["import", both, *command, "--append", "--evolve", "flexible"])
    found = ts.open(str(folder)).read("grown").to_arrow()
    assert found["v"].to_pylist() == [1.0, 2.0, 2.5]
    assert found["w"].to_pylist() == [None, "x", None]
    assert found["z"].to_pylist() == [None, None, True]
    for wrong in (["--evolve", "add"], ["--append", "--sort", "--evolve", "add"]):
        assert "--evolve is of rows" in _run(["import", first, *command, *wrong], code=4).stderr
    command[-1] = "v"
    told = _run(["import", first, *command, "--append"], code=4).stderr
    assert "the index of symbol 'grown' is t" in told
    assert len(ts.open(str(folder)).read("grown")) == 3


def test_standard_input_that_ends_early_is_named_so(folder: Path) -> None:
    command = ["import", "-", "-s", str(folder), "--symbol", "new"]
    outcome = CliRunner().invoke(app, command, input="t,v\n0,1\n60")
    assert outcome.exit_code == 4
    assert "cannot read standard input: line 3" in outcome.output
    assert "new" not in ts.open(str(folder)).symbols()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--time-format", "epoch"], "--time-format COLUMN=epoch"),
        (["--time-format", "ISO"], "'ISO' is no time format"),
        (["--format", "xml"], "kinds: csv"),
        (["--type", "n"], "KEY=VALUE"),
        (["--encoding", "utf-99"], "unknown encoding"),
        (["--encoding", "idna"], "in the encoding 'idna'"),
        (["--encoding", "undefined"], "in the encoding 'undefined'"),
        (["--encoding", "utf-16"], "utf-16-le"),
        (["--encoding", "utf-32"], "--encoding, such as"),
        (["--delimiter", "§"], "delimiter cannot be '§'"),
        (["--delimiter", '"'], "delimiter cannot be"),
        (["--decimal", "é"], "decimal cannot be 'é'"),
        (["--decimal", "5"], "decimal cannot be '5'"),
        (["--thousands", "\n"], "thousands cannot be"),
        (["-"], "standard input is read alone"),
    ],
)
def test_options_of_an_import(folder: Path, tmp_path: Path, more: list[str], said: str) -> None:
    (path,) = _files(tmp_path, "n\n1\n")
    assert said in _run(["import", path, "-s", folder, "--symbol", "x", *more], code=4).stderr
    assert "x" not in ts.open(str(folder)).symbols()


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (["show", "trdes"], 3, "symbol-not-found"),
        (["show", "trades", "--as-of", "9"], 3, "version-not-found"),
        (["query", "trades", "szie > 1"], 3, "column-not-found"),
        (["query", "trades", "size >"], 4, "expression-syntax"),
        (["query", "trades", "size > 'a'"], 4, "expression-type"),
        (["query", "trades", "absent.json"], 4, "invalid-input"),
        (["import", "absent.csv", "--symbol", "x"], 4, "invalid-input"),
    ],
)
def test_errors_are_text_and_a_code(
    folder: Path, arguments: list[str], code: int, kind: str
) -> None:
    result = _run([*arguments, "-s", folder], code=code)
    assert result.stdout == ""
    assert result.stderr.startswith(f"[{kind}] ")
    assert "Traceback" not in result.stderr


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    result = _run(["ls", "-s", tmp_path / "absent"], code=3)
    assert "[store-not-found]" in result.stderr
    assert not (tmp_path / "absent").exists()


def test_a_place_that_holds_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    result = _run(["ls", "-s", tmp_path], code=5)
    assert "[not-a-store]" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_debug_lets_the_error_through(folder: Path) -> None:
    result = CliRunner().invoke(app, ["--debug", "show", "trdes", "-s", str(folder)])
    assert isinstance(result.exception, ts.TesselError)


def test_a_wrong_command_line() -> None:
    assert "No such command" in _run(["shwo"], code=2).stderr
    assert "--store" in _run(["ls"], code=2).stderr


def test_version() -> None:
    facts = json.loads(_run(["version", "-o", "json"]).stdout)
    assert facts["tessel"] == "0.1.0"
    assert facts["pyarrow"] == pa.__version__


def test_a_run_is_written_as_a_page_and_a_trace(folder: Path, tmp_path: Path) -> None:
    page, trace = tmp_path / "run.html", tmp_path / "run.json"
    asked = ["explain", "trades", "size > 100", "-s", folder]
    _run([*asked, "--analyze", "--html", page, "--trace", trace])
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert trace.read_text(encoding="utf-8").startswith("[{")
    failed = _run([*asked, "--analyze", "--trace", tmp_path / "absent" / "x"], code=4)
    assert "clauses as they ran" in failed.stdout  # the answer stands all the same
    assert "no file can be written" in failed.stderr
    refused = _run([*asked, "--html", tmp_path / "other.html"], code=4)
    assert "--analyze" in refused.stderr
    assert not (tmp_path / "other.html").exists()


def test_a_query_writes_a_trace_and_answers_all_the_same(folder: Path, tmp_path: Path) -> None:
    trace, asked = (
        tmp_path / "run.json",
        ["query", "trades", "size > 100", "-s", folder, "-o", "csv"],
    )
    plain = _run(asked).stdout
    assert _run([*asked, "--trace", trace]).stdout == plain
    names = {event["name"] for event in json.loads(trace.read_text(encoding="utf-8"))}
    assert "stage.start" in names
    failed = _run([*asked, "--trace", tmp_path / "absent" / "x"], code=4)
    assert failed.stdout == plain
    assert "no file can be written" in failed.stderr


@pytest.mark.parametrize("flag", ["--progress", "--no-progress"])
def test_an_option_switches_the_bar(
    folder: Path, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tessel import progress

    seen: list[bool] = []
    monkeypatch.setattr(progress, "_display", lambda: seen.append(progress.current().progress))
    _run([flag, "query", "trades", "size > 100", "-s", folder])
    assert set(seen) == {flag == "--progress"}


def test_what_an_import_guessed_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("zip;price\n01234;1,5\n")
    command = ["import", tmp_path / "a.csv", "-s", tmp_path / "s", "--symbol", "x", "-o", "json"]
    told = json.loads(_run(command).stdout)["guessed"]
    assert told.split("; ") == [
        "the delimiter is ';', by the header (--delimiter)",
        "column 'zip' is text: numbers lose digits of 01234 (--type zip=int64)",
        "column 'price' is text such as 1,5 (--decimal ,)",
    ]
    more = ["--decimal", ",", "--delimiter", ";", "--type", "zip=int64"]
    assert "guessed" not in json.loads(_run([*command, *more]).stdout)
    store = ts.open(str(tmp_path / "s"))
    assert list(store.read("x")) == [{"zip": 1234, "price": 1.5}]
    (tmp_path / "b.csv").write_text("1\tx\n")
    plain = ["import", tmp_path / "b.csv", "-s", tmp_path / "s", "--symbol", "y"]
    _run([*plain, "--delimiter", "tab", "--no-header"])
    assert list(store.read("y")) == [{"f0": 1, "f1": "x"}]
    _run([*plain, "--delimiter", "tab", "--columns", "n,t"])
    assert list(store.read("y")) == [{"n": 1, "t": "x"}]


@pytest.mark.parametrize("output", ["table", "csv", "arrow", "help"])
def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path, output: str) -> None:
    ts.open(str(tmp_path / "s")).write("x", {"n": list(range(300_000))})
    command = ["show", "x", "-s", str(tmp_path / "s"), "-o", output]
    if output == "help":
        command = ["--help"]
    running = subprocess.Popen(
        [sys.executable, "-m", "tessel", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stderr is not None
    if output != "help":  # help is short: it is written to nobody
        assert running.stdout.read(1)
    running.stdout.close()
    told = running.stderr.read()
    running.stderr.close()
    assert (running.wait(), told) == (0, b"")


@pytest.mark.skipif(os.name == "nt", reason="the shell closes the stream")
@pytest.mark.parametrize("output", ["table", "csv", "json", "arrow"])
def test_a_closed_output_ends_the_command_quietly(folder: Path, output: str) -> None:
    command = [sys.executable, "-m", "tessel", "ls", "-s", str(folder), "-o", output]
    closing = ["sh", "-c", '"$@" >&-', "sh", *command]
    done = subprocess.run(closing, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@pytest.mark.parametrize("form", ["table", "csv", "json", "explain"])
def test_text_that_the_output_cannot_take_is_escaped(tmp_path: Path, form: str) -> None:
    ts.open(str(tmp_path / "s")).write("ünï", {"ä": ["é"]})
    command = ["query", "ünï", "--where", "`ä` != 'ö'", "-s", str(tmp_path / "s"), "-o", form]
    if form == "explain":
        command = ["explain", "ünï", "`ä` != 'ö'", "-s", str(tmp_path / "s")]
    done = subprocess.run(
        [sys.executable, "-m", "tessel", *command],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.stderr == b""
    if form == "json":
        assert json.loads(done.stdout) == [{"ä": "é"}]
    else:
        assert rb"\xe4" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_output_that_cannot_be_written_is_one_error(folder: Path) -> None:
    command = [sys.executable, "-m", "tessel", "show", "trades", "-s", str(folder), "-o", "csv"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("ending", "read"),
    [
        ("parquet", parquet.read_table),
        ("arrow", lambda path: pa.ipc.open_file(str(path)).read_all()),
        ("csv", pa_csv.read_csv),
    ],
)
def test_a_result_is_exported_to_a_file(
    folder: Path, tmp_path: Path, ending: str, read: Callable[[Path], pa.Table]
) -> None:
    path = tmp_path / f"out.{ending}"
    asked = ["export", "trades", "-s", folder, "--where", "size > 3", "--file"]
    told = json.loads(_run([*asked, path, "-o", "json"]).stdout)
    assert told == {"file": str(path), "rows": 2}
    assert read(path)["size"].to_pylist() == [4, 5]
    refused = _run([*asked, path.with_suffix(".xlsx")], code=4)
    assert "files that end in .parquet, .arrow, .feather, .csv are" in refused.stderr


@pytest.mark.parametrize("chosen", [None, "28"])
def test_threads_of_blas_do_not_wait_busily(chosen: str | None) -> None:
    name = "OPENBLAS_THREAD_TIMEOUT"
    environment = {key: value for key, value in os.environ.items() if key != name}
    if chosen is not None:
        environment[name] = chosen
    program = (
        "import atexit, os, sys; from tessel.cli import main; sys.argv = ['tessel', '--version']; "
        f"atexit.register(lambda: print(os.environ['{name}'])); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == (chosen or "20")
