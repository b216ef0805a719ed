"""A query on its way through the planner."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Self

import pyarrow as pa

from tessel.cached import cached
from tessel.clauses.base import Clause
from tessel.clauses.combining import Combining, SubQuery
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.manifest.index import SegmentIndex


@dataclass(frozen=True)
class Input:
    """One of the queries that a combining clause takes together.

    Attributes
    ----------
    query
        The symbol and the clauses that run on it first.
    """

    query: SubQuery
    schema: TableSchema

    @cached
    def line(self) -> str:
        """The query as text; most passes leave an input as it is."""
        return self.query.describe()

    def then(self, *clauses: Clause) -> Input:
        """Return the input with clauses added at the end."""
        schema = self.schema
        for clause in clauses:
            schema = clause.output_schema(schema)
        query = dataclasses.replace(self.query, clauses=(*self.query.clauses, *clauses))
        return Input(query, schema)


_BYTES_OF_OTHERS = 16
_MOST_BUCKETS = 1024
_SMALL_BUCKET_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Draft:
    """The clauses on one symbol, or on several taken together, and what was learnt of them.

    Attributes
    ----------
    schema
        The columns of the input: all of them, until a pass finds those that are read.
    pruning
        Clauses that the index was asked to answer, or to prune with, in order. Those that it
        answered are in ``clauses`` no more.
    columns
        The columns to read; None is all.
    index
        The segments of the symbol that are left; None where only clauses are looked at, or where
        ``inputs`` are taken together.
    combining
        The clause over several symbols that comes before all ``clauses``; None on one symbol.
    bytes
        Estimated bytes of the input.
    live_bytes
        The byte budget of the query; None where it is not planned to be run.
    gathered_bytes
        The most bytes that who runs it brings to one place; None where memory has its budget there.
    high_cardinality
        Stored keys of which units have nearly as many groups as rows.
    """

    schema: TableSchema
    clauses: tuple[Clause, ...]
    pruning: tuple[Clause, ...] = ()
    columns: tuple[str, ...] | None = None
    index: SegmentIndex | None = None
    combining: Combining | None = None
    inputs: tuple[Input, ...] = ()
    bytes: int = 0
    workers: int = 1
    bucket_bytes: int = 32 * 1024 * 1024
    live_bytes: int | None = None
    gathered_bytes: int | None = None
    high_cardinality: tuple[str, ...] = ()

    def replace(self, **changes: object) -> Self:
        """Return the draft with some fields changed."""
        made = dataclasses.replace(self, **changes)  # type: ignore[arg-type]
        known = self.__dict__.get("_schemas")
        same = len(made.clauses) == len(self.clauses) and made.schema is self.schema
        if known is not None and same and all(map(operator.is_, made.clauses, self.clauses)):
            made.__dict__["_schemas"] = known
        return made

    def rewritten(self, rewrite: Callable[[Clause, TableSchema], Iterable[Clause]]) -> Self:
        """Return the draft with each clause replaced by what it and its schema are rewritten to."""
        made = map(rewrite, self.clauses, self.schemas())
        return self.replace(clauses=tuple(itertools.chain.from_iterable(made)))

    def steps(
        self, first: type[Clause], second: type[Clause]
    ) -> Iterator[tuple[Clause, Clause | None, TableSchema]]:
        """Give the clauses, one of the second kind with the first before it, and the schemas."""
        left = zip(self.clauses, (*self.clauses[1:], None), self.schemas(), strict=False)
        for clause, following, schema in left:
            is_pair = type(clause) is first and type(following) is second
            yield clause, following if is_pair else None, schema
            if is_pair:
                next(left)

    def has(self, *names: str) -> bool:
        """Return whether a clause has one of these names: if not, its module is not imported."""
        return any(clause.name in names for clause in self.clauses)

    @property
    def hash_buckets(self) -> int:
        """Into how many hash buckets the input goes, so that each has about its aimed-for bytes."""
        by_bytes = -(-self.bytes // self.bucket_bytes)
        return 1 if by_bytes == 0 else min(_MOST_BUCKETS, max(self.workers, by_bytes))

    def buckets_by(self, keys: tuple[str, ...]) -> int:
        """Return the same for rows of some keys.

        Where nearly all keys differ, what is computed of a bucket is to stay in caches.
        """
        if keys != self.high_cardinality:
            return self.hash_buckets
        small = self.replace(bucket_bytes=min(self.bucket_bytes, _SMALL_BUCKET_BYTES))
        return small.hash_buckets

    def schemas(self) -> list[TableSchema]:
        """Return the schema before the first clause and after each."""
        return list(self._schemas)

    @cached
    def _schemas(self) -> tuple[TableSchema, ...]:
        schemas = [self.schema]
        for clause in self.clauses:
            schemas.append(clause.output_schema(schemas[-1]))
        return tuple(schemas)

    def lines(self) -> tuple[str, ...]:
        """Return the draft as text, one line a step: what explain compares from pass to pass."""
        lines = [f"input {at}: {each.line}" for at, each in enumerate(self.inputs, start=1)]
        lines += [f"index: {clause.describe()}" for clause in self.pruning]
        lines += [] if self.columns is None else [f"read: {', '.join(self.columns)}"]
        return (*lines, *(clause.describe() for clause in self.clauses))


def value_bytes(kind: pa.DataType) -> int:
    """Return about how many bytes a value takes in memory."""
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:  # of a type without a width
        return _BYTES_OF_OTHERS
