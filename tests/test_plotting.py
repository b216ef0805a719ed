"""``Result.plot``: the specification of each chart, rows included, and what cannot be drawn.

The specification is what is tested: a stand-in for Altair hands it on as it is. That Altair takes
every one of them is tested with Altair itself where it is installed; elsewhere, that ``plot`` says
so.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import sys
import types
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tessel as ts
from tessel.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    MissingDependencyError,
    NameNotFoundError,
    UnsupportedTypeError,
)
from tessel.plotting import KINDS, MOST_ROWS, Plot

START = dt.datetime(2024, 1, 31, 22, 30, tzinfo=dt.UTC)
PRICES = pa.table(
    {
        "at": pa.array(
            [START + dt.timedelta(hours=n) for n in range(3)], pa.timestamp("us", "Europe/Berlin")
        ),
        "name": ["A", None, "B"],
        "price": [1.5, float("nan"), 2.5],
        "volume": pa.array([1, 2, None], pa.int32()),
    }
)
CLOCK = ["2024-01-31T23:30:00.000", "2024-02-01T00:30:00.000", "2024-02-01T01:30:00.000"]
AT = {"field": "at", "type": "temporal", "title": "at (Europe/Berlin)"}
PRICE = {"field": "price", "type": "quantitative", "title": "price"}
VOLUME = {"field": "volume", "type": "quantitative", "title": "volume"}
NAME = {"field": "name", "type": "nominal", "title": "name"}


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the specification itself for a chart."""
    chart = types.SimpleNamespace(from_dict=lambda specification: specification)
    monkeypatch.setitem(sys.modules, "altair", types.SimpleNamespace(Chart=chart))


def rows_of(chart: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = chart["data"]["values"]
    json.dumps(rows, allow_nan=False)
    return rows


@pytest.mark.usefixtures("stand_in")
class TestCharts:
    def test_a_result_is_drawn_over_its_time_index(self):
        store = ts.open("memory://plots")
        store.write("prices", PRICES, index="at")
        chart = store.read("prices").plot.line(y="price", color="name")
        assert chart == {
            "data": {
                "values": [
                    {"at": CLOCK[0], "name": "A", "price": 1.5},
                    {"at": CLOCK[1], "name": None, "price": None},
                    {"at": CLOCK[2], "name": "B", "price": 2.5},
                ]
            },
            "mark": {"type": "line"},
            "encoding": {"x": AT, "y": PRICE, "color": NAME},
        }

    @pytest.mark.parametrize("kind", ["line", "area", "bar", "point"])
    def test_all_numbers_are_drawn_where_none_is_named(self, kind):
        chart = Plot(PRICES, "at")(kind)
        assert chart["mark"] == {"type": kind}
        assert rows_of(chart) == [
            {"at": CLOCK[0], "column": "price", "value": 1.5},
            {"at": CLOCK[0], "column": "volume", "value": 1},
            {"at": CLOCK[1], "column": "price", "value": None},
            {"at": CLOCK[1], "column": "volume", "value": 2},
            {"at": CLOCK[2], "column": "price", "value": 2.5},
            {"at": CLOCK[2], "column": "volume", "value": None},
        ]
        apart = {"field": "column", "type": "nominal", "sort": ["price", "volume"]}
        beside = {"xOffset": apart} if kind == "bar" else {}
        assert chart["encoding"] == {
            "x": AT,
            "y": {"field": "value", "type": "quantitative", "title": None},
            "color": {**apart, "title": None},
            **beside,
        }

    def test_the_chart_that_suits_is_lines_over_time_and_bars_over_names(self):
        assert Plot(PRICES, "at")()["mark"] == {"type": "line"}
        by_name = Plot(PRICES.select(["name", "price"]))()
        assert by_name["mark"] == {"type": "bar"}
        assert by_name["encoding"]["x"] == {**NAME, "sort": None}  # in the order of the rows
        assert Plot(PRICES, "at")(x="price", y="volume")["encoding"] == {"x": PRICE, "y": VOLUME}

    def test_an_index_that_is_not_among_the_columns_is_none(self):
        chart = Plot(PRICES.select(["name", "price"]), "at").bar()
        assert chart["encoding"]["x"]["field"] == "name"

    def test_one_number_is_enough_where_color_tells_names_apart(self):
        assert Plot(PRICES, "at").line(color="name")["encoding"]["y"] == PRICE

    def test_bins_of_numbers(self):
        chart = Plot(PRICES, "at").hist(bins=7)
        assert chart == {
            "data": {"values": [{"price": 1.5}, {"price": None}, {"price": 2.5}]},
            "mark": {"type": "bar"},
            "encoding": {
                "x": {**PRICE, "bin": {"maxbins": 7}},
                "y": {"aggregate": "count", "type": "quantitative", "title": "rows"},
            },
        }

    def test_counts_of_names_have_no_bins(self):
        encoding = Plot(PRICES, "at").hist("name", color="name")["encoding"]
        assert (encoding["x"], encoding["color"]) == (NAME, NAME)

    def test_columns_whose_names_are_those_of_folded_ones(self):
        table = pa.table({"value": ["x"], "a": [1], "b": [2]})
        assert rows_of(Plot(table).line()) == [
            {"value": "x", "column": "a", "value_": 1},
            {"value": "x", "column": "b", "value_": 2},
        ]

    def test_names_that_would_lead_into_an_object(self):
        table = pa.table({"a.b": [1], "c[0]": [2]})
        encoding = Plot(table).line()["encoding"]
        assert [encoding[axis]["field"] for axis in "xy"] == ["a\\.b", "c\\[0\\]"]
        assert [encoding[axis]["title"] for axis in "xy"] == ["a.b", "c[0]"]
        assert rows_of(Plot(table).line()) == [{"a.b": 1, "c[0]": 2}]

    @pytest.mark.parametrize(
        ("values", "kind", "plain"),
        [
            (pa.array([1, None], pa.uint8()), "quantitative", [1, None]),
            (pa.array([1.5, float("-inf")], pa.float32()), "quantitative", [1.5, None]),
            (pa.array([decimal.Decimal("1.5"), None]), "quantitative", [1.5, None]),
            (pa.array([1500, None], pa.duration("ms")), "quantitative", [1.5, None]),
            (pa.array([1, None], pa.date32()), "temporal", ["1970-01-02T00:00:00.000", None]),
            (
                pa.array([-(10**6), None], pa.timestamp("ns")),
                "temporal",
                ["1969-12-31T23:59:59.999", None],
            ),
            (pa.array([True, None]), "nominal", [True, None]),
            (pa.array(["a", None]).dictionary_encode(), "nominal", ["a", None]),
            (pa.array([[1], None]), "nominal", ["[1]", None]),
        ],
        ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
    )
    def test_each_type_is_drawn_as_what_it_is(self, values, kind, plain):
        chart = Plot(pa.table({"x": values, "y": [1, 2]})).point(y="y")
        assert chart["encoding"]["x"]["type"] == kind
        assert [row["x"] for row in rows_of(chart)] == plain

    def test_durations_say_their_unit(self):
        table = pa.table({"x": [1], "took": pa.array([2], pa.duration("s"))})
        assert Plot(table).line()["encoding"]["y"]["title"] == "took (seconds)"

    def test_a_result_without_rows_is_an_empty_chart(self):
        assert rows_of(Plot(PRICES.slice(0, 0), "at").line()) == []


@pytest.mark.usefixtures("stand_in")
class TestWhatCannotBeDrawn:
    @pytest.mark.parametrize("named", [{"x": "prize"}, {"y": "prize"}, {"color": "prize"}])
    def test_a_column_that_does_not_exist(self, named):
        with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
            Plot(PRICES, "at").line(**named)

    def test_a_kind_that_does_not_exist(self):
        with pytest.raises(NameNotFoundError, match="did you mean 'line'"):
            Plot(PRICES, "at")("lin")

    def test_names_upwards(self):
        with pytest.raises(UnsupportedTypeError, match="'price', 'volume'") as caught:
            Plot(PRICES, "at").line(y="name")
        assert caught.value.attributes["column"] == "name"

    @pytest.mark.parametrize(
        "draw",
        [
            lambda: Plot(PRICES.select(["name"])).bar(),
            lambda: Plot(PRICES.select(["name"])).hist(),
            lambda: Plot(pa.table({})).line(),
            lambda: Plot(PRICES, "at").line(y=[]),
            lambda: Plot(PRICES, "at").line(y=["price", "volume"], color="name"),
            lambda: Plot(PRICES, "at").hist(bins=0),
            lambda: Plot(PRICES, "at").hist(bins=2.5),
        ],
        ids=["no-numbers", "no-numbers-to-count", "no-columns", "none", "colours", "bins", "half"],
    )
    def test_what_does_not_go_together(self, draw: Callable[[], Any]):
        with pytest.raises(InvalidInputError):
            draw()

    def test_more_rows_than_a_chart_shows(self):
        table = pa.table({"x": range(MOST_ROWS + 1), "y": range(MOST_ROWS + 1)})
        with pytest.raises(InvalidInputError, match=r"has 5,001 rows, .* takes 5,000") as caught:
            Plot(table).line()
        assert "resample" in str(caught.value)
        assert len(rows_of(Plot(table).line(max_rows=len(table)))) == len(table)


def test_it_says_what_it_can_draw():
    assert repr(Plot(PRICES)) == f"<plot of 3 rows: {', '.join(KINDS)}>"


def test_without_altair_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "tessel\[plot\]"'):
        Plot(PRICES, "at").line()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("color", [None, "name"])
def test_altair_takes_every_specification(kind, color):
    chart = Plot(PRICES, "at")(kind, color=color)
    made = chart.to_dict()  # checks it against the schema of Vega-Lite
    assert made["mark"]["type"] == ("bar" if kind == "hist" else kind)
    (rows,) = made["datasets"].values() if "datasets" in made else (made["data"]["values"],)
    assert len(rows) in (3, 6)
