"""select, drop, rename, cast: which columns there are, under which names and in which types."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.cached import cached
from tessel.clauses.base import Clause, ClauseInfo, ShortClause
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.errors import DuplicateColumnError, PlanError, TesselError, repeated
from tessel.expression.build import col
from tessel.expression.node import Expression
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Select(Clause):
    """Keep these columns, in this order. Without the index column the result has no time index."""

    name: ClassVar[str] = "select"
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise PlanError(
                "select needs at least one column",
                hint="leave it out for all columns; count() counts rows",
                clause=self.name,
            )
        column = repeated(self.columns)
        if column is not None:
            raise DuplicateColumnError(
                f"select names {column!r} twice", hint="name it once", column=column
            )

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(columns=frozenset(self.columns), keeps_count=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema of these columns; unknown names are refused."""
        return input_schema.select(self.columns)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Keep the columns."""
        return unit.select(self.columns)


@register
@dataclass(frozen=True)
class Drop(ShortClause):
    """Leave these columns out. Without the index column the result has no time index."""

    name: ClassVar[str] = "drop"
    columns: tuple[str, ...]

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(columns=frozenset(self.columns), keeps_count=True)

    def lower(self, schema: TableSchema) -> tuple[Clause, ...]:
        """Return the ``select`` of what is left, which reads nothing more."""
        schema.require(self.columns)
        dropped = set(self.columns)
        kept = tuple(name for name in schema.names if name not in dropped)
        if not kept:
            raise PlanError("drop leaves no column", hint="keep at least one", clause=self.name)
        return (Select(kept),)


@register
@dataclass(frozen=True)
class Rename(Clause):
    """Give columns other names; the index keeps its role under its new name.

    Attributes
    ----------
    columns
        Pairs of old and new name. All are renamed at once, so two columns may trade names.
    """

    name: ClassVar[str] = "rename"
    columns: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        for pair in self.columns:  # a Series named "" is a column of that name
            for name in pair:
                if not isinstance(name, str) or not pair[1]:
                    raise PlanError(f"rename: {name!r} is no column name", clause=self.name)
        old = repeated(old for old, _ in self.columns)
        if old is not None:
            raise PlanError(f"rename gives {old!r} two new names", clause=self.name)

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(
            columns=frozenset(old for old, _ in self.columns),
            adds=frozenset(new for _, new in self.columns),
            keeps_count=True,
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the new names; unknown and colliding names are refused."""
        return input_schema.rename(dict(self.columns))

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Rename the columns."""
        return unit.rename(dict(self.columns))


@register
@dataclass(frozen=True)
class Cast(Clause):
    """Columns as other types, in their places.

    Attributes
    ----------
    columns
        Pairs of column and type, named as in ``cast(price, 'float64')``.
    strict
        Whether a value that does not fit its new type is an error, which names the column, the
        value and both types. Otherwise it becomes missing.

    Notes
    -----
    What may become what, and how, is said of the operator ``cast``: fractions are not cut, texts
    not guessed. Types that do not go together are refused when the query is planned. The index
    column loses its role with its type; as the type that it has it keeps it.
    """

    name: ClassVar[str] = "cast"
    columns: tuple[tuple[str, str], ...]
    strict: bool = True

    def __post_init__(self) -> None:
        names = [name for name, _ in self.columns]
        if not names:
            raise PlanError("cast needs a column", hint='cast({"price": "float64"})')
        twice = repeated(names)
        if twice is not None:
            raise DuplicateColumnError(f"cast gives {twice!r} two types", column=twice)
        self._expressions  # noqa: B018  (an unknown type is refused here)

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        names = frozenset(name for name, _ in self.columns)
        return ClauseInfo(columns=names, adds=names, keeps_count=True)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the new types; what cannot be cast is refused."""
        made: dict[str, pa.DataType] = {}
        for name, expression in self._expressions.items():
            input_schema.require([name])
            kind = expression.result_type(input_schema)
            if kind != input_schema.type_of(name):
                made[name] = kind
        return input_schema.with_columns(made)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Cast the columns."""
        made: dict[str, Expression | pa.ChunkedArray] = {}
        for name, expression in self._expressions.items():
            kind = expression.result_type(unit.schema)
            if kind == unit.schema.type_of(name):
                continue
            made[name] = expression
            if not self.strict:
                made[name] = pa.chunked_array(_cast_or_missing(unit, expression, name), kind)
        return unit.with_columns(made) if made else unit

    @cached
    def _expressions(self) -> dict[str, Expression]:
        """The casts, which are the same for all units."""
        return {name: col(name).cast(target) for name, target in self.columns}


def _cast_or_missing(unit: ProcessingUnit, expression: Expression, name: str) -> list[pa.Array]:
    """Cast by halves: the fewer values do not fit, the fewer steps."""
    kind = expression.result_type(unit.schema)

    def parts(table: pa.Table) -> list[pa.Array]:
        try:
            from tessel.expression.evaluate import evaluate

            values = evaluate(expression, table)
        except TesselError:
            if table.num_rows == 1:
                return [pa.nulls(1, kind)]
            half = table.num_rows // 2
            return parts(table.slice(0, half)) + parts(table.slice(half))
        return values.chunks if isinstance(values, pa.ChunkedArray) else [values]

    return parts(unit.table.select([name])) if unit.num_rows else []
