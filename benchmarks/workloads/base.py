"""What a workload is: a table made from a seed, and questions that engines answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Query:
    """One question.

    Attributes
    ----------
    name, question
        A short name, and the question for people.
    answers
        By engine name, how it answers: a function from the engine's handle (what its ``open``
        returned) to anything its ``to_arrow`` takes. An engine that cannot is left out.
    key
        Columns that order the rows of the answer where engines may choose; empty where the
        order belongs to the answer.
    """

    name: str
    question: str
    answers: Mapping[str, Callable[[Any], Any]]
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """A table and questions on it.

    Attributes
    ----------
    name
        Also the name of the table, or symbol.
    index
        The time column; ``make`` returns its rows in that order.
    make
        From a number of rows to the table; the same table for the same number.
    rows, smoke_rows
        Numbers of rows for timing, and for a look at the answers.
    queries
        The questions.
    others
        Other tables that they are asked of as well, each without questions of its own. Where there
        are any, answers take a mapping from the names of all tables to the engine's handles.
    slices
        How many columns a column slice of Tessel's has at most; 0 for what it chooses.
    late
        Columns that Tessel gets later: rows before their first value are written without them.
    together
        Whether an engine answers all questions in one process, where starting one takes long; by
        default engines take turns question by question.
    """

    name: str
    index: str
    make: Callable[[int], pa.Table]
    rows: int
    smoke_rows: int
    queries: tuple[Query, ...]
    others: tuple[Workload, ...] = ()
    slices: int = 0
    late: tuple[str, ...] = ()
    together: bool = False

    @property
    def tables(self) -> tuple[Workload, ...]:
        """This table and the others."""
        return (self, *self.others)

    def query(self, name: str) -> Query:
        """Return the question of that name."""
        return next(query for query in self.queries if query.name == name)
