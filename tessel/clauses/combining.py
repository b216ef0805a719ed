"""Clauses over several symbols: what concat and merge share.

Each symbol has clauses of its own first. What the planner makes of such a clause is a step over the
units of all inputs (:meth:`Combining.lowered`), which knows the columns that come out.
"""

from __future__ import annotations

import dataclasses
import itertools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pyarrow as pa

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.plain import check_texts
from tessel.clauses.registry import find_clause, register
from tessel.ecs import ProcessingUnit
from tessel.errors import LimitError, PlanError, PlanFormatError, TesselError
from tessel.errors.arguments import checks_arguments
from tessel.errors.names import suggestion
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.options import LEAST_LIMIT, current

if TYPE_CHECKING:
    from tessel.store.manifest.index import SegmentIndex


@checks_arguments
@dataclass(frozen=True)
class SubQuery:
    """A symbol with the clauses that run on it before it joins others.

    Attributes
    ----------
    symbol
        Name of the symbol.
    as_of
        Version, or what names one when the query runs: a tag, a branch, a date; None is the version
        that the whole query sees.
    clauses
        What runs first.
    depth
        How many queries it has within one another: 0 for one symbol, one more for each clause over
        several symbols whose result is an input of the next.

    Raises
    ------
    LimitError
        For more of them than the option ``max_query_depth``.
    """

    symbol: str
    as_of: int | str | None = None
    clauses: tuple[Clause, ...] = ()
    depth: int = dataclasses.field(default=0, init=False, repr=False, compare=False)

    def describe(self) -> str:
        """Return one line for people: the symbol, its version, and what runs first."""
        version = "" if self.as_of is None else f" as of {self.as_of!r}"
        return f"{self.symbol!r}{version}{''.join(f' → {c.describe()}' for c in self.clauses)}"

    def __post_init__(self) -> None:
        depth, before = 0, None
        for clause in self.clauses:
            if isinstance(clause, Combining):
                own = max((other.depth for other in clause.others), default=0)
                chained = before is not None and clause.joined_to(before) is not None
                depth = max(depth, own + 1) if chained else max(depth, own) + 1
            before = clause
        _check_depth(depth)
        object.__setattr__(self, "depth", depth)

    def to_json(self) -> dict[str, Any]:
        """Return the plain form."""
        clauses = [clause.to_json() for clause in self.clauses]
        return {"symbol": self.symbol, "as_of": self.as_of, "clauses": clauses}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SubQuery:
        """Rebuild from the plain form; raises ``PlanFormatError`` on anything else."""
        check_fields(data, ("symbol", "as_of", "clauses"))
        symbol, as_of = data.get("symbol"), data.get("as_of")
        if not isinstance(symbol, str) or isinstance(as_of, bool):
            raise PlanFormatError(f"not the plain form of a symbol's query: {dict(data)!r}")
        if not isinstance(as_of, int | str | None):
            raise PlanFormatError(f"as_of is a version number, text or null, not {as_of!r}")
        return cls(symbol, as_of, clauses_from_json(data.get("clauses", [])))


def check_fields(data: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raise ``PlanFormatError`` for a field that the plain form of a query does not have.

    A store, for one: a query reads the store that its caller opened, and no other.
    """
    for name in data:
        if name not in known:
            raise PlanFormatError(
                f"the plain form of a query has no field {name!r}: it reads the store that the "
                "caller opened",
                **suggestion(str(name), known, "fields"),
            )


def check_count(clauses: int) -> None:
    """Raise ``LimitError`` for a query of more clauses than the option ``max_clauses``."""
    if clauses > current().max_clauses:
        raise LimitError.exceeded(
            "the query", clauses, "clauses", option="max_clauses", limit=current().max_clauses
        )


def _check_depth(depth: int) -> None:
    if depth > LEAST_LIMIT and depth > (limit := current().max_query_depth):
        raise LimitError.exceeded(
            "the query", depth, "queries in one another", option="max_query_depth", limit=limit
        )


def check_nesting(plan: Mapping[str, Any]) -> None:
    """Raise ``LimitError`` for plain queries too deep in one another, without recursion."""
    queries, depth = [plan], -1
    while queries:
        depth += 1
        _check_depth(depth)
        lists = [each["clauses"] for each in queries if isinstance(each.get("clauses"), list)]
        clauses = [each for each in itertools.chain(*lists) if isinstance(each, Mapping)]
        fields = [value for each in clauses for value in each.values()]
        inner = itertools.chain(*(each if isinstance(each, list) else [each] for each in fields))
        queries = [each for each in inner if isinstance(each, Mapping) and "clauses" in each]


def clauses_from_json(data: object) -> tuple[Clause, ...]:
    """Rebuild a list of clauses from plain data; raises ``PlanFormatError`` on anything else."""
    if not isinstance(data, Sequence) or isinstance(data, str):
        raise PlanFormatError(f"clauses are a list, not {type(data).__name__}")
    check_count(len(data))
    found = []
    for position, item in enumerate(data):
        if not isinstance(item, Mapping) or not isinstance(item.get("clause"), str):
            raise PlanFormatError(
                f"clauses[{position}] is not a clause", hint='write {"clause": "head", "n": 5}'
            )
        try:
            clause = find_clause(item["clause"]).from_json(item)
            check_texts(clause, f"a text of {clause.name}")
            found.append(clause)
        except TesselError as error:
            error.with_context(plan=f"clauses[{position}]")
            raise
    return tuple(found)


MOST_UNITS = 1 << 26
"""Units of one symbol; so many again for each join of two large sides, which keeps the numbers of
both."""


@dataclass(frozen=True)
class CombinedInput:
    """What the planner knows of one of several inputs.

    Attributes
    ----------
    units
        A number above those of all of its units.
    sources
        The segments that are read for it, of each symbol.
    """

    name: str
    schema: TableSchema
    bytes: int
    units: int = MOST_UNITS
    sources: tuple[SegmentIndex, ...] = ()


@dataclass(frozen=True)
class PlanLimits:
    """What a plan is made for.

    Attributes
    ----------
    codes
        Text columns of the result that may come out as codes: what stands behind takes them so.
    is_here
        Whether it runs in this process, where a sort is no exchange.
    """

    workers: int
    live_bytes: int
    bucket_bytes: int
    codes: frozenset[str] = frozenset()
    is_here: bool = True


@dataclass(frozen=True)
class Lowered:
    """What runs for a clause over several symbols.

    Attributes
    ----------
    steps
        The first takes the units of all inputs.
    before
        For each input what runs on it first, after its own clauses; empty where nothing does.
    coded
        For each input the columns of text that may come as they were read; empty where none may.
    turned
        Whether the first step takes the last input first.
    """

    steps: tuple[Clause, ...]
    before: tuple[tuple[Clause, ...], ...] = ()
    coded: tuple[tuple[str, ...], ...] = ()
    turned: bool = False


@dataclass(frozen=True)
class SemiJoin:
    """Rows of one input that matter only where another input has their keys.

    Attributes
    ----------
    of, by
        The number of the input whose rows these are, and that of the other one.
    on
        Pairs of key columns: of the rows, and of the other input. A missing key is no key.
    """

    of: int
    by: int
    on: tuple[tuple[str, str], ...]


MakesLookup = Callable[[pa.Table], "tuple[Clause, ...] | None"]
"""From rows of the second input, with at least the columns that are read behind the clause, to
clauses on the first that give the same; None where these rows have none."""


class Combining(Clause):
    """A clause over this query and others; its subclasses say how their rows are put together."""

    others: tuple[SubQuery, ...]
    chains: ClassVar[bool] = False
    """Whether clauses in a row are one over the inputs of all: their order is that of the rows."""

    def joined_to(self, before: Clause) -> Self | None:
        """Return one clause for the one before this and this, or None where they are two."""
        if not self.chains or type(before) is not type(self) or not self.others:
            return None
        others = before.others
        joined: Any = dataclasses.replace(self, others=(*others, *self.others))  # type: ignore[type-var]
        return joined if dataclasses.replace(joined, others=others) == before else None

    @abstractmethod
    def combined_schema(self, schemas: Sequence[TableSchema]) -> TableSchema:
        """Return the schema of the result from those of all inputs, this query's first."""

    @abstractmethod
    def lowered(
        self, inputs: Sequence[CombinedInput], combined: TableSchema, limits: PlanLimits
    ) -> Lowered:
        """Return the steps that run."""

    def reads(
        self, columns: frozenset[str], schemas: Sequence[TableSchema]
    ) -> list[frozenset[str]] | None:
        """Return which columns of each input some columns of the result need; None is all of them.

        ``combined_schema`` of inputs that have only those still gives the columns asked for, with
        their types.
        """
        return None

    def semi_joins(self, schemas: Sequence[TableSchema]) -> Sequence[SemiJoin]:
        """Return which inputs may leave out rows by the keys of another; by default none may.

        Rows that are left out change neither the result nor the order of its rows.
        """
        return ()

    def as_lookup(self, schemas: Sequence[TableSchema]) -> MakesLookup | None:
        """Return what makes clauses on the first input of few rows of the second; None: nothing."""
        return None

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return nothing: the result depends on the other symbols, which only a store knows."""
        raise PlanError(
            f"the schema of a {self.name} depends on the other symbols",
            hint="ask the store: store.schema(symbol, query=q)",
        )

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Return the unit: what runs is the step that the planner makes of the clause."""
        return unit


def common_schema(
    clause: str, schemas: Sequence[TableSchema], join: Literal["outer", "inner"]
) -> pa.Schema:
    """Return the columns that several inputs have together.

    Raises PlanError where no column is left; SchemaMismatchError where no type holds all values of
    columns of one name.

    Parameters
    ----------
    join
        ``"outer"``: all columns, in order of first appearance; ``"inner"``: those that all have.
    """
    from tessel.store.promotion import promote

    names = list(dict.fromkeys(name for schema in schemas for name in schema.names))
    if join == "inner":
        names = [name for name in names if all(name in schema for schema in schemas)]
        if not names:
            raise PlanError(
                f"{clause} with join='inner': the symbols have no column in common",
                hint='use join="outer", or rename columns first',
            )
    fields = []
    for name in names:
        types = [schema.type_of(name) for schema in schemas if name in schema]
        fields.append(pa.field(name, promote(name, types, clause=clause)))
    return pa.schema(fields)


@register
@dataclass(frozen=True)
class AlignColumns(Clause):
    """Bring units of several symbols to one schema: columns added as missing, left out, or cast."""

    name: ClassVar[str] = "align_columns"
    internal: ClassVar[bool] = True
    schema: TableSchema

    @property
    def structure(self) -> ClauseInfo:
        """Units of several symbols in, row slices out."""
        return ClauseInfo(
            Structure.MULTI_SYMBOL,
            adds=frozenset(self.schema.names),
            keeps_count=True,
            index=IndexEffect.DROP,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the common schema."""
        return self.schema

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Align one unit."""
        from tessel.clauses.concat import brought_to

        return unit.replace(brought_to(unit.table, self.schema.arrow, "concat"))
