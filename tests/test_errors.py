"""The error tree: as drawn, carried between processes whole, and told in the same words."""

from __future__ import annotations

import builtins
import copy
import difflib
import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel import errors
from tessel.errors import (
    ColumnNotFoundError,
    ExecutionError,
    IndexColumnError,
    MissingDependencyError,
    NameNotFoundError,
    StoreNotFoundError,
    SymbolNotFoundError,
    TesselError,
    VersionNotFoundError,
    nearest,
)
from tests.error_pages import PAGE, page


def descendants(cls: type[TesselError]) -> list[type[TesselError]]:
    return [cls, *(found for child in cls.__subclasses__() for found in descendants(child))]


CLASSES = [cls for cls in descendants(TesselError) if cls.__module__ == "tessel.errors"]
DRAWN = re.compile(
    r"^ {4}(?P<bars>[│├└─ ]*)(?P<name>\w+)(?: \((?P<builtin>\w+)\))?(?: +(?P<kind>[a-z-]+))?$", re.M
)


def test_the_tree_is_drawn_as_it_is():
    tree = errors.__doc__.split("::", 1)[1]
    path: list[str] = []
    drawn = {}
    for match in DRAWN.finditer(tree):
        depth = len(match["bars"]) // 4
        path = [*path[:depth], match["name"]]
        drawn[match["name"]] = (path[-2] if depth else None, match["builtin"], match["kind"])
    actual: dict[str, tuple[str | None, str | None, str | None]] = {
        "TesselError": (None, None, None)
    }
    for cls in CLASSES[1:]:
        parent, *others = cls.__bases__
        builtin = others[0].__name__ if others else None
        actual[cls.__name__] = (parent.__name__, builtin, cls.kind)
    assert drawn == actual


def test_every_class_is_public_and_has_a_kind_of_its_own():
    assert {cls.__name__ for cls in CLASSES} == set(errors.__all__) - {
        "nearest",
        "repeated",
        "shown",
    }
    kinds = [cls.kind for cls in CLASSES]
    assert len(set(kinds)) == len(kinds)
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", kind) for kind in kinds)
    assert all("kind" in vars(cls) for cls in CLASSES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_survives_a_trip_between_processes(cls):
    error = cls("what happened", hint="try this", detail="a > b\n  ^", rows=3, names=["a", "b"])
    error.with_context(clause="filter", symbol=None)
    text = json.dumps(error.to_json())
    for twin in (
        TesselError.from_json(json.loads(text)),
        pickle.loads(pickle.dumps(error)),
        copy.copy(error),
    ):
        assert type(twin) is cls
        assert str(twin) == str(error)
        assert twin.to_json() == error.to_json()
        assert twin.attributes == {"rows": 3, "names": ["a", "b"]}
        assert twin.context == {"clause": "filter"}
        with pytest.raises(cls):
            raise twin


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_is_caught_as_the_builtin_it_is(cls):
    inherited = [base for base in cls.__mro__ if base.__module__ == "builtins"]
    assert Exception in inherited
    if cls is not TesselError:
        assert [base for base in inherited if base not in (Exception, BaseException, object)]
    for base in inherited:
        if base is not object:
            assert getattr(builtins, base.__name__) is base
            with pytest.raises(base):
                raise cls("x")


def test_the_page_of_errors_is_made_of_the_classes():
    assert PAGE.read_text(encoding="utf-8") == page(), "write it anew: python -m tests.error_pages"


def test_the_text_of_an_error():
    error = ExecutionError("it broke", detail="line 1\nline 2", hint="mend it\nor not")
    error.with_context(clause="filter", segment=None).with_context(clause="outer", symbol="flights")
    assert str(error) == (
        "[execution-failed] it broke\n"
        "    line 1\n"
        "    line 2\n"
        "  mend it\n"
        "  or not\n"
        "  in clause: filter\n"
        "  in symbol: flights"
    )


def test_attributes_that_json_has_not_become_text():
    error = TesselError("x", place=complex(1, 2))
    assert error.to_json()["attributes"] == {"place": "(1+2j)"}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "of-a-later-release", "message": "x"},
        {"kind": "tessel", "attributes": [1], "context": "c"},
    ],
)
def test_what_is_not_quite_an_error_becomes_the_root(data):
    error = TesselError.from_json(data)
    assert type(error) is TesselError
    assert error.message == data.get("message", "")
    assert error.attributes == {}
    assert error.context == {}


COLUMNS = ["time_hour", "carrier", "dep_delay"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ColumnNotFoundError.for_name(
                "dep_dealy", COLUMNS, where="'flights' (version 7)", source="dep_dealy > 15"
            ),
            "[column-not-found] no column 'dep_dealy' in 'flights' (version 7)\n"
            "    dep_dealy > 15\n"
            "    ^^^^^^^^^\n"
            "  did you mean 'dep_delay'?   columns: time_hour, carrier, dep_delay",
        ),
        (
            ColumnNotFoundError.for_name("q", [], source="a + q + q", column=8),
            "[column-not-found] no column 'q'\n"
            "    a + q + q\n"
            "            ^\n"
            "  there are no columns",
        ),
        (
            ColumnNotFoundError.for_name("zzz", [f"c{n}" for n in range(10)]),
            "[column-not-found] no column 'zzz'\n"
            "  columns: c0, c1, c2, c3, c4, c5, c6, c7, … (10 in all)",
        ),
        (
            SymbolNotFoundError.for_name("flight", ["flights", "weather"], version=3),
            "[symbol-not-found] no symbol 'flight' in the store at version 3\n"
            "  did you mean 'flights'?   symbols: flights, weather",
        ),
        (
            VersionNotFoundError.for_version(9, newest=4),
            "[version-not-found] no version 9 in the store\n"
            "  versions run from 0 (empty) to 4 (the newest)",
        ),
        (
            NameNotFoundError.for_name("clause", "Filter", ["filter", "head"]),
            "[name-not-found] no clause 'Filter'\n  did you mean 'filter'?   clauses: filter, head",
        ),
        (
            StoreNotFoundError.at("data/x"),
            "[store-not-found] no store at 'data/x'\n"
            "  check the path; open(…, create=True) makes one, as does `tessel import`",
        ),
        (
            IndexColumnError.absent("time", COLUMNS),
            "[index-invalid] the table has no column 'time' to be its index\n"
            "  did you mean 'time_hour'?   columns: time_hour, carrier, dep_delay",
        ),
        (
            MissingDependencyError.for_extra("pyspark", "spark", 'executor="spark"'),
            "[dependency-missing] executor=\"spark\" needs the package 'pyspark', which is not "
            "installed\n"
            '  pip install "tessel[spark]"',
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, TesselError) else "",
)
def test_the_words_of_the_messages(error, text):
    assert str(error) == text


def test_facts_are_attributes_not_only_text():
    error = ColumnNotFoundError.for_name("dep_dealy", COLUMNS)
    assert error.attributes == {"column": "dep_dealy", "existing": COLUMNS, "nearest": "dep_delay"}


def test_nearest():
    assert nearest("CARRIER", COLUMNS) == "carrier"
    assert nearest("A", ["a", "A"]) == "a"
    assert nearest("xyz", COLUMNS) is None
    assert nearest("a", []) is None


@pytest.mark.parametrize(
    "mistyped", ["robot/amr4711", "robot/am4711", "ROBOT/arm4711", "obot/arm4711"]
)
def test_few_of_many_names_are_compared_and_the_nearest_is_found(mistyped, monkeypatch):
    names = [f"robot/arm{number}" for number in range(10_000)]
    compared = []
    ratio = difflib.SequenceMatcher.ratio
    monkeypatch.setattr(
        difflib.SequenceMatcher, "ratio", lambda self: compared.append(self.a) or ratio(self)
    )
    error = NameNotFoundError.for_name("entity", mistyped, names)
    assert error.attributes["nearest"] == "robot/arm4711"
    assert "did you mean 'robot/arm4711'?" in error.hint
    assert len(compared) <= 16  # at 50 µs each: some 2,000 of these names are that similar


@given(st.text(), st.lists(st.text(), max_size=5))
def test_nearest_is_one_of_those_that_exist(name: str, existing: list[str]):
    found = nearest(name, existing)
    assert found is None or found in existing
    if name in existing:
        assert found.casefold() == name.casefold()
