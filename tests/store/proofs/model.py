"""A store as plain dictionaries and lists, and every verb twice: on the store and on those.

The model knows nothing of segments, manifests or logs. A table is a list of rows; a version is a
dictionary of tables. Each verb draws what it needs, asks the store for it, and does the same to the
model in the plainest way there is.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tessel import col

Row = dict[str, Any]
State = dict[str, "Table"]

SYMBOLS = st.sampled_from(["axis", "time", "trades", "s1", "S1", ".."])
_COLUMNS = ("a", "b", "c", "d")
_WHOLE = (pa.int16(), pa.int32(), pa.int64())
_BROKEN = (pa.float32(), pa.float64())
_TYPES = (*_WHOLE, *_BROKEN, pa.string(), pa.bool_())
_VALUES = {
    pa.string(): st.sampled_from(["", "a", "é", "\U0001f642", "long" * 40]),
    pa.bool_(): st.booleans(),
    **{kind: st.integers(-5, 300) for kind in _WHOLE},
    **{kind: st.sampled_from([0.0, -0.0, 0.5, -7.25, math.inf, math.nan]) for kind in _BROKEN},
}


@dataclasses.dataclass
class Table:
    """A symbol: columns in order, rows, the index if it has one, and what is attached."""

    types: dict[str, pa.DataType]
    rows: list[Row]
    index: str | None
    metadata: dict[str, Any]
    stamp: int = 0
    """Another number after everything that was done to the symbol."""
    filled: bool = False
    """Whether rows have got values in a new column since this was copied."""

    def copy(self) -> Table:
        """Return a table that changes apart from this one."""
        rows = [dict(row) for row in self.rows]
        return Table(dict(self.types), rows, self.index, dict(self.metadata), self.stamp)

    @property
    def time(self) -> str:
        """The column of times, which is the index where there is one."""
        return next(iter(self.types))

    def times(self) -> list[int]:
        """Return the times of the rows."""
        return [row[self.time] for row in self.rows]

    def arrow(self) -> pa.Table:
        """Return the table that the store should hold."""
        return frame(self.types, self.rows)

    def free(self) -> list[str]:
        """Return the columns that can go: all but times and keys."""
        return [name for name in self.types if name in _COLUMNS]


def frame(types: dict[str, pa.DataType], rows: list[Row]) -> pa.Table:
    """Return rows as a table."""
    columns = [pa.array([row[name] for row in rows], kind) for name, kind in types.items()]
    return pa.table(columns, names=list(types))


def copied(state: State) -> State:
    """Return a state that changes apart from another."""
    return {name: table.copy() for name, table in state.items()}


class Verbs:
    """Draws changes, and makes them in a store (or a transaction) and in a state alike."""

    def __init__(self) -> None:
        self.serial = 0

    def rows(
        self,
        data: st.DataObject,
        types: dict[str, pa.DataType],
        *,
        low: int,
        high: int,
        most: int,
        ordered: bool,
    ) -> list[Row]:
        """Draw rows; the first column holds times, ``k`` a number that no other row has."""
        time = next(iter(types))
        times = data.draw(st.lists(st.integers(low, high), max_size=most), label="times")
        made = []
        for moment in sorted(times) if ordered else times:
            self.serial += 1
            row: Row = {time: moment, "k": self.serial}
            for name, kind in types.items():
                if name not in row:
                    row[name] = data.draw(st.none() | _VALUES[kind])
            made.append({name: row[name] for name in types})
        return made

    def new_table(self, data: st.DataObject, *, most: int = 12) -> Table:
        """Draw a table of a few columns."""
        kinds = data.draw(st.lists(st.sampled_from(_TYPES), max_size=3))
        types = {"t": pa.int64(), "k": pa.int64(), **dict(zip(_COLUMNS, kinds, strict=False))}
        index = data.draw(st.sampled_from(["t", "t", None]))
        rows = self.rows(data, types, low=0, high=40, most=most, ordered=index is not None)
        return Table(types, rows, index, self.new_metadata(data))

    def new_metadata(self, data: st.DataObject) -> dict[str, Any]:
        """Draw what is attached to a symbol."""
        return data.draw(st.dictionaries(st.sampled_from("pq"), st.integers(0, 3), max_size=2))

    def change(self, data: st.DataObject, target: Any, state: State) -> Any:
        """Make one change of one symbol, and return what the store answered."""
        name = data.draw(SYMBOLS)
        verb = data.draw(st.sampled_from(VERBS)) if name in state else Verbs.write
        self.serial += 1
        stamp = self.serial
        answer = verb(self, data, target, state, name)
        if name in state:
            state[name].stamp = stamp
        return answer

    # --- rows -------------------------------------------------------------------------------------

    def write(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Make a symbol, or replace all of it."""
        state[name] = made = self.new_table(data)
        table, sort = made.arrow(), False
        if made.index is not None and data.draw(st.booleans()):
            order = data.draw(st.permutations(range(len(made.rows))))
            shuffled = [made.rows[at] for at in order]
            made.rows = sorted(shuffled, key=lambda row: row["t"])
            table, sort = frame(made.types, shuffled), True
        return target.write(name, table, index=made.index, sort=sort, metadata=made.metadata)

    def append(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Add rows at the end, with the columns in any order."""
        table = state[name]
        rows = self.later_rows(data, table)
        table.rows += rows
        order = data.draw(st.permutations(list(table.types)))
        return target.append(name, frame(table.types, rows).select(order))

    def later_rows(self, data: st.DataObject, table: Table, *, most: int = 6) -> list[Row]:
        """Draw rows that can go to the end of a table."""
        ordered = table.index is not None
        low = max(table.times(), default=0) if ordered else 0
        return self.rows(data, table.types, low=low, high=low + 6, most=most, ordered=ordered)

    def append_evolving(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Add rows that bring a new column, wider types or narrower ones."""
        table = state[name]
        given, wide = dict(table.types), dict(table.types)
        for column in table.free():
            chain = next((c for c in (_WHOLE, _BROKEN) if given[column] in c), None)
            if chain is not None:
                given[column] = data.draw(st.sampled_from(chain))
                wide[column] = max(given[column], table.types[column], key=chain.index)
        added = [c for c in _COLUMNS if c not in given][: data.draw(st.integers(0, 1))]
        for column in added:
            given[column] = wide[column] = data.draw(st.sampled_from(_TYPES))
        rows = self.later_rows(data, dataclasses.replace(table, types=given))
        table.types = wide
        for row in table.rows:
            row.update(dict.fromkeys(added))
        table.rows += rows
        return target.append(name, frame(given, rows), evolve=("add", "widen"))

    def update(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Replace the rows of a range of times."""
        table = state[name]
        if table.index is None:
            return self.append(data, target, state, name)
        low = data.draw(st.integers(-2, 50))
        high = low + data.draw(st.integers(0, 15))
        rows = self.rows(data, table.types, low=low, high=high, most=5, ordered=True)
        bounds: tuple[int, int] | None = (low, high)
        if rows and data.draw(st.booleans()):
            bounds, low, high = None, rows[0][table.time], rows[-1][table.time]
        times = table.times()
        table.rows[bisect.bisect_left(times, low) : bisect.bisect_right(times, high)] = rows
        return target.update(name, frame(table.types, rows), date_range=bounds)

    def upsert(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Replace rows by key, and add others."""
        table = state[name]
        known: list[Row] = data.draw(st.lists(st.sampled_from(table.rows or [{}]), max_size=4))
        keys = list(dict.fromkeys(row["k"] for row in known if row))
        rows = self.rows(data, table.types, low=0, high=50, most=len(keys) + 3, ordered=False)
        for row, key in zip(rows, keys, strict=False):
            row["k"] = key
            if data.draw(st.booleans()):
                row[table.time] = next(r for r in table.rows if r["k"] == key)[table.time]
        given = frame(table.types, rows)
        places = {row["k"]: at for at, row in enumerate(table.rows)}
        gone: set[int] = set()
        merged: list[Row] = []
        for row in rows:
            at = places.get(row["k"])
            if at is None:
                merged.append(row)
            elif table.index is None or table.rows[at][table.time] == row[table.time]:
                table.rows[at] = row
            else:
                gone.add(at)
                merged.append(row)
        table.rows = [row for at, row in enumerate(table.rows) if at not in gone]
        if table.index is None:
            table.rows += merged
        else:
            for row in sorted(merged, key=lambda row: row[table.time]):
                table.rows.insert(bisect.bisect_right(table.times(), row[table.time]), row)
        return target.upsert(name, given, keys=["k"])

    def delete_rows(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Take rows out by position, by time, or by a condition."""
        table = state[name]
        how = data.draw(st.sampled_from(["rows", "times", "where"]))
        if how == "times" and table.index is not None:
            low = data.draw(st.integers(0, 45))
            high = low + data.draw(st.integers(0, 15))
            table.rows = [row for row in table.rows if not low <= row[table.time] <= high]
            return target.delete_rows(name, date_range=(low, high))
        if how == "where":
            bound = data.draw(st.integers(0, self.serial))
            table.rows = [row for row in table.rows if not row["k"] > bound]
            return target.delete_rows(name, where=col("k") > bound)
        stop = data.draw(st.integers(0, len(table.rows)))
        start = data.draw(st.integers(0, stop))
        del table.rows[start:stop]
        return target.delete_rows(name, rows=(start, stop))

    # --- columns ----------------------------------------------------------------------------------

    def add_column(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Add a column: missing, of one value, or of one value for each row."""
        table = state[name]
        free = [column for column in _COLUMNS if column not in table.types]
        if not free:
            return self.drop_column(data, target, state, name)
        column, kind = data.draw(st.sampled_from(free)), data.draw(st.sampled_from(_TYPES))
        how = data.draw(st.sampled_from(["missing", "one", "each"]))
        value = data.draw(_VALUES[kind])
        values = [data.draw(st.none() | _VALUES[kind]) for _ in table.rows]
        given: Any = {"missing": None, "one": value, "each": values}[how]
        table.types[column] = kind
        table.filled |= bool(table.rows) and how != "missing"
        for row, each in zip(table.rows, values, strict=True):
            row[column] = each if how == "each" else given
        return target.add_column(name, column, given, data_type=kind)

    def drop_column(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Take a column away."""
        table = state[name]
        if not table.free():
            return self.set_metadata(data, target, state, name)
        column = data.draw(st.sampled_from(table.free()))
        del table.types[column]
        for row in table.rows:
            del row[column]
        return target.drop_column(name, column)

    def rename_columns(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Give columns other names, those of one another too, and the index another one."""
        table = state[name]
        others = data.draw(st.permutations(_COLUMNS))
        names = {old: new for old, new in zip(table.free(), others, strict=False) if old != new}
        if data.draw(st.booleans()):
            names[table.time] = "when" if table.time == "t" else "t"
        if not names:
            return self.set_metadata(data, target, state, name)
        if table.index is not None:
            table.index = names.get(table.index, table.index)
        table.types = {names.get(n, n): kind for n, kind in table.types.items()}
        table.rows = [{names.get(n, n): v for n, v in row.items()} for row in table.rows]
        return target.rename_columns(name, names)

    def widen(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Give columns wider types."""
        table = state[name]
        wider: dict[str, pa.DataType] = {}
        for column in table.free():
            kind = table.types[column]
            if kind in (pa.int16(), pa.int32()):
                wider[column] = data.draw(st.sampled_from([pa.int64(), pa.float64()]))
            elif kind == pa.float32():
                wider[column] = pa.float64()
        if not wider:
            return self.append(data, target, state, name)
        table.types.update(wider)
        for row in table.rows:
            for column, kind in wider.items():
                if row[column] is not None and pa.types.is_floating(kind):
                    row[column] = float(row[column])
        return target.widen(name, {column: str(kind) for column, kind in wider.items()})

    # --- symbols ----------------------------------------------------------------------------------

    def delete(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Remove a symbol."""
        del state[name]
        return target.delete(name)

    def rename_symbol(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Give a symbol a name that is free."""
        to = data.draw(SYMBOLS.filter(lambda to: to not in state) if len(state) < 6 else st.none())
        if to is None:
            return self.delete(data, target, state, name)
        state[to] = state.pop(name)
        state[to].stamp = self.serial
        return target.rename_symbol(name, to)

    def set_metadata(self, data: st.DataObject, target: Any, state: State, name: str) -> Any:
        """Replace what is attached to a symbol."""
        state[name].metadata = self.new_metadata(data)
        return target.set_metadata(name, state[name].metadata)


VERBS: list[Callable[..., Any]] = [
    Verbs.write,
    Verbs.append,
    Verbs.append,
    Verbs.append_evolving,
    Verbs.update,
    Verbs.update,
    Verbs.upsert,
    Verbs.delete_rows,
    Verbs.delete_rows,
    Verbs.add_column,
    Verbs.drop_column,
    Verbs.rename_columns,
    Verbs.widen,
    Verbs.delete,
    Verbs.rename_symbol,
    Verbs.set_metadata,
]
