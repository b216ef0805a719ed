"""Names that other systems have for what is here: one table, for errors and for the docs.

Nothing here is an alias. A name of theirs that somebody uses raises an error that says ours, and
the pages ``docs/coming-from-*`` are made from the same rows, in ``foreign_names.txt``; those of
arguments are in ``foreign_arguments.txt``. Imported when an attribute or an argument is missing.
"""

from __future__ import annotations

import functools
import importlib.resources
from typing import Any, NamedTuple

from tessel.errors.stores import UnknownVerbError

__all__ = ["FOREIGN_NAMES", "ForeignName", "missing_attribute"]


class ForeignName(NamedTuple):
    """One name of another system.

    Attributes
    ----------
    on
        What it is asked of here: a ``store``, a ``query``, a ``lazy`` table, a ``builder``, an
        ``expression``, a ``result``, a ``recorder``, a ``live`` store, a ``schema``, or of
        the ``module``.
    ours
        What is written here instead, behind the dot; ``lazy.`` where it is a verb of queries.
    remark
        What else is to know.
    """

    system: str
    on: str
    theirs: str
    ours: str
    remark: str = ""

    @property
    def our_name(self) -> str:
        """The name here, without arguments."""
        return self.ours.removeprefix("lazy.").partition("(")[0]

    def written(self, owner: str = "") -> str:
        """Return the call that does the same here: a method of ``owner``, or a verb of a query."""
        return self.ours if self.ours.startswith("lazy.") else f"{owner}.{self.ours}"


def _rows(table: str) -> list[list[str]]:
    """Return the lines of a table beside this module, cut at the bars."""
    text = importlib.resources.files(__package__).joinpath(table).read_text(encoding="utf-8")
    return [[part.strip() for part in line.split(" | ")] for line in text.splitlines()]


FOREIGN_NAMES = tuple(ForeignName(*row) for row in _rows("foreign_names.txt"))
"""All rows; where two systems have one name for one thing, it stands there twice."""

_WORDS = {
    "store": "a store",
    "lazy": "a lazy table",
    "builder": "a query",
    "result": "a result",
    "recorder": "a recorder",
    "live": "a live store",
    "module": "tessel",
    "schema": "a schema",
}


@functools.cache
def foreign_arguments() -> dict[tuple[str, str], str]:
    """Return what arguments of other systems are here, by function and name; ``*`` is any."""
    return {(function, name): ours for function, name, ours in _rows("foreign_arguments.txt")}


@functools.cache
def _by_name() -> dict[tuple[str, str], ForeignName]:
    return {(row.on, row.theirs): row for row in reversed(FOREIGN_NAMES)}


def foreign_name(name: str, kinds: tuple[str, ...]) -> ForeignName | None:
    """Return the row of a name, asked of something that is of these kinds."""
    found = (_by_name().get((kind, name)) for kind in kinds)
    return next((row for row in found if row is not None), None)


def missing_attribute(owner: Any, name: str, *kinds: str) -> Any:
    """Raise the error for an attribute that is not there; called from ``__getattr__``.

    Raises UnknownVerbError, naming ours for a name of another system, else the nearest.

    Parameters
    ----------
    kinds
        What the owner is, as in :attr:`ForeignName.on`; words for people are those of the first.
    """
    if hasattr(type(owner), name):
        return object.__getattribute__(owner, name)  # a property of ours has raised: again
    found = foreign_name(name, kinds)
    if found is not None:
        example = found.written("ts" if kinds[0] == "module" else "")
        raise UnknownVerbError.foreign(name, found.our_name, example, found.remark)
    if kinds[0] == "lazy" and (of_result := foreign_name(name, ("result",))) is not None:
        example = f".collect().{of_result.ours}"
        raise UnknownVerbError.foreign(name, "collect", example, of_result.remark)
    if kinds[0] == "result" and (of_query := foreign_name(name, ("query",))) is not None:
        raise UnknownVerbError.before_collect(name, of_query.ours)
    if kinds[0] == "result" and name in owner.column_names:
        raise UnknownVerbError(f"a column of a result is no attribute: {name}", hint=f"[{name!r}]")
    existing = [each for each in dir(owner) if not each.startswith("_")]
    error = UnknownVerbError.for_name(name, existing, _WORDS.get(kinds[0], "an expression"))
    if "query" in kinds and not (error.hint or "").startswith("did"):
        error.hint = f"of a column: ts.col({name!r})   {error.hint}"
    raise error
