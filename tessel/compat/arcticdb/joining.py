"""Symbols that are read as one table: index and Series of one name where theirs differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tessel as ts
from tessel.api import LazyTable, Result
from tessel.compat.arcticdb.reading import index_levels
from tessel.errors import InvalidInputError

__all__ = ["Joined", "joined"]


class Joined(NamedTuple):
    """Parts whose columns have the same names, and what a frame of their rows shows.

    Attributes
    ----------
    parts
        The symbols.
    levels
        The columns that are the index, with the name of each, None where those of the parts differ.
    series
        The column that is a Series, with its name.
    """

    parts: list[LazyTable]
    levels: dict[str, str | None]
    series: tuple[str, Any] | None

    def frame(self, result: Result) -> Any:
        """Return the rows as a frame or a Series of pandas."""
        frame = result.to_pandas(index=False)
        if all(name in frame.columns for name in self.levels) and self.levels:
            frame = frame.set_index(list(self.levels)).rename_axis(list(self.levels.values()))
        if self.series is not None and list(map(str, frame.columns)) == [self.series[0]]:
            return frame.iloc[:, 0].rename(self.series[1])
        return frame


def joined(parts: Sequence[LazyTable], views: Sequence[Any]) -> Joined:
    """Give the levels of the index, by place, and the columns that are Series one name each.

    Instants of several time zones become those of UTC, without a zone.

    Raises
    ------
    InvalidInputError
        Where the parts have other numbers of levels.
    """
    levels = [index_levels(view) for view in views]
    if len(set(map(len, levels))) > 1:
        raise InvalidInputError(
            f"the symbols have indexes of {', '.join(str(len(each)) for each in levels)} levels",
            hint="symbols that are put one after the other have the same number of levels",
        )
    shown = [{} if view.pandas is None else dict(view.pandas.levels) for view in views]
    made, found = list(parts), {}
    for place, names in enumerate(zip(*levels, strict=True)):
        name = _renamed(made, names, f"level_{place}" if len(levels[0]) > 1 else "index")
        kinds = {part.schema().type_of(name) for part in made}
        if len({getattr(kind, "tz", None) for kind in kinds}) > 1:
            made[:] = [part.apply(name, ts.col(name).cast("timestamp[ns]")) for part in made]
        titles = {names_of.get(own, own) for names_of, own in zip(shown, names, strict=True)}
        found[name] = titles.pop() if len(titles) == 1 else None
    series = [None if view.pandas is None else view.pandas.series for view in views]
    columns = [each[0] for each in series if each is not None]
    if len(columns) < len(series):
        return Joined(made, found, None)
    titles = {each[1] for each in series if each is not None}
    name = _renamed(made, columns, "values")
    return Joined(made, found, (name, titles.pop() if len(titles) == 1 else None))


def _renamed(parts: list[LazyTable], names: Sequence[str], other: str) -> str:
    """Give columns one name, that of all or another one, and return it."""
    name = names[0] if len(set(names)) == 1 else other
    parts[:] = [
        part if own == name else part.rename({own: name})
        for part, own in zip(parts, names, strict=True)
    ]
    return name
