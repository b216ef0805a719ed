"""What an aggregate is; those that exist are in :mod:`tessel.clauses.aggregates.registry`.

An aggregate is one frozen dataclass in one file of :mod:`tessel.clauses.aggregates`, registered
under its name. The clauses ``groupby``/``agg`` and ``resample`` give it values and group codes;
it knows nothing of keys, units or threads. Two capabilities exist:

* every :class:`Aggregate` can ``compute`` its result where all rows of its groups are present;
* a :class:`MergeableAggregate` also makes *partials*: its state as plain Arrow columns, which may
  cross process boundaries as an Arrow table, and which merge in any tree to the same bits.

An aggregate of several columns names those after the first in ``further``; its values are then
structs of one field a column. An :class:`AggregateBundle` is a name for several aggregates of one
column, and never reaches a clause.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.errors import AggregateError, shown
from tessel.lazy import dataclass

Codes = NDArray[np.int64]
Values = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs


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
        given = self._given().values()
        return "_".join([self.name, *(v if isinstance(v, str) else shown(v) for v in given)])

    def describe(self, *columns: str) -> str:
        """Return the aggregate of columns as people write it: ``sum(qty)``, ``size()``."""
        told = list(columns) if self.reads_values else []
        told += [f"{name}={shown(value)}" for name, value in self._given().items()]
        return f"{self.name}({', '.join(told)})"

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


def has_compact_state(aggregate: Aggregate) -> bool:
    """Return whether an aggregate merges by states that are small however many rows there are."""
    return isinstance(aggregate, MergeableAggregate) and aggregate.compact
