"""What an aggregate is, and the registry of those that exist.

An aggregate is one frozen dataclass in one file of :mod:`tessel.clauses.aggregates`, registered
under its name. The clauses ``groupby``/``agg`` and ``resample`` give it values and group codes;
it knows nothing of keys, units or threads. Two powers exist:

* every :class:`Aggregate` can ``compute`` its result where all rows of its groups are present;
* a :class:`MergeableAggregate` also makes *partials*: its state as plain Arrow columns, which may
  cross process boundaries as an Arrow table, and which merge in any tree to the same bits.

An aggregate of several columns names those after the first in ``further``; its values are then
structs of one field a column. An :class:`AggregateBundle` is a name for several aggregates of one
column, and never reaches a clause.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates.kernels.integer_sum import added_column
from tessel.clauses.values import BoolArray, missing_rows, plain
from tessel.errors import AggregateError, NameNotFoundError, PlanFormatError
from tessel.expression.operators.aggregate import declare_aggregate

__all__ = [
    "Aggregate",
    "AggregateBundle",
    "Codes",
    "FromFacts",
    "FromOrder",
    "MergeableAggregate",
    "OrderedValues",
    "aggregate_from_json",
    "aggregate_names",
    "bind_aggregate",
    "counts_of",
    "find_aggregate",
    "find_bundle",
    "has_compact_state",
    "merged_counts",
    "present",
    "present_together",
    "register",
    "whole_structs",
]

Codes = NDArray[np.int64]
Values = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs
_AggregateClass = TypeVar("_AggregateClass", bound="type[Aggregate] | type[AggregateBundle]")


@dataclass(frozen=True)
class Aggregate(ABC):
    """A way to make one value of the rows of a group.

    Class attributes
    ----------------
    name
        What users write: ``agg(total=("qty", "sum"))``. Stable; part of stored plans.
    mergeable
        Whether it is a :class:`MergeableAggregate`.
    reads_values
        False for aggregates that count rows and never look at the column (``size``); they take
        None for ``values`` and ``value_type``.
    further
        What the columns after the first are, for an aggregate of several. Values are then structs
        with the fields ``value`` and these; see :func:`present_together`.
    aliases
        Other names that people may write; plans hold ``name``.
    """

    name: ClassVar[str]
    mergeable: ClassVar[bool] = False
    reads_values: ClassVar[bool] = True
    further: ClassVar[tuple[str, ...]] = ()
    aliases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def result_type(self, value_type: pa.DataType, column: str | None = None) -> pa.DataType:
        """Return the type of the result; called at plan time.

        Parameters
        ----------
        value_type
            Type of the column, in any representation.
        column
            Its name, for errors; None where it is not known.

        Raises
        ------
        AggregateError
            When the aggregate means nothing for the type.
        """

    @abstractmethod
    def compute(
        self, values: Values, codes: Codes, groups: int, column: str | None = None
    ) -> pa.Array:
        """Return one value a group; all rows of the groups are present, in row order.

        Parameters
        ----------
        values
            Array or chunked array, ``rows`` long, in row order.
        codes
            int64, shape ``(rows,)``, in ``[0, groups)``: the group of every row.
        groups
            How many groups there are; a group may have no rows.
        column
            Name of the column, for errors; None where it is not known.

        Returns
        -------
        pyarrow.Array
            ``groups`` long, of :meth:`result_type`.
        """

    @property
    def suffix(self) -> str:
        """What is put behind a column's name for its aggregate: ``sum``, ``quantile_0.9``."""
        return "_".join([self.name, *(str(value) for value in self._given().values())])

    def describe(self, *columns: str) -> str:
        """Return the aggregate of columns as people write it: ``sum(qty)``, ``size()``."""
        shown = list(columns) if self.reads_values else []
        shown += [f"{name}={value!r}" for name, value in self._given().items()]
        return f"{self.name}({', '.join(shown)})"

    def _given(self) -> dict[str, Any]:
        """Return the parameters that are not their defaults."""
        values = asdict(self)
        return {f.name: values[f.name] for f in fields(self) if values[f.name] != f.default}

    def to_json(self) -> str | dict[str, Any]:
        """Return the plain form: the name, or ``{"name": ..., parameters}`` where it has some."""
        parameters = asdict(self)
        return {"name": self.name, **parameters} if parameters else self.name

    def refuse(self, column: str | None, data_type: pa.DataType, hint: str) -> AggregateError:
        """Make the error for a column whose type the aggregate does not take."""
        what = "a column" if column is None else f"column {column!r}"
        return AggregateError(
            f"there is no {self.name} of {what} of type {data_type}",
            hint=hint,
            aggregate=self.name,
            column=column,
            type=str(data_type),
        )


@dataclass(frozen=True)
class MergeableAggregate(Aggregate):
    """An aggregate whose state over some rows is enough to merge with that of other rows.

    Class attributes
    ----------------
    compact
        Whether the state of a group is small however many rows it has.
    """

    mergeable: ClassVar[bool] = True
    compact: ClassVar[bool] = True

    @abstractmethod
    def partial_fields(self, value_type: pa.DataType) -> list[pa.Field]:
        """Return names (unique within the aggregate) and types of the state columns."""

    @abstractmethod
    def partial(self, values: Values, codes: Codes, groups: int) -> list[pa.Array]:
        """Return the state of some rows: the columns of :meth:`partial_fields`, a row a group.

        Parameters are those of :meth:`Aggregate.compute`. Never raises for values that
        :meth:`Aggregate.result_type` allows; overflow is known only at :meth:`finish`.
        """

    @abstractmethod
    def merge(
        self, states: Sequence[Values], codes: Codes, groups: int, value_type: pa.DataType
    ) -> list[pa.Array]:
        """Merge the states of many partials into final groups.

        Parameters
        ----------
        states
            The state columns of all partials, stacked in the order of their rows in the table,
            so that ``first`` and ``last`` stay right.
        codes
            int64, shape ``(len(states[0]),)``: the final group of every partial row.
        groups
            How many final groups there are.
        value_type
            Type of the aggregated column.

        Returns
        -------
        list of pyarrow.Array
            State columns again, ``groups`` long; merging may go on.
        """

    @abstractmethod
    def finish(
        self, states: Sequence[Values], value_type: pa.DataType, column: str | None = None
    ) -> pa.Array:
        """Return one value a state row, exactly of :meth:`Aggregate.result_type`.

        Raises
        ------
        IntegerOverflowError
            When an exact integer result does not fit its type; names aggregate and column.
        """

    def compute(
        self, values: Values, codes: Codes, groups: int, column: str | None = None
    ) -> pa.Array:
        """Return one value a group: the result of a single partial."""
        return self.finish(self.partial(values, codes, groups), values.type, column)


@runtime_checkable
class FromFacts(Protocol):
    """A mergeable aggregate whose state follows from facts that kernels find in what is stored.

    Without it, the values of a column are decoded. All facts come from one pass over what is
    stored, whatever the number of aggregates; they are asked only where no value is missing.

    Class attributes
    ----------------
    stored_facts
        Which facts of each group, of these: ``"sum"`` (`FloatSums` of floats, else `IntegerSums`),
        ``"numbers"`` (`FloatSums` of any numbers), ``"products"`` (of the first column and the
        last: with one column of squares; `FloatSums` times 2**1074), ``"weights"`` (`FloatSums` of
        the second column), and ``"least"``, ``"greatest"``, ``"first"``, ``"last"`` (arrays). The
        count is always there.
    """

    stored_facts: ClassVar[tuple[str, ...]]

    def partial_of_facts(
        self, counts: NDArray[np.int64], facts: Mapping[str, Any]
    ) -> list[pa.Array]:
        """Return what ``partial`` would.

        Parameters
        ----------
        counts
            Rows of each group, int64.
        facts
            By name; one entry a group.
        """


class AggregateBundle(ABC):
    """A name for several aggregates of one column, each an output of its own."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def parts(self) -> Mapping[str, Aggregate]:
        """Return the aggregates by what is put behind the name of the output."""


class OrderedValues(Protocol):
    """The values of one group in order, nothing missing among them; more than may be held."""

    @property
    def count(self) -> int:
        """How many values there are: one at least."""

    def at(self, places: Sequence[int]) -> pa.Array:
        """Return the values at some places, ascending, counted from 0; plain."""

    def chunks(self) -> Iterator[pa.Array]:
        """Give all values in order, some at a time; plain."""


@runtime_checkable
class FromOrder(Protocol):
    """An aggregate that can do with few looks at the values of a group in order.

    Without it, all values of the largest group are held at once.
    """

    def from_order(self, values: OrderedValues, column: str | None = None) -> pa.Array:
        """Return the result of one group: what ``compute`` answers for these values, one long."""


_registry: dict[str, type[Aggregate] | type[AggregateBundle]] = {}


def register(cls: _AggregateClass) -> _AggregateClass:
    """Make an aggregate, or a bundle, known under its ``name`` and aliases; a class decorator.

    Expressions may call it from then on: ``sum(price * qty)``.

    Raises
    ------
    AggregateError
        When another aggregate has the name.
    """
    for name in (cls.name, *cls.aliases):
        if name in _registry:
            raise AggregateError(
                f"there is an aggregate {name!r} already",
                hint="give the new one another name",
                name=name,
            )
    for name in (cls.name, *cls.aliases):
        _registry[name] = cls
        declare_aggregate(name)
    return cls


def find_bundle(name: str) -> AggregateBundle | None:
    """Return the bundle of a name; None where it names no bundle."""
    cls = _registry.get(name)
    return cls() if cls is not None and issubclass(cls, AggregateBundle) else None


def bind_aggregate(name: str, arguments: Sequence[Any]) -> tuple[Aggregate, tuple[Any, ...]]:
    """Return the aggregate of a call ``name(*arguments)``, and those of them that are columns.

    Columns come first, one and those of :attr:`Aggregate.further`; parameters follow in the order
    of the aggregate's fields.

    Raises
    ------
    NameNotFoundError
        When there is none of that name, with the nearest.
    AggregateError
        When there are too few or too many arguments.
    """
    cls = _class_of(name)
    given = len(arguments)
    if not cls.reads_values:
        arguments = arguments[1:]  # rows may be counted "of" a column, which is not read
    wanted = ["column", *cls.further] if cls.reads_values else []
    names = [field.name for field in fields(cls)]
    required = [field.name for field in fields(cls) if field.default is MISSING]
    columns, values = tuple(arguments[: len(wanted)]), arguments[len(wanted) :]
    if len(columns) < len(wanted) or not len(required) <= len(values) <= len(names):
        raise AggregateError(
            f"{name} cannot take {given} argument{'' if given == 1 else 's'}",
            hint=f"{name}({', '.join([*wanted, *names])})",
            aggregate=name,
        )
    return cls(**dict(zip(names, values, strict=False))), columns


def find_aggregate(name: str, **parameters: Any) -> Aggregate:
    """Return the aggregate of a name, with its parameters if it has some.

    Raises
    ------
    NameNotFoundError
        When there is none of that name, with the nearest.
    AggregateError
        When it does not take these parameters.
    """
    cls = _class_of(name)
    taken = {field.name for field in fields(cls)}
    required = {field.name for field in fields(cls) if field.default is MISSING}
    if not required <= set(parameters) <= taken:
        raise AggregateError(
            f"aggregate {name!r} takes {_spelled(taken)}, not {_spelled(parameters)}",
            hint="parameters are given by name",
            aggregate=name,
        )
    return cls(**parameters)


def _class_of(name: str) -> type[Aggregate]:
    if name not in _registry:
        raise NameNotFoundError.for_name("aggregate", name, sorted(_registry))
    cls = _registry[name]
    if not issubclass(cls, AggregateBundle):
        return cls
    parts = ", ".join(part.describe("column") for part in cls().parts().values())
    raise AggregateError(
        f"{name!r} is not one aggregate but several: {parts}",
        hint=f'write it as one in agg: agg(x=("column", "{name}"))',
        aggregate=name,
    )


def _spelled(parameters: Iterable[str]) -> str:
    return ", ".join(sorted(parameters)) or "no parameters"


def aggregate_from_json(data: Any) -> Aggregate:
    """Rebuild an aggregate from the form of :meth:`Aggregate.to_json`.

    Raises
    ------
    PlanFormatError
        When ``data`` is not such a form.
    NameNotFoundError, AggregateError
        As :func:`find_aggregate`.
    """
    if isinstance(data, str):
        return find_aggregate(data)
    if isinstance(data, Mapping) and isinstance(data.get("name"), str):
        parameters = {str(key): value for key, value in data.items() if key != "name"}
        return find_aggregate(data["name"], **parameters)
    raise PlanFormatError(
        f"not the plain form of an aggregate: {data!r}",
        hint='write "sum", or {"name": ..., parameters}',
    )


def aggregate_names() -> list[str]:
    """Return the names of all aggregates, without aliases and bundles, sorted."""
    return sorted({cls.name for cls in _registry.values() if issubclass(cls, Aggregate)})


def present(values: Values, codes: Codes) -> tuple[pa.Array, Codes, BoolArray | None]:
    """Return plain values and codes without the missing rows, and which rows were kept.

    Returns
    -------
    values : pyarrow.Array
        Plain, without nulls and NaN.
    codes : numpy.ndarray
        Of those rows.
    kept : numpy.ndarray or None
        Bool, shape ``(rows,)``; None when all were kept.
    """
    array = plain(values)
    missing = missing_rows(array)
    if missing is None:
        return array, codes, None
    kept = ~missing
    return array.filter(pa.array(kept)), codes[kept], kept


def whole_structs(values: Values) -> pa.StructArray:
    """Return structs that are null where one of their fields is missing: no value of the row."""
    columns = [plain(column) for column in values.flatten()]
    missing = [rows for rows in map(missing_rows, columns) if rows is not None]
    mask = pa.array(np.logical_or.reduce(missing)) if missing else None
    names = [field.name for field in values.type]
    return pa.StructArray.from_arrays(columns, names, mask=mask)


def present_together(values: Values, codes: Codes) -> tuple[list[pa.Array], Codes]:
    """Take structs apart and return the rows in which no field is missing.

    Returns
    -------
    columns : list of pyarrow.Array
        One plain array a field, without nulls and NaN.
    codes : numpy.ndarray
        Of those rows.
    """
    columns = [plain(column) for column in values.flatten()]
    missing = [rows for rows in map(missing_rows, columns) if rows is not None]
    if not missing:
        return columns, codes
    kept = ~np.logical_or.reduce(missing)
    mask = pa.array(kept)
    return [column.filter(mask) for column in columns], codes[kept]


def has_compact_state(aggregate: Aggregate) -> bool:
    """Return whether an aggregate merges by states that are small however many rows there are."""
    return isinstance(aggregate, MergeableAggregate) and aggregate.compact


def counts_of(codes: Codes, groups: int) -> NDArray[np.int64]:
    """Return how many rows each group has: int64, shape ``(groups,)``."""
    return np.bincount(codes, minlength=groups).astype(np.int64, copy=False)


def merged_counts(counts: Values, codes: Codes, groups: int) -> NDArray[np.int64]:
    """Add a column of counts into final groups."""
    return added_column(counts, codes, groups)
