"""Versions, transactions, bad input: every refusal is typed and changes nothing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    FormatVersionError,
    IndexColumnError,
    InvalidInputError,
    NotAStoreError,
    ReadOnlyStoreError,
    SchemaMismatchError,
    StoreNotFoundError,
    SymbolNameError,
    SymbolNotFoundError,
    TesselError,
    UnsortedIndexError,
    UnsupportedTypeError,
    VersionNotFoundError,
)
from tessel.options import options
from tessel.store import Repository, Transaction
from tessel.store.history.documents import seal
from tests.store.helpers import assert_same, read

PRICES = pa.table({"t": pa.array([1, 2, 2, 5], pa.timestamp("s")), "x": [1.0, 2.0, 3.0, 4.0]})
LATER = pa.table({"x": [5.0], "t": pa.array([5], pa.timestamp("s"))})


@pytest.fixture
def repository() -> Repository:
    made = Repository.open("memory://")
    made.write("prices", PRICES, index="t", metadata={"unit": "EUR"})
    return made


# --- versions -------------------------------------------------------------------------------------


def test_every_version_stays_readable(repository: Repository) -> None:
    assert repository.append("prices", LATER) == 2
    assert repository.write("other", {"a": [1]}) == 3
    assert repository.write("prices", PRICES.slice(1, 2), index="t") == 4
    assert repository.delete("prices") == 5

    assert_same(read(repository.view("prices", as_of=1)), PRICES)
    both = pa.concat_tables([PRICES, LATER.select(["t", "x"])])
    assert_same(read(repository.view("prices", as_of=2)), both)
    assert_same(read(repository.view("prices", as_of=3)), both)
    assert_same(read(repository.view("prices", as_of=4)), PRICES.slice(1, 2))
    assert repository.view("prices", as_of=3).changed == 2
    assert repository.versions("prices") == [1, 2, 4, 5]
    assert repository.symbols() == ["other"]
    assert repository.symbols(as_of=4) == ["other", "prices"]
    assert repository.newest == 5
    with pytest.raises(SymbolNotFoundError):
        repository.view("prices")
    kinds = [(v.number, v.symbol, v.change, v.rows) for v in repository.log()]
    assert kinds == [
        (5, "prices", "delete", 0),
        (4, "prices", "write", 2),
        (3, "other", "write", 1),
        (2, "prices", "append", 5),
        (1, "prices", "write", 4),
    ]


def test_versions_by_time(repository: Repository) -> None:
    for at in range(6):
        repository.write("n", {"a": [at]})
    for version in repository.log():
        assert repository.view("prices", as_of=version.timestamp).version == version.number
        if version.number > 1:
            just_before = version.timestamp - timedelta(microseconds=1)
            assert repository.view("prices", as_of=just_before).version == version.number - 1
    times = [version.timestamp for version in repository.log()]
    assert all(a > b for a, b in itertools.pairwise(times))
    with pytest.raises(SymbolNotFoundError):
        repository.view("prices", as_of=datetime(2000, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidInputError, match="time zone"):
        repository.view("prices", as_of=datetime(2030, 1, 1))


@pytest.mark.parametrize("version", [2, -1, 10**15])
def test_unknown_versions(repository: Repository, version: int) -> None:
    with pytest.raises(VersionNotFoundError, match=str(version)):
        repository.view("prices", as_of=version)


@pytest.mark.parametrize("version", [True, 1.0, b"main"])
def test_versions_of_another_type(repository: Repository, version: Any) -> None:
    with pytest.raises(InvalidInputError, match="as_of"):
        repository.view("prices", as_of=version)


def test_metadata_come_back_and_belong_to_the_caller(repository: Repository) -> None:
    view = repository.view("prices")
    assert view.metadata == {"unit": "EUR"}
    view.metadata["unit"] = "USD"
    assert repository.view("prices").metadata == {"unit": "EUR"}


def test_column_ids_are_never_used_again(repository: Repository) -> None:
    before = set(repository.view("prices").column_ids.values())
    repository.write("prices", PRICES, index="t")
    assert before.isdisjoint(repository.view("prices").column_ids.values())


def test_many_appends_fold_their_manifests(repository: Repository) -> None:
    for at in range(300):
        repository.append("prices", {"t": pa.array([10 + at], pa.timestamp("s")), "x": [at * 1.0]})
    state = repository.history.newest().snapshot["prices"]
    assert len(state.manifests) <= 3 * 16
    table = read(repository.view("prices"))
    assert table.column("x").to_pylist()[4:] == [at * 1.0 for at in range(300)]
    facts = repository.view("prices").index().statistics.facts("x")
    assert facts.minimum.to_pylist()[1:] == [at * 1.0 for at in range(300)]


def test_a_table_without_rows_gives_its_schema(repository: Repository) -> None:
    repository.write("empty", PRICES.slice(0, 0), index="t")
    view = repository.view("empty")
    assert len(view.index()) == 0
    assert_same(read(view), PRICES.slice(0, 0))
    repository.append("empty", LATER)
    repository.append("empty", LATER.slice(0, 0))
    assert_same(read(repository.view("empty")), LATER.select(["t", "x"]))


# --- transactions ---------------------------------------------------------------------------------


def test_a_transaction_is_one_version(repository: Repository) -> None:
    with repository.transaction("end of day") as transaction:
        transaction.append("prices", LATER)
        transaction.append("prices", LATER)
        transaction.write("new", {"a": [1]})
        transaction.append("new", {"a": [2]})
        transaction.write("gone", {"a": [1]})
        transaction.delete("gone")
    assert transaction.landed == repository.newest == 2
    assert repository.symbols() == ["new", "prices"]
    assert repository.view("prices").row_count == 6
    assert read(repository.view("new")).to_pydict() == {"a": [1, 2]}
    assert {v.message for v in repository.log() if v.number == 2} == {"end of day"}
    with pytest.raises(InvalidInputError, match="ended"):
        transaction.write("late", {"a": [1]})


def test_delete_and_make_anew_in_one_transaction(repository: Repository) -> None:
    with repository.transaction() as transaction:
        transaction.delete("prices")
        transaction.write("prices", {"a": [1]})
    assert read(repository.view("prices")).to_pydict() == {"a": [1]}
    assert read(repository.view("prices", as_of=1)).num_rows == 4


def test_a_block_that_raises_lands_nothing(repository: Repository) -> None:
    transaction = repository.transaction()
    with pytest.raises(SymbolNotFoundError), transaction:
        _delete_twice(transaction)
    assert repository.newest == 1
    assert repository.symbols() == ["prices"]
    with pytest.raises(InvalidInputError, match="ended"):
        transaction.commit()


def _delete_twice(transaction: Transaction) -> None:
    transaction.delete("prices")
    transaction.delete("prices")


def test_a_transaction_without_changes_makes_no_version(repository: Repository) -> None:
    with repository.transaction() as transaction:
        pass
    assert transaction.landed == repository.newest == 1


# --- bad input ------------------------------------------------------------------------------------

BAD_INPUT: dict[str, tuple[Callable[[Repository], Any], type[TesselError], str]] = {
    "unknown symbol": (lambda r: r.append("price", LATER), SymbolNotFoundError, "'prices'"),
    "delete unknown": (lambda r: r.delete("nothing"), SymbolNotFoundError, "'nothing'"),
    "versions unknown": (lambda r: r.versions("price"), SymbolNotFoundError, "did you mean"),
    "no such index": (lambda r: r.write("s", PRICES, index="tt"), IndexColumnError, "'t'"),
    "text index": (
        lambda r: r.write("s", {"a": ["x"]}, index="a"),
        IndexColumnError,
        "type string",
    ),
    "uint64 index": (
        lambda r: r.write("s", {"a": pa.array([1], pa.uint64())}, index="a"),
        IndexColumnError,
        "uint64",
    ),
    "index with nulls": (
        lambda r: r.write("s", {"a": [1, None, 2]}, index="a"),
        IndexColumnError,
        "missing in row 1",
    ),
    "unsorted": (
        lambda r: r.write("s", {"a": [1, 3, 2]}, index="a"),
        UnsortedIndexError,
        "row 2: 2 after 3",
    ),
    "unsorted over batches": (
        lambda r: r.write("s", [{"a": [1, 3]}, {"a": [2]}], index="a"),
        UnsortedIndexError,
        "row 2: 2 after 3",
    ),
    "sort without index": (
        lambda r: r.write("s", PRICES, sort=True),
        InvalidInputError,
        "nothing to sort by",
    ),
    "append before the last time": (
        lambda r: r.append("prices", PRICES.slice(0, 1)),
        UnsortedIndexError,
        "written|write the symbol anew",
    ),
    "append with other columns": (
        lambda r: r.append("prices", {"t": PRICES["t"], "y": PRICES["x"]}),
        SchemaMismatchError,
        "column 'x' is missing",
    ),
    "append with other types": (
        lambda r: r.append("prices", {"t": PRICES["t"], "x": [1, 2, 3, 4]}),
        SchemaMismatchError,
        "column 'x' is int64, not double",
    ),
    "parts that differ": (
        lambda r: r.write("s", [{"a": [1]}, {"a": ["x"]}]),
        SchemaMismatchError,
        "is string, not int64",
    ),
    "no columns": (lambda r: r.write("s", pa.table({})), InvalidInputError, "without columns"),
    "no tables": (lambda r: r.write("s", []), InvalidInputError, "without any tables"),
    "no table": (lambda r: r.write("s", 7), InvalidInputError, "int is no table"),
    "text": (lambda r: r.write("s", "a,b"), InvalidInputError, "no file"),
    "list of numbers": (lambda r: r.write("s", [1]), InvalidInputError, "int is no table"),
    "ragged": (lambda r: r.write("s", {"a": [1], "b": []}), InvalidInputError, "length"),
    "mixed": (lambda r: r.write("s", {"a": [1, "x"]}), InvalidInputError, "one type"),
    "number as column name": (lambda r: r.write("s", {1: [1]}), InvalidInputError, "no text"),
    "two of one name": (
        lambda r: r.write("s", pa.table([[1], [2]], names=["a", "a"])),
        DuplicateColumnError,
        "'a'",
    ),
    "text that is no text": (
        lambda r: r.write("s", {"a": pa.array([b"\xff"]).view(pa.string())}),
        InvalidInputError,
        "UTF8",
    ),
    "metadata": (
        lambda r: r.write("s", {"a": [1]}, metadata={"a": object()}),
        InvalidInputError,
        "JSON",
    ),
    "metadata that change": (
        lambda r: r.write("s", {"a": [1]}, metadata={"a": (1, 2)}),
        InvalidInputError,
        "come back",
    ),
    "pattern": (lambda r: r.symbols("("), InvalidInputError, "regular expression"),
    "empty name": (lambda r: r.write("", {"a": [1]}), SymbolNameError, "1024|1,024"),
    "NUL in a name": (lambda r: r.write("a\0b", {"a": [1]}), SymbolNameError, "control"),
    "long name": (lambda r: r.write("é" * 513, {"a": [1]}), SymbolNameError, "bytes"),
    "lone surrogate": (lambda r: r.write("\ud800", {"a": [1]}), SymbolNameError, "surrogate"),
    "number as name": (lambda r: r.write(7, {"a": [1]}), SymbolNameError, "text"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_refused_and_changes_nothing(repository: Repository, case: str) -> None:
    act, error, text = BAD_INPUT[case]
    with pytest.raises(error, match=text) as caught:
        act(repository)
    assert type(caught.value) is error
    assert repository.newest == 1
    assert repository.symbols() == ["prices"]
    assert_same(read(repository.view("prices")), PRICES)


def test_unknown_columns_of_an_index(repository: Repository) -> None:
    with pytest.raises(ColumnNotFoundError):
        repository.view("prices").index().keep_columns(["y"], clause="c", reason="r")


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.int8()),
        pa.month_day_nano_interval(),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.decimal256(50, 2),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.uuid(),
        pa.list_(pa.map_(pa.string(), pa.int8())),
        pa.struct([("a", pa.decimal256(50, 2))]),
    ],
    ids=str,
)
def test_types_are_refused_by_name(repository: Repository, kind: pa.DataType) -> None:
    schema = pa.schema([("good", pa.int8()), ("bad", kind)])
    reader = pa.RecordBatchReader.from_batches(schema, [])
    with pytest.raises(UnsupportedTypeError, match=re.escape("'bad'")) as caught:
        repository.write("s", reader)
    assert caught.value.attributes["column"] == "bad"
    assert repository.newest == 1


def test_sort_is_stable(repository: Repository) -> None:
    repository.write("s", {"n": [0, 1, 2, 3, 4], "t": [2, 1, 2, 1, 0]}, index="t", sort=True)
    assert read(repository.view("s")).to_pydict() == {"n": [4, 1, 3, 0, 2], "t": [0, 1, 1, 2, 2]}


def test_a_column_of_untyped_nulls_is_appended_to_any(repository: Repository) -> None:
    repository.append("prices", {"t": pa.array([9], pa.timestamp("s")), "x": pa.nulls(1)})
    assert read(repository.view("prices")).column("x").to_pylist()[-1] is None


# --- places ---------------------------------------------------------------------------------------


def _listing(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_golden_listing_of_a_small_store(tmp_path: Path) -> None:
    repository = Repository.open(tmp_path / "deep" / "store")
    repository.write("a", PRICES, index="t")
    with options(segment_rows=2, segment_columns=1):
        repository.write("../b", PRICES, index="t")
    shapes = [
        re.sub(r"[0-9a-f]{32}", "<id>", re.sub(r"seg/[0-9a-f]{2}", "seg/<xx>", name))
        for name in sorted(_listing(tmp_path / "deep" / "store"))
    ]
    assert sorted(shapes) == [
        ".tessel-tmp/reserve",
        "log/999999999/997",
        "log/999999999/998",
        "man/<id>",
        "man/<id>",
        "seg/<xx>/<id>",  # one pack a commit
        "seg/<xx>/<id>",
        "store.json",  # a small index of symbols rides in the log entry
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep"]


@pytest.mark.parametrize("name", ["..", "../../x", "/etc/x", "a/b", "A", "a", "é", ".", "C:\\x"])
def test_hostile_names_stay_names(tmp_path: Path, name: str) -> None:
    repository = Repository.open(tmp_path / "store")
    repository.write(name, {"a": [1]})
    repository.write(name.swapcase() + "2", {"a": [2]})
    assert read(repository.view(name)).to_pydict() == {"a": [1]}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["store"]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_foreign_directory_is_left_as_it_is(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.JPG").write_bytes(b"cat")
    before = _listing(tmp_path)
    with pytest.raises(NotAStoreError, match="photos"):
        Repository.open(tmp_path, read_only=read_only)
    assert _listing(tmp_path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["photos"]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": "zarr"}', seal({"format": "x"})])
def test_a_foreign_store_json_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "store.json").write_bytes(content)
    with pytest.raises(NotAStoreError):
        Repository.open(tmp_path)
    assert _listing(tmp_path) == {"store.json": content}


@pytest.mark.parametrize("version", [[0, 3], [0, 5], [1, 1], [2, 0], [1], [1, 0, 0]])
def test_another_format_version_is_refused(tmp_path: Path, version: list[int]) -> None:
    content = seal({"format": "tessel", "version": version, "id": "0" * 32})
    (tmp_path / "store.json").write_bytes(content)
    with pytest.raises(FormatVersionError, match=r"reads 1\.0"):
        Repository.open(tmp_path)
    assert _listing(tmp_path) == {"store.json": content}


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(NotAStoreError):
        Repository.open(tmp_path / "x")


def test_nothing_is_made_unless_wanted(tmp_path: Path) -> None:
    for arguments in ({"create": False}, {"read_only": True}):
        with pytest.raises(StoreNotFoundError):
            Repository.open(tmp_path / "store", **arguments)
        with pytest.raises(StoreNotFoundError):
            Repository.open("memory://", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_store_writes_nothing(tmp_path: Path) -> None:
    Repository.open(tmp_path).write("s", {"a": [1]})
    before = _listing(tmp_path)
    repository = Repository.open(tmp_path, read_only=True)
    for act in (
        lambda: repository.write("s", {"a": [2]}),
        lambda: repository.append("s", {"a": [2]}),
        lambda: repository.delete("s"),
        repository.transaction,
    ):
        with pytest.raises(ReadOnlyStoreError):
            act()
    assert read(repository.view("s")).to_pydict() == {"a": [1]}
    assert _listing(tmp_path) == before


@pytest.mark.parametrize("uri", ["", "http://x/y", "file://host/path", 7, "a\0b"])
def test_what_names_no_store(uri: Any) -> None:
    with pytest.raises(InvalidInputError):
        Repository.open(uri)


def test_memory_stores_have_names() -> None:
    first = Repository.open("memory://")
    first.write("s", {"a": [1]})
    assert Repository.open(first.uri, create=False).symbols() == ["s"]
    assert Repository.open("memory://").symbols() == []


def test_single_rows_of_a_symbol_in_any_order(tmp_path: Path) -> None:
    repository = Repository.open(tmp_path)
    table = pa.table(
        {
            "t": range(100),
            "text": pa.array([None if n % 5 == 0 else f"v{n % 3}" for n in range(100)]),
            "many": [[n] * (n % 3) for n in range(100)],
            "code": pa.array([f"{n % 4}" for n in range(100)]).dictionary_encode(),
        }
    )
    with options(segment_rows=30, segment_columns=2):
        repository.write("s", table, index="t")
    view = repository.view("s")
    for rows in ([], [0], [99, 0, 31, 31, 29, 30], list(range(100)), [5, 7, 64]):
        found = view.take(rows)
        assert found.to_pydict() == table.take(pa.array(rows, pa.int64())).to_pydict()
        assert view.take(rows, ["many", "t"]).column_names == ["t", "many"]
    for rows in ([-1], [0, 100]):
        with pytest.raises(InvalidInputError, match="has 100 rows and no row"):
            view.take(rows)
    with pytest.raises(ColumnNotFoundError, match="txt"):
        view.take([1], ["txt"])


def test_a_commit_has_metadata_of_its_own() -> None:
    repository = Repository.open("memory://")
    source = {"feed": "a", "lines": [1, 2]}
    with repository.transaction("import", metadata=source) as transaction:
        transaction.write("s", {"a": [1]}, metadata={"unit": "m"})
    repository.append("s", {"a": [2]})
    newest, first = Repository.open(repository.uri).log()
    assert (newest.metadata, first.metadata) == ({}, source)
    assert repository.view("s").metadata == {"unit": "m"}
    with pytest.raises(InvalidInputError, match="plain JSON"):
        repository.transaction(metadata={"a": object()})
