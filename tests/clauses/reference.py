"""An interpreter of chains in plain Python: the whole table at once, a list of values a column.

Written from what the documents say the clauses mean, and sharing no code with them: missing is null
or NaN, positions are list slices, sums are fractions, days are those of ``zoneinfo``.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import statistics
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from tests.strategies.queries import Step, Tree

UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS = {"20min": 1200, "1h": 3600, "90min": 5400}
EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Column:
    """Values as Python has them, instants and dates as integers; ``stored`` if never computed."""

    type: pa.DataType
    values: list[Any]
    stored: bool = True


@dataclass(frozen=True)
class Frame:
    columns: dict[str, Column]
    index: str | None = None

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())).values)

    def keep(self, rows: Sequence[int]) -> Frame:
        kept = {n: replace(c, values=[c.values[r] for r in rows]) for n, c in self.columns.items()}
        return replace(self, columns=kept)

    def select(self, names: Sequence[str]) -> Frame:
        return Frame(
            {n: self.columns[n] for n in names}, self.index if self.index in names else None
        )


def frame_of(table: pa.Table, index: str | None = None) -> Frame:
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        columns[name] = Column(column.type, _python(column))
    return Frame(columns, index)


def _python(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return [v for chunk in column.chunks for v in chunk.view(width).to_pylist()]
    return column.to_pylist()


def run(steps: Sequence[Step], symbols: dict[str, Frame], symbol: str) -> Frame:
    """Return the answer of a chain on a symbol."""
    frame = symbols[symbol]
    for step in steps:
        if step.verb == "concat":
            inner = run(step.arguments["steps"], symbols, step.arguments["symbol"])
            frame = _concat([frame, inner], step.arguments["join"])
        elif step.verb in ("join", "join_asof"):
            from tests.clauses import reference_joins

            arguments = dict(step.arguments)
            other = run(arguments.pop("steps"), symbols, arguments.pop("symbol"))
            frame = getattr(reference_joins, step.verb)(frame, other, **arguments)
        else:
            frame = _VERBS[step.verb](frame, **step.arguments)
    return frame


def comparable(frame: Frame) -> list[tuple[str, pa.DataType, list[Any]]]:
    """Return names, types and values: stored floats as bits, computed ones with one missing."""
    return [
        (name, c.type, [_comparable(value, c) for value in c.values])
        for name, c in frame.columns.items()
    ]


def _comparable(value: Any, column: Column) -> Any:
    if not isinstance(value, float):
        return value
    if column.stored:
        return struct.pack("<d", value)
    return None if math.isnan(value) else value + 0.0  # −0.0 and 0.0 are one value


def comparable_table(table: pa.Table, like: Frame) -> list[tuple[str, pa.DataType, list[Any]]]:
    """Return a found table in the form of `comparable`."""
    found = frame_of(table)
    stored = {name: c.stored for name, c in like.columns.items()}
    columns = {n: replace(c, stored=stored.get(n, True)) for n, c in found.columns.items()}
    return comparable(Frame(columns))


# --- expressions ----------------------------------------------------------------------------------


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: None if any(map(is_missing, values)) else function(*values)


def _divide(a: float, b: float) -> float | None:
    if b:
        return a / b
    return None if a == 0 else math.copysign(math.inf, a)


def _and(a: Any, b: Any) -> Any:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


_OPERATORS: dict[str, Callable[..., Any]] = {
    "==": _strict(lambda a, b: a == b),
    "!=": _strict(lambda a, b: a != b),
    "<": _strict(lambda a, b: a < b),
    "<=": _strict(lambda a, b: a <= b),
    ">": _strict(lambda a, b: a > b),
    ">=": _strict(lambda a, b: a >= b),
    "between": _strict(lambda a, low, high: low <= a <= high),
    "and": _and,
    "not": _strict(lambda a: not a),
    "or": lambda a, b: _OPERATORS["not"](_and(_OPERATORS["not"](a), _OPERATORS["not"](b))),
    "missing": is_missing,
    "+": _strict(lambda a, b: a + b),
    "*": _strict(lambda a, b: a * b),
    "/": _strict(_divide),
    "when": lambda condition, a, b: a if condition is True else b,
}


def evaluate(tree: Tree, frame: Frame, row: int) -> Any:
    if tree.operator == "column":
        return frame.columns[tree.operands[0]].values[row]
    if tree.operator == "literal":
        return tree.operands[0]
    if tree.operator == "in":
        value = evaluate(tree.operands[0], frame, row)
        return None if is_missing(value) else value in tree.operands[1]
    return _OPERATORS[tree.operator](*(evaluate(each, frame, row) for each in tree.operands))


def _result_type(tree: Tree) -> pa.DataType:
    return {"+": pa.int64(), "when": pa.int64(), "*": pa.float64(), "/": pa.float64()}.get(
        tree.operator, pa.bool_()
    )


# --- verbs ----------------------------------------------------------------------------------------


def _filter(frame: Frame, condition: Tree) -> Frame:
    return frame.keep([r for r in range(frame.rows) if evaluate(condition, frame, r) is True])


def _apply(frame: Frame, name: str, value: Tree) -> Frame:
    values = [evaluate(value, frame, r) for r in range(frame.rows)]
    columns = dict(frame.columns) | {name: Column(_result_type(value), values, stored=False)}
    return Frame(columns, None if frame.index == name else frame.index)


def _rename(frame: Frame, columns: dict[str, str]) -> Frame:
    renamed = {columns.get(n, n): c for n, c in frame.columns.items()}
    return Frame(renamed, None if frame.index is None else columns.get(frame.index, frame.index))


def _row_range(frame: Frame, start: int | None, stop: int | None) -> Frame:
    return frame.keep(range(frame.rows)[start:stop])


def _tail(frame: Frame, n: int) -> Frame:
    return frame.keep(range(frame.rows)[max(0, frame.rows - n) if n >= 0 else -n :])


def _instant(local: dt.datetime, kind: pa.DataType) -> int:
    """Return a local time of the index's zone in the integers of the index."""
    if kind.tz is not None:
        aware = local.replace(tzinfo=ZoneInfo(kind.tz))
        local = aware.astimezone(ZoneInfo("UTC")).replace(tzinfo=None)
    microseconds = (local - EPOCH) // dt.timedelta(microseconds=1)
    return microseconds * UNITS_A_SECOND[kind.unit] // 10**6


def _period(text: str) -> tuple[dt.datetime, dt.datetime | None]:
    """Return where the period that text names starts and ends; an instant has no end."""
    start = dt.datetime.fromisoformat(text)
    lengths = {10: dt.timedelta(days=1), 13: dt.timedelta(hours=1), 16: dt.timedelta(minutes=1)}
    return start, start + lengths[len(text)] if len(text) in lengths else None


def _date_range(frame: Frame, start: str | None, end: str | None, closed: str) -> Frame:
    assert frame.index is not None
    kind, values = frame.columns[frame.index].type, frame.columns[frame.index].values

    def after_start(value: int) -> bool:
        if start is None:
            return True
        first, past = _period(start)
        if closed in ("both", "left"):
            return value >= _instant(first, kind)
        return value > _instant(first, kind) if past is None else value >= _instant(past, kind)

    def before_end(value: int) -> bool:
        if end is None:
            return True
        first, past = _period(end)
        if closed in ("left", "neither"):
            return value < _instant(first, kind)
        return value <= _instant(first, kind) if past is None else value < _instant(past, kind)

    return frame.keep([r for r, v in enumerate(values) if after_start(v) and before_end(v)])


# --- aggregates -----------------------------------------------------------------------------------


def _total(values: list[Any]) -> Any:
    if values and isinstance(values[0], float):
        infinite = {v for v in values if math.isinf(v)}
        if infinite:
            return math.nan if len(infinite) == 2 else infinite.pop()
        return float(sum(map(Fraction, values)))
    return sum(values)


def _quotient(total: Any, count: int) -> Any:
    if isinstance(total, float) and not math.isfinite(total):
        return total
    return float(Fraction(total) / count)


def _mean(values: list[Any]) -> Any:
    if isinstance(values[0], float) and not all(map(math.isfinite, values)):
        return _total(values)
    return float(sum(map(Fraction, values)) / len(values))


def _median(values: list[Any]) -> Any:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return float(ordered[middle])
    return _mean(ordered[middle - 1 : middle + 1])


def _variance(values: list[Any]) -> Fraction | None:
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    return statistics.variance(map(Fraction, values))


def _var(values: list[Any]) -> float | None:
    variance = _variance(values)
    if variance is None:
        return None
    try:
        return float(variance)
    except OverflowError:
        return math.inf


def _std(values: list[Any]) -> float | None:
    return None if _variance(values) is None else statistics.stdev(map(Fraction, values))


_AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _total,
    "count": len,
    "nunique": lambda values: len(set(values)),
    "mean": _mean,
    "median": _median,
    "min": min,
    "max": max,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "var": _var,
    "std": _std,
    "any": any,
    "all": all,
}


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _aggregate_type(how: str, kind: pa.DataType) -> pa.DataType:
    if how in ("count", "nunique"):
        return pa.int64()
    if how in ("mean", "median", "var", "std") or (how == "sum" and pa.types.is_floating(kind)):
        return pa.float64()
    if how == "sum":
        return pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()
    return _plain(kind)


def _aggregated(
    frame: Frame, groups: list[list[int]], aggregates: dict[str, tuple[str | None, str]]
) -> dict[str, Column]:
    made = {}
    for output, (name, how) in aggregates.items():
        if name is None:
            made[output] = Column(pa.int64(), [len(rows) for rows in groups], stored=False)
            continue
        column, results = frame.columns[name], []
        for rows in groups:
            present = [column.values[r] for r in rows if not is_missing(column.values[r])]
            of_none = {"sum": 0, "count": 0, "nunique": 0}.get(how)
            results.append(_AGGREGATES[how](present) if present else of_none)
        made[output] = Column(_aggregate_type(how, column.type), results, stored=False)
    return made


def _key(value: Any) -> Any:
    if is_missing(value):
        return None
    return value + 0.0 if isinstance(value, float) else value


def _groupby(
    frame: Frame,
    keys: list[str],
    aggregates: dict[str, tuple[str | None, str]],
    sort: bool,
    drop_missing: bool,
) -> Frame:
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in range(frame.rows):
        key = tuple(_key(frame.columns[name].values[row]) for name in keys)
        if not (drop_missing and None in key):
            groups.setdefault(key, []).append(row)
    order = list(groups)
    if sort:
        order.sort(key=lambda key: [(v is None, 0 if v is None else v) for v in key])
    columns = {
        name: Column(_plain(frame.columns[name].type), [key[at] for key in order], stored=False)
        for at, name in enumerate(keys)
    }
    return Frame(columns | _aggregated(frame, [groups[key] for key in order], aggregates))


def _agg(frame: Frame, aggregates: dict[str, tuple[str | None, str]]) -> Frame:
    return Frame(_aggregated(frame, [list(range(frame.rows))], aggregates))


def _resample(
    frame: Frame,
    rule: str,
    aggregates: dict[str, tuple[str | None, str]],
    closed: str,
    label: str,
    by: list[str],
    drop_missing: bool,
    origin: str,
    empty: str,
) -> Frame:
    assert frame.index is not None
    times = frame.columns[frame.index]
    rule_of = _Rule(rule, times.type, times.values, closed, origin)
    groups: dict[tuple[Any, ...], dict[int, list[int]]] = {}
    for row, value in enumerate(times.values):
        key = tuple(_key(frame.columns[name].values[row]) for name in by)
        if not (drop_missing and None in key):
            groups.setdefault(key, {}).setdefault(rule_of.bucket(value), []).append(row)
    cells = []
    for key, buckets in groups.items():
        number = min(buckets)
        while number <= max(buckets):
            if empty != "omit" or number in buckets:
                cells.append((number, key))
            number = rule_of.following(number)
    cells.sort(key=lambda cell: (cell[0], [(v is None, 0 if v is None else v) for v in cell[1]]))
    rows = [groups[key].get(number, []) for number, key in cells]
    made = _aggregated(frame, rows, aggregates)
    for column in made.values() if empty in ("null", "ffill") else ():
        latest: dict[tuple[Any, ...], Any] = {}
        for at, (_, key) in enumerate(cells):
            if rows[at]:
                latest[key] = column.values[at]
            column.values[at] = latest[key] if rows[at] or empty == "ffill" else None
    labels = [
        rule_of.edge(rule_of.following(number) if label == "right" else number)
        for number, _ in cells
    ]
    columns = {frame.index: Column(times.type, labels, stored=False)}
    for at, name in enumerate(by):
        kind = _plain(frame.columns[name].type)
        columns[name] = Column(kind, [key[at] for _, key in cells], stored=False)
    return Frame(columns | made, frame.index)


class _Rule:
    """Buckets one value at a time: elapsed ones by number, others by the ordinal of a date."""

    def __init__(
        self, rule: str, kind: pa.DataType, values: list[int], closed: str, origin: str
    ) -> None:
        self._rule, self._kind, self._closed = rule, kind, closed
        self._second = UNITS_A_SECOND[kind.unit]
        self._width = SECONDS.get(rule, 0) * self._second
        ends = {"epoch": [0], "start": values[:1], "end": values[-1:]}[origin]
        self._origin = ends[0] if ends else 0

    def bucket(self, value: int) -> int:
        value -= self._closed == "right"
        if self._width:
            return (value - self._origin) // self._width
        at = EPOCH.replace(tzinfo=ZoneInfo("UTC")) + dt.timedelta(seconds=value // self._second)
        day = at.astimezone(ZoneInfo(self._kind.tz or "UTC")).date()
        back = {"1D": 0, "W": day.weekday(), "MS": day.day - 1}[self._rule]
        return day.toordinal() - back

    def following(self, number: int) -> int:
        if self._width:
            return number + 1
        day = dt.date.fromordinal(number)
        longest = {"1D": 1, "W": 7, "MS": 31}[self._rule]
        later = day + dt.timedelta(longest)
        return (later if self._rule != "MS" or later.day == 1 else later.replace(day=1)).toordinal()

    def edge(self, number: int) -> int:
        if self._width:
            return number * self._width + self._origin
        return _instant(dt.datetime.combine(dt.date.fromordinal(number), dt.time()), self._kind)


# --- concat ---------------------------------------------------------------------------------------


def _common_type(kinds: list[pa.DataType]) -> pa.DataType:
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    plain = [_plain(kind) for kind in kinds]
    if pa.types.is_timestamp(plain[0]):
        unit = max((kind.unit for kind in plain), key=lambda u: UNITS_A_SECOND[u])
        zones = {kind.tz for kind in plain}
        return pa.timestamp(unit, zones.pop() if len(zones) == 1 else "UTC")
    if all(kind == plain[0] for kind in plain):
        return plain[0]
    return pa.from_numpy_dtype(np.result_type(*(kind.to_pandas_dtype() for kind in plain)))


def _converted(column: Column, kind: pa.DataType) -> Column:
    values = column.values
    if pa.types.is_timestamp(kind):
        scale = UNITS_A_SECOND[kind.unit] // UNITS_A_SECOND[column.type.unit]
        values = [None if v is None else v * scale for v in values]
    elif pa.types.is_floating(kind):
        values = [None if v is None else float(v) for v in values]
    return Column(kind, values, stored=column.stored and kind == column.type)


def _concat(frames: list[Frame], join: str) -> Frame:
    names = list(dict.fromkeys(name for frame in frames for name in frame.columns))
    if join == "inner":
        names = [name for name in names if all(name in frame.columns for frame in frames)]
    columns = {}
    for name in names:
        kind = _common_type([f.columns[name].type for f in frames if name in f.columns])
        parts = [
            _converted(f.columns[name], kind)
            if name in f.columns
            else Column(kind, [None] * f.rows)
            for f in frames
        ]
        values = [value for part in parts for value in part.values]
        columns[name] = Column(kind, values, stored=all(part.stored for part in parts))
    return Frame(columns)


def _sort(frame: Frame, by: list[str], descending: list[bool], missing: str) -> Frame:
    def compare(one: int, other: int) -> int:
        for name, downwards in zip(by, descending, strict=True):
            a, b = (_key(frame.columns[name].values[row]) for row in (one, other))
            if a is None or b is None:
                if a is not b:
                    return -1 if (a is None) == (missing == "first") else 1
            elif a != b:
                return -1 if (a < b) != downwards else 1
        return 0

    found = frame.keep(sorted(range(frame.rows), key=functools.cmp_to_key(compare)))
    return found if by[0] == frame.index and not descending[0] else replace(found, index=None)


def _distinct(frame: Frame, columns: list[str], keep: str) -> Frame:
    rows: dict[tuple[Any, ...], list[int]] = {}
    for row in range(frame.rows):
        key = tuple(_key(frame.columns[name].values[row]) for name in columns)
        rows.setdefault(key, []).append(row)
    if keep == "none":
        return frame.keep(sorted(same[0] for same in rows.values() if len(same) == 1))
    return frame.keep(sorted(same[0 if keep == "first" else -1] for same in rows.values()))


def _top_k(frame: Frame, k: int, **keys: Any) -> Frame:
    found = _sort(frame, **keys)
    return found.keep(range(found.rows)[:k])


_VERBS: dict[str, Callable[..., Frame]] = {
    "filter": _filter,
    "apply": _apply,
    "select": lambda frame, columns: frame.select(columns),
    "drop": lambda frame, columns: frame.select([n for n in frame.columns if n not in columns]),
    "rename": _rename,
    "head": lambda frame, n: frame.keep(range(frame.rows)[:n]),
    "tail": _tail,
    "sort": _sort,
    "top_k": _top_k,
    "distinct": _distinct,
    "row_range": _row_range,
    "date_range": _date_range,
    "agg": _agg,
    "groupby": _groupby,
    "resample": _resample,
}
