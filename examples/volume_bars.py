"""Volume bars as a clause: one row each time a given volume has been traded.

A bar begins where the one before ended, so it depends on every row before it: the clause needs
everything in order, `Structure.ALL`. It takes the rows as a stream and holds one open bar, however
long the table is. Time buckets would not do: where a bar ends is in the rows, not in their times.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

import tessel as ts
from tessel.clauses import with_times_of_index


@ts.register
@dataclass(frozen=True)
class VolumeBars(ts.Clause):
    """Open, high, low, close and volume of runs of rows, each of at least ``size`` in volume.

    A row belongs to one bar: the one that it fills. The last bar may hold less. Rows whose price or
    volume is missing trade nothing and are left out. The index is the time at which a bar closed.
    """

    name: ClassVar[str] = "volume_bars"
    price: str
    volume: str
    size: int

    def __post_init__(self) -> None:
        """Refuse a size that no bar could reach."""
        if self.size < 1:
            raise ts.errors.PlanError(f"volume_bars: the size is 1 or more, not {self.size}")

    @property
    def structure(self) -> ts.ClauseInfo:
        """Everything in order in, row slices out; the time index is that of the bars."""
        return ts.ClauseInfo(
            ts.Structure.ALL,
            ts.Structure.ROW_SLICE,
            columns=frozenset([self.price, self.volume]),
            adds=frozenset(["open", "high", "low", "close", "volume"]),
            uses_index=True,
            index=ts.IndexEffect.REPLACE,
        )

    def output_schema(self, input_schema: ts.TableSchema) -> ts.TableSchema:
        """Return the bars; refuse a table without time index, and volumes that are no integers."""
        index = input_schema.index
        if index is None:
            raise ts.errors.IndexColumnError.required(self.name)
        price = input_schema.type_of(self.price)
        if not pa.types.is_integer(input_schema.type_of(self.volume)):
            raise ts.errors.PlanError(
                f"volume_bars adds up whole volumes, and {self.volume!r} is "
                f"{input_schema.type_of(self.volume)}",
                hint="cast it to int64 first",
            )
        prices = [pa.field(name, price) for name in ("open", "high", "low", "close")]
        time = pa.field(index, input_schema.type_of(index))
        return ts.TableSchema(pa.schema([time, *prices, pa.field("volume", pa.int64())]), index)

    def process(self, unit: ts.ProcessingUnit) -> ts.ProcessingUnit:
        """Make the bars of one unit that holds everything."""
        schema = self.output_schema(unit.schema)
        bars = [bar for unit in self.consume([unit], unit.schema) for bar in unit.table.to_pylist()]
        return unit.replace(pa.Table.from_pylist(bars, schema=schema.arrow), index=schema.index)

    def consume(
        self, units: Iterable[ts.ProcessingUnit], schema: ts.TableSchema
    ) -> Iterator[ts.ProcessingUnit]:
        """Give the bars that each unit closes, and the open one at the end."""
        result = self.output_schema(schema)
        bar: dict[str, Any] | None = None
        last: ts.ProcessingUnit | None = None
        for unit in units:
            closed: list[dict[str, Any]] = []
            for row in self._rows(unit):
                bar = _with_row(bar, row, str(schema.index))
                if bar["volume"] >= self.size:
                    closed.append(bar)
                    bar = None
            last = unit
            yield _unit(unit, closed, result)
        if bar is not None and last is not None:
            yield _unit(last, [bar], result)

    def _rows(self, unit: ts.ProcessingUnit) -> Iterator[tuple[Any, Any, int]]:
        """Give time, price and volume of the rows that trade something."""
        kept = unit.filter(
            unit.evaluate(ts.col(self.price).not_missing() & ts.col(self.volume).not_missing())
        )
        # Times as Arrow scalars: what Python calls a time would lose nanoseconds.
        times = kept.column(str(unit.schema.index))
        prices, volumes = (kept.column(name).to_pylist() for name in (self.price, self.volume))
        yield from zip(times, prices, volumes, strict=True)


def _with_row(bar: dict[str, Any] | None, row: tuple[Any, Any, int], index: str) -> dict[str, Any]:
    """Return a bar with one more row: a new one where there is none."""
    time, price, volume = row
    if bar is None:
        bar = {"open": price, "high": price, "low": price, "volume": 0}
    return bar | {
        index: time,
        "high": max(bar["high"], price),
        "low": min(bar["low"], price),
        "close": price,
        "volume": bar["volume"] + volume,
    }


def _unit(
    unit: ts.ProcessingUnit, bars: list[dict[str, Any]], schema: ts.TableSchema
) -> ts.ProcessingUnit:
    """Return bars as a unit at the place of another."""
    columns = {
        field.name: pa.array([bar[field.name] for bar in bars], field.type)
        for field in schema.arrow
    }
    made = unit.replace(pa.table(columns, schema=schema.arrow), index=schema.index)
    return with_times_of_index(made)  # a bar left open may be older than the unit it comes with


if __name__ == "__main__":
    store = ts.open("memory://volume-bars")
    trades = pa.table(
        {
            "at": pa.array(range(0, 90, 10), pa.timestamp("s")),
            "price": [10.0, 10.5, 10.25, 10.75, None, 11.0, 10.5, 10.0, 10.25],
            "qty": [40, 30, 50, 100, 5, 20, 70, 30, 10],
        }
    )
    store.write("trades", trades, index="at")
    query = ts.QueryBuilder().volume_bars("price", "qty", size=100)
    print(store.read("trades", query=query))
    print(store.explain("trades", query))
