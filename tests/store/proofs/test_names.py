"""Names of symbols that mean something to file systems, to shells or to the eye."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tessel.api import Store
from tessel.errors import SymbolNameError, SymbolNotFoundError
from tessel.options import options
from tessel.store.names import object_kind
from tessel.store.objects.local import TEMPORARY

_LONG = "n" * 1_000

HOSTILE = [
    "..",
    ".",
    "../../escape",
    "a/b",
    "a",
    "/etc/passwd",
    "~/.ssh",
    "C:\\Windows\\system32",
    "\\\\host\\share",
    "CON",
    "nul.txt",
    "store.json",
    "log/999999999/998",
    "-rf",
    "--help",
    "$(touch escape)",
    "`touch escape`",
    "%2e%2e%2fescape",
    "a;b",
    "a&b",
    "'quoted'",
    '"quoted"',
    "*",
    "?",
    "[a-z]",
    "x" * 255,
    "x" * 256,
    _LONG,
    _LONG[:-1] + "m",
    "\U0001f600" * 256,  # 1,024 bytes
    "Case",
    "case",
    "CASE",
    "straße",
    "strasse",
    "İ",
    "i",
    "I",
    "ı",
    "é",
    "e\u0301",
    "Å",
    "\u212b",
    "A\u030a",
    "ﬁ",
    "fi",
    "A",
    "А",  # Cyrillic
    "Α",  # Greek
    "price",
    "рrice",  # its first letter is Cyrillic
    "\U0001f642",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u200b",
    "a\u200b",
    " ",
    " a",
    "a ",
    "a.",
    "\u202etxt.exe",
    "\ufeffa",
    "\U0010ffff",
    "null",
    "None",
    "1",
    "01",
    "{}",
    "main",
]

REFUSED: list[Any] = [
    "",
    "\0",
    "a\0b",
    "a\nb",
    "\x7f",
    "\x1b[31m",
    "\x85",
    "\ud800",
    "n" * 1_025,
    "\U0001f600" * 257,
    None,
    7,
    b"bytes",
    ("a",),
]


def _outside(tmp_path: Path) -> set[str]:
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    return {name for name in found if not name.startswith("inside/store")}


def _value(store: Store, name: str, as_of: int | str | None = None) -> list[Any]:
    found: list[Any] = store.read(name, as_of=as_of).to_arrow().column("x").to_pylist()
    return found


def _filled(place: str) -> Store:
    store = Store.open(place)
    with store.transaction() as transaction:
        for number, name in enumerate(HOSTILE):
            transaction.write(name, {"x": [number]}, metadata={"name": name})
    return store


def test_the_names_are_many_that_differ() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE)
    folded = {unicodedata.normalize("NFKC", name).casefold() for name in HOSTILE}
    assert len(folded) < len(HOSTILE) - 8


def test_every_verb_takes_hostile_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path / "beside")
    before = _outside(tmp_path)
    with options(fsync=False, workers=1):
        store = _filled(str(tmp_path / "inside" / "store"))
        store.create_tag("first")
        assert set(store.symbols()) == set(HOSTILE)
        assert store.symbols() == sorted(HOSTILE)
        for number, name in enumerate(HOSTILE):
            _use(store, number, name)
        again = Store.open(store.uri, create=False)
        for number, name in enumerate(HOSTILE):
            assert _value(again, name, "first") == [number]
        assert again.check().damages == []
    assert _outside(tmp_path) <= before | {"inside"}


def _use(store: Store, number: int, name: str) -> None:
    """Change one symbol in every way; no other is touched."""
    assert _value(store, name) == [number]
    assert store.view(name).metadata == {"name": name}
    start = store.version
    store.append(name, {"x": [-1]})
    assert _value(store, name) == [number, -1]
    assert store.versions(name) == [1, start + 1]
    (changed,) = store.diff(start).changed
    assert changed.symbol == name
    store.delete_rows(name, where="x < 0")
    store.compact(name)
    staged = store.stage(name, {"x": [-2]}, task_id=name[:100])
    store.finalize(name, [staged.to_json()], mode="append")
    assert _value(store, name) == [number, -2]
    store.rename_symbol(name, "plain")
    with pytest.raises(SymbolNotFoundError):
        store.read(name)
    found = store.diff(start)
    assert (found.added, found.removed) == (("plain",), (name,))
    store.rename_symbol("plain", name)
    assert _value(store, name) == [number, -2]
    assert _value(store, name, start) == [number]
    store.delete(name)
    assert name not in store.symbols()
    assert store.diff(start).removed == (name,)
    store.revert(start)
    assert _value(store, name) == [number]
    assert not store.diff(start).removed
    assert len(store.symbols()) == len(HOSTILE)


@pytest.mark.parametrize("name", REFUSED, ids=ascii)
def test_what_cannot_name_a_symbol_is_refused_everywhere(name: Any, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    store.write("a", {"x": [1]})
    before = sorted(map(str, tmp_path.rglob("*")))
    verbs: list[Callable[[], Any]] = [
        lambda: store.write(name, {"x": [1]}),
        lambda: store.append(name, {"x": [1]}),
        lambda: store.update(name, {"x": [1]}),
        lambda: store.upsert(name, {"x": [1]}, keys=["x"]),
        lambda: store.delete_rows(name, rows=(0, 0)),
        lambda: store.delete(name),
        lambda: store.rename_symbol("a", name),
        lambda: store.rename_symbol(name, "b"),
        lambda: store.set_metadata(name, {}),
        lambda: store.add_column(name, "y"),
        lambda: store.drop_column(name, "y"),
        lambda: store.rename_columns(name, {"x": "y"}),
        lambda: store.widen(name, {"x": "int64"}),
        lambda: store.compact(name),
        lambda: store.stage(name, {"x": [1]}, task_id="t"),
        lambda: store.finalize(name, []),
        lambda: store.appender(name),
        lambda: store.read(name),
        lambda: store.view(name),
    ]
    if name is not None:
        verbs += [lambda: store.log(name), lambda: store.versions(name)]
    for verb in verbs:
        with pytest.raises(SymbolNameError):
            verb()
    with pytest.raises(SymbolNameError), store.transaction() as transaction:
        transaction.write(name, {"x": [1]})
    assert store.version == 1
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def test_no_file_is_named_by_a_symbol(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with options(fsync=False):
        _filled(str(path))
    names = [file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()]
    names.remove(f"{TEMPORARY}/reserve")
    assert {object_kind(name) for name in names} == {"store", "log", "leaf", "man", "seg"}
