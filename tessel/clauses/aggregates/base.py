"""What an aggregate is, and the registry of those that exist.

An aggregate is one frozen dataclass in one file of :mod:`tessel.clauses.aggregates`, registered
under its name. The clauses ``groupby``/``agg`` and ``resample`` give it values and group codes;
it knows nothing of keys, units or threads. Two powers exist:

* every :class:`Aggregate` can ``compute`` its result where all rows of its groups are present;
* a :class:`MergeableAggregate` also makes *partials*: its state as plain Arrow columns, which may
  cross process boundaries as an Arrow table, and which merge in any tree to the same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.values import BoolArray, missing_rows, plain
from tessel.errors import AggregateError, NameNotFoundError, PlanFormatError

__all__ = [
    "Aggregate",
    "Codes",
    "FromSums",
    "MergeableAggregate",
    "aggregate_from_json",
    "aggregate_names",
    "counts_of",
    "find_aggregate",
    "merged_counts",
    "present",
    "register",
]

Codes = NDArray[np.int64]
Values = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs
_AggregateClass = TypeVar("_AggregateClass", bound="type[Aggregate]")


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
    """

    name: ClassVar[str]
    mergeable: ClassVar[bool] = False
    reads_values: ClassVar[bool] = True

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

    def describe(self, column: str) -> str:
        """Return the aggregate of a column as people write it: ``sum(qty)``, ``size()``."""
        shown = [column] if self.reads_values else []
        shown += [f"{name}={value!r}" for name, value in asdict(self).items()]
        return f"{self.name}({', '.join(shown)})"

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
    """An aggregate whose state over some rows is enough to merge with that of other rows."""

    mergeable: ClassVar[bool] = True

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
class FromSums(Protocol):
    """A mergeable aggregate whose state follows from the count and the exact sum of each group.

    Without it, the values of a column are decoded. Counts and sums come from one pass over what is
    stored, whatever the number of aggregates; it is asked only where no value is missing.
    """

    @property
    def needs_sum(self) -> bool:
        """Whether the sum is wanted, or the count alone."""

    def partial_of_sums(self, counts: NDArray[np.int64], sums: Any) -> list[pa.Array]:
        """Return what ``partial`` would.

        Parameters
        ----------
        counts
            Rows of each group, int64.
        sums
            ``FloatSums`` or ``IntegerSums`` of the column; None where it is not summed.
        """


_registry: dict[str, type[Aggregate]] = {}


def register(cls: _AggregateClass) -> _AggregateClass:
    """Make an aggregate known under its ``name``; a class decorator.

    Raises
    ------
    AggregateError
        When another aggregate has the name.
    """
    if cls.name in _registry:
        raise AggregateError(
            f"there is an aggregate {cls.name!r} already",
            hint="give the new one another name",
            name=cls.name,
        )
    _registry[cls.name] = cls
    return cls


def find_aggregate(name: str, **parameters: Any) -> Aggregate:
    """Return the aggregate of a name, with its parameters if it has some.

    Raises
    ------
    NameNotFoundError
        When there is none of that name, with the nearest.
    AggregateError
        When it does not take these parameters.
    """
    if name not in _registry:
        raise NameNotFoundError.for_name("aggregate", name, aggregate_names())
    cls = _registry[name]
    taken = {field.name for field in fields(cls)}
    required = {field.name for field in fields(cls) if field.default is MISSING}
    if not required <= set(parameters) <= taken:
        raise AggregateError(
            f"aggregate {name!r} takes {_spelled(taken)}, not {_spelled(parameters)}",
            hint="parameters are given by name",
            aggregate=name,
        )
    return cls(**parameters)


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
    """Return the names of all aggregates, sorted."""
    return sorted(_registry)


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


def counts_of(codes: Codes, groups: int) -> NDArray[np.int64]:
    """Return how many rows each group has: int64, shape ``(groups,)``."""
    return np.bincount(codes, minlength=groups).astype(np.int64, copy=False)


def merged_counts(counts: Values, codes: Codes, groups: int) -> NDArray[np.int64]:
    """Add a column of counts into final groups."""
    merged = np.zeros(groups, np.int64)
    np.add.at(merged, codes, plain(counts).to_numpy(zero_copy_only=False))
    return merged
