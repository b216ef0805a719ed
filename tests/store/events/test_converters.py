"""Converters: exact where they say so, applied to every answer, and refused by name."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tessel.errors import (
    ColumnNotFoundError,
    ExecutionError,
    InvalidInputError,
    NameNotFoundError,
    UnsupportedTypeError,
)
from tessel.store.events import (
    Cell,
    Converter,
    LiveStore,
    Row,
    converter_names,
    id_bytes,
    register_converter,
)
from tessel.store.events.converters import Degrees, Radians, Wider, find_converter
from tests.store.events.histories import History

INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]


def telling(kind: pa.DataType) -> list[object]:
    """Return values of a type that a narrower type, or one of another kind, does not hold."""
    if pa.types.is_floating(kind):
        found = np.finfo(kind.to_pandas_dtype())
        return [float(found.max), float(found.tiny), float(1 + found.eps), -0.0, math.inf, None]
    found = np.iinfo(kind.to_pandas_dtype())
    return [int(found.min), int(found.max), int(found.max) - 1, 0, None]


def holds(kind: pa.DataType, values: list[object]) -> bool:
    """Return whether a type holds values exactly: by Python's numbers, which are never rounded."""
    for value in values:
        if value is None:
            continue
        if pa.types.is_floating(kind):
            with np.errstate(over="ignore"):
                held = kind.to_pandas_dtype()(value)
            if not (float(held) == value and math.copysign(1, held) == math.copysign(1, value)):
                return False
        else:
            found = np.iinfo(kind.to_pandas_dtype())
            if not isinstance(value, int) or not found.min <= value <= found.max:
                return False
    return True


@pytest.mark.parametrize("held", [*INTEGERS, *FLOATS], ids=str)
def test_wider_types_are_those_that_hold_every_value(held):
    values = telling(held)
    made = Wider().makes(held)
    expected = {kind for kind in [*INTEGERS, *FLOATS[1:]] if kind != held and holds(kind, values)}
    assert set(made) == expected
    for kind in made:
        assert Wider().convert(pa.array(values, held), kind).to_pylist() == values
    if made and pa.types.is_integer(held):
        assert pa.types.is_signed_integer(made[0]) == pa.types.is_signed_integer(held)
        assert made[0].bit_width == 64


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.bool_(), pa.date32(), pa.list_(pa.int8())], ids=str
)
def test_what_is_no_number_is_not_made_wider(kind):
    assert not Wider().makes(kind)
    assert not Degrees().makes(kind)
    assert not Radians().makes(kind)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_angles_are_those_of_numpy(kind):
    angles = np.random.default_rng(2).normal(0, 10, 1000).astype(kind)
    array = pa.array(angles)
    for converter, oracle in ((Degrees(), np.rad2deg), (Radians(), np.deg2rad)):
        made = converter.convert(array, array.type)
        assert made.type == array.type
        np.testing.assert_array_max_ulp(made.to_numpy(), oracle(angles), maxulp=2)
    assert Degrees().convert(pa.array([None, math.pi]), pa.float64()).to_pylist() == [None, 180.0]


# --- in answers -----------------------------------------------------------------------------------


@register_converter
class Halved(Converter):
    """Numbers by two, as float32 or float64."""

    name = "halved_in_a_test"

    def makes(self, held):
        return [pa.float32(), pa.float64()] if pa.types.is_int64(held) else []

    def convert(self, values, wanted):
        return pc.divide(values.cast(wanted), pa.scalar(2, wanted))


def halved(values: list[int | None] | None) -> list[float | None] | None:
    return None if values is None else [None if v is None else v / 2 for v in values]


def tables(
    live: LiveStore, timeline: str, entity: str, how: object
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Give every kind of table without and with a conversion of its component ``n``."""
    asks = (
        partial(live.range, timeline, 0, 12, entity),
        partial(live.range, timeline, 3, 9, entity, ["n"], include_latest_at_start=True),
        partial(live.table, timeline, entity, origins=True),
        partial(live.table, timeline, entity, at=[3, 5], fill="latest_at"),
        partial(live.latest_at_many, timeline, range(13), entity, "n"),
    )
    for ask in asks:
        yield ask(), ask(convert={"n": how})


@pytest.mark.parametrize("how", ["halved_in_a_test", pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_every_answer_is_converted(seed, how):
    history = History(seed)
    for _ in range(8):
        history.step()
    live, compared = history.store, 0
    kind = pa.float64() if how == pa.float64() else pa.float32()
    for timeline in live.timelines():
        for entity in live.entities():
            if "n" not in live.components(entity):
                continue
            for time in range(13):
                plain = live.latest_at(timeline, time, entity)
                made = live.latest_at(timeline, time, entity, convert={"n": how})
                assert made.keys() == plain.keys()
                for name, found in made.items():
                    if name == "n":
                        assert found.cell.type == kind
                        assert found.cell.to_list() == halved(plain[name].cell.to_list())
                        assert found.event_id == plain[name].event_id
                        compared += 1
                    else:
                        assert found == plain[name]
            for plain_table, table in tables(live, timeline, entity, how):
                assert table.schema.field("n").type == pa.large_list(kind)
                expected = [halved(values) for values in plain_table.column("n").to_pylist()]
                assert table.column("n").to_pylist() == expected
                assert table.drop_columns(["n"]) == plain_table.drop_columns(["n"])
                table.validate(full=True)
    assert compared


@pytest.fixture
def live() -> LiveStore:
    store = LiveStore()
    cells = [Cell.from_values("x", [1.0]), Cell.from_values("count", [7], pa.int32())]
    store.insert(Row(id_bytes(1, 1), "a", {"f": 1}, cells=cells))
    return store


def test_a_type_that_a_component_has_is_left_alone(live):
    assert live.latest_at("f", 1, "a", convert={"x": pa.float64()}) == live.latest_at("f", 1, "a")


def test_a_type_never_changes_what_values_mean(live):
    made = live.latest_at("f", 1, "a", convert={"count": pa.float64(), "x": "degrees"})
    assert made["count"].cell.to_list() == [7.0]
    assert made["x"].cell.to_list() == [180 / math.pi]
    with pytest.raises(NameNotFoundError, match="no converter makes float of double"):
        live.latest_at("f", 1, "a", convert={"x": pa.float32()})


@pytest.mark.parametrize(
    ("convert", "error", "message"),
    [
        ({"x": "degree"}, NameNotFoundError, "degrees"),
        ({"y": "degrees"}, ColumnNotFoundError, "'y'"),
        ({"count": "degrees"}, UnsupportedTypeError, "does not take int32"),
        ({"count": pa.int16()}, NameNotFoundError, "it can become double, int64"),
        ({"x": pa.string()}, NameNotFoundError, "nothing is made of it"),
        ({"x": 7}, InvalidInputError, "name of a converter"),
        ("degrees", InvalidInputError, "give a mapping"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_anything_is_asked(live, convert, error, message):
    for ask in (
        lambda: live.latest_at("f", 1, "a", convert=convert),
        lambda: live.range("f", 1, 1, "a", convert=convert),
        lambda: live.table("f", "a", convert=convert),
    ):
        with pytest.raises(error, match=message):
            ask()
    with pytest.raises(ColumnNotFoundError, match="this question"):
        live.latest_at("f", 1, "a", ["x"], convert={"count": "wider"})


@pytest.mark.parametrize("made", ["fewer", "another", "nothing", "fails"])
def test_a_converter_that_does_not_keep_its_word_is_named(live, made):
    class Bad(Converter):
        name = f"bad_{made}"
        by_name_only = True

        def makes(self, held):
            return [held]

        def convert(self, values, wanted):
            answers = {"fewer": values.slice(1), "another": values.cast(pa.string())}
            return 1 / 0 if made == "fails" else answers.get(made)

    register_converter(Bad)
    with pytest.raises(ExecutionError, match=f"bad_{made}.*component 'x'"):
        live.latest_at("f", 1, "a", convert={"x": f"bad_{made}"})


# --- the registry ---------------------------------------------------------------------------------


def test_what_is_no_converter_is_refused():
    class Nameless(Converter):
        def makes(self, held):
            return []

        def convert(self, values, wanted):
            return values

    class Half(Converter):
        name = "half"

    class Taken(Nameless):
        name = "degrees"

    for wrong, message in (
        (Nameless, "no usable name"),
        (Half, r"Half has no \['convert', 'makes'\]"),
        (Taken, "registered already, by tessel"),
        (int, "no class of converters"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            register_converter(wrong)  # type: ignore[type-var]
    assert {"degrees", "radians", "wider"} <= set(converter_names())
    assert register_converter(Degrees) is Degrees, "a second import is none of another"


MODULE = """
import pyarrow as pa
from tessel.store.events import Converter


class Spelled(Converter):
    name = "spelled_by_a_plug_in"

    def makes(self, held):
        return [pa.string()] if pa.types.is_float64(held) else []

    def convert(self, values, wanted):
        return values.cast(wanted)
"""


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Install a package of one module, as far as Python can tell."""
    name = "tessel_converters_of_a_test"
    (tmp_path / f"{name}.py").write_text(MODULE)
    info = tmp_path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tessel.converters]\n" + request.param)
    monkeypatch.syspath_prepend(str(tmp_path))
    registered = sys.modules["tessel.store.events.converters"]._converters
    monkeypatch.setattr("tessel.store.events.converters._converters", dict(registered))
    monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    return name


GOOD = "spelled_by_a_plug_in = tessel_converters_of_a_test:Spelled\n"


@pytest.mark.parametrize("plug_in", [GOOD], indirect=True)
@pytest.mark.parametrize("how", ["spelled_by_a_plug_in", pa.string()], ids=str)
def test_a_converter_of_a_package_is_found_by_name_and_by_type(plug_in, how, live):
    assert "spelled_by_a_plug_in" in converter_names()
    live.latest_at("f", 1, "a", convert={"x": "degrees", "count": pa.int64()})
    assert plug_in not in sys.modules, "it is imported when it is needed, and not before"
    made = live.latest_at("f", 1, "a", convert={"x": how})
    assert made["x"].cell.to_list() == ["1"]
    assert plug_in in sys.modules


@pytest.mark.parametrize(
    ("plug_in", "name", "message"),
    [
        ("other = tessel_converters_of_a_test:Spelled\n", "other", "promises the converter"),
        ("gone = tessel_converters_of_a_test:Gone\n", "gone", "cannot be imported"),
        ("none = no_such_module_of_a_test:Gone\n", "none", "cannot be imported"),
    ],
    indirect=["plug_in"],
)
def test_a_package_that_does_not_keep_its_word_is_named(plug_in, name, message):
    for _ in range(2):
        with pytest.raises(InvalidInputError, match=message):
            find_converter(name)
