"""Joins in plain Python, for the interpreter of chains: nested loops over lists of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tests.clauses.reference import (
    UNITS_A_SECOND,
    Column,
    Frame,
    _common_type,
    _converted,
    is_missing,
)

NANOSECONDS = UNITS_A_SECOND["ns"]


def join(left: Frame, right: Frame, on: Sequence[tuple[str, str]], how: str, suffix: str) -> Frame:
    """Return rows whose keys are equal, side by side."""
    ours = _keys(left, [one for one, _ in on])
    theirs = _keys(right, [two for _, two in on])
    pairs: list[tuple[int | None, int | None]] = []
    used = set()
    for at, key in enumerate(ours):
        found = [b for b, other in enumerate(theirs) if None not in key and key == other]
        used.update(found)
        if how in ("semi", "anti"):
            pairs += [(at, None)] if bool(found) == (how == "semi") else []
        else:
            pairs += [(at, b) for b in found]
            pairs += [(at, None)] if not found and how in ("left", "outer") else []
    alone = how in ("right", "outer")
    pairs += [(None, b) for b in range(right.rows) if alone and b not in used]
    columns = {name: _rows(column, [a for a, _ in pairs]) for name, column in left.columns.items()}
    if how in ("semi", "anti"):
        return Frame(columns, left.index)
    for one, two in reversed(on if alone else []):
        kind = _common_type([left.columns[one].type, right.columns[two].type])
        mine = _converted(left.columns[one], kind)
        other = _converted(right.columns[two], kind)
        values = [other.values[b or 0] if a is None else mine.values[a] for a, b in pairs]
        columns[one] = Column(kind, values, mine.stored and other.stored)
    dropped = {two for _, two in on}
    columns |= _beside(left, right, dropped, suffix, [b for _, b in pairs])
    return Frame(columns, None if alone else left.index)


def join_asof(
    left: Frame, right: Frame, by: Sequence[tuple[str, str]], direction: str, exact: bool
) -> Frame:
    """Return each row of the left beside the row of the right nearest in time."""
    assert left.index is not None
    assert right.index is not None
    ours, theirs = _times(left), _times(right)
    our_keys = _keys(left, [one for one, _ in by])
    their_keys = _keys(right, [two for _, two in by])
    chosen: list[int | None] = []
    for time, key in zip(ours, our_keys, strict=True):
        ranked = [
            (abs(other - time), other > time, -at)
            for at, (other, of) in enumerate(zip(theirs, their_keys, strict=True))
            if None not in key
            and key == of
            and (exact or other != time)
            and (direction != "backward" or other <= time)
            and (direction != "forward" or other >= time)
        ]
        chosen.append(-min(ranked)[2] if ranked else None)
    dropped = {two for _, two in by} | ({right.index} if left.index == right.index else set())
    return Frame(left.columns | _beside(left, right, dropped, "_right", chosen), left.index)


def _beside(
    left: Frame, right: Frame, dropped: set[str], suffix: str, rows: list[int | None]
) -> dict[str, Column]:
    return {
        f"{name}{suffix}" if name in left.columns else name: _rows(column, rows)
        for name, column in right.columns.items()
        if name not in dropped
    }


def _rows(column: Column, rows: Sequence[int | None]) -> Column:
    values = [None if row is None else column.values[row] for row in rows]
    return Column(column.type, values, column.stored)


def _keys(frame: Frame, names: list[str]) -> list[tuple[Any, ...]]:
    columns = [frame.columns[name] for name in names]
    comparable = [[_value(column.type)(v) for v in column.values] for column in columns]
    return list(zip(*comparable, strict=True)) if names else [()] * frame.rows


def _times(frame: Frame) -> list[int]:
    column = frame.columns[frame.index or ""]
    return [_value(column.type)(value) for value in column.values]


def _value(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return what makes a value one that Python compares as we do; missing is None."""
    factor = NANOSECONDS // UNITS_A_SECOND[kind.unit] if pa.types.is_timestamp(kind) else 1
    return lambda value: None if is_missing(value) else value * factor if factor > 1 else value
