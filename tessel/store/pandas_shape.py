"""What pandas showed of a table beside its columns; kept with the symbol, as an addition to it.

A symbol that was written from Arrow, or from a frame that Arrow gives back as it was, has none. A
release that does not know it passes over it, and gives columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import Any, TypeVar

from tessel.lazy import dataclass
from tessel.store.history.documents import Fields, damaged

Key = TypeVar("Key", bound=Hashable)
_Label = str | int | None
_TEXT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class PandasShape:
    """What a pandas frame or Series was, by column: by its name in a frame, by its id in a store.

    Attributes
    ----------
    levels
        The columns that are levels of the index, each with the name that it had there.
    range
        Name, start and step of a ``RangeIndex`` other than the default one.
    dtypes
        The dtype of each column that Arrow would give another one.
    categories
        Of categoricals: the dtype of the categories, and their values as an Arrow IPC stream in
        base64.
    columns
        The name and the dtype of the frame's columns, where they are more than text.
    series
        The column that is a Series, with its name there.
    """

    levels: tuple[tuple[Any, str | None], ...] = ()
    range: tuple[str | None, int, int] | None = None
    dtypes: Mapping[Any, str] = field(default_factory=dict)
    categories: Mapping[Any, tuple[str, str]] = field(default_factory=dict)
    columns: tuple[_Label, str] | None = None
    series: tuple[Any, _Label] | None = None

    def __bool__(self) -> bool:
        """Return whether there is anything that Arrow would not give back."""
        return any(
            (self.levels, self.range, self.dtypes, self.categories, self.columns, self.series)
        )

    def keyed(self, keys: Mapping[Key, Any]) -> PandasShape:
        """Return the shape with other keys; what is of a column that has none falls away."""
        series = self.series
        whole = all(key in keys for key, _ in self.levels)
        return PandasShape(
            tuple((keys[key], name) for key, name in self.levels) if whole else (),
            self.range,
            {keys[key]: dtype for key, dtype in self.dtypes.items() if key in keys},
            {keys[key]: held for key, held in self.categories.items() if key in keys},
            self.columns,
            (keys[series[0]], series[1]) if series and series[0] in keys else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the shape as plain data, without what is empty."""
        found = {
            "levels": [list(each) for each in self.levels],
            "range": self.range and list(self.range),
            "dtypes": [list(each) for each in self.dtypes.items()],
            "categories": [[key, *held] for key, held in self.categories.items()],
            "columns": self.columns and list(self.columns),
            "series": self.series and list(self.series),
        }
        return {name: value for name, value in found.items() if value}

    @classmethod
    def read(cls, fields: Fields, next_id: int) -> PandasShape:
        """Read the shape of a symbol, whose keys are ids below ``next_id``."""

        def rows(name: str, *kinds: tuple[type, ...]) -> list[list[Any]]:
            listed = fields.value(name)
            found = [] if listed is None else fields.sequence(name)
            for row in found:
                if not _fits(row, kinds) or row[0] >= next_id or row[0] < 0:
                    damaged(fields.name, f"the {name} that pandas showed are of no column")
            return found

        def one(name: str, *kinds: tuple[type, ...]) -> Any:
            found = fields.value(name)
            if found is not None and not _fits(found, kinds):
                damaged(fields.name, f"the {name} that pandas showed is none")
            return found and tuple(found)

        key, text, label = (int,), (str,), (str, int, type(None))
        spaced = one("range", (str, type(None)), key, key)
        if spaced and not spaced[2]:
            damaged(fields.name, "the range that pandas showed has no step")
        named = one("series", key, label)
        if named and not 0 <= named[0] < next_id:
            damaged(fields.name, "the series that pandas showed is of no column")
        shape = cls(
            tuple((at, name) for at, name in rows("levels", key, (str, type(None)))),
            spaced,
            dict(rows("dtypes", key, text)),
            {at: (dtype, values) for at, dtype, values in rows("categories", key, text, text)},
            one("columns", label, text),
            named,
        )
        for dtype in (*shape.dtypes.values(), *(held[0] for held in shape.categories.values())):
            if len(dtype) > _TEXT_CHARACTERS:
                damaged(fields.name, "a dtype that pandas showed is none")
        return shape


def _fits(row: Any, kinds: tuple[tuple[type, ...], ...]) -> bool:
    return (
        isinstance(row, list)
        and len(row) == len(kinds)
        and all(
            isinstance(value, kind) and not isinstance(value, bool)
            for value, kind in zip(row, kinds, strict=True)
        )
    )
