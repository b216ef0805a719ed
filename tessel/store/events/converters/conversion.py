"""Conversion: a converter and what it is to make of a component, found before a question runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, fill_null, numpy_array
from tessel.errors import (
    ColumnNotFoundError,
    ExecutionError,
    InvalidInputError,
    TesselError,
    UnsupportedTypeError,
)
from tessel.lazy import dataclass
from tessel.store.events.cell import Cell
from tessel.store.events.converters.base import Converter
from tessel.store.events.converters.registry import converter_to, find_converter

__all__ = ["Conversion", "Wanted", "conversions"]

Wanted: TypeAlias = Mapping[str, str | pa.DataType]
"""By component the name of a converter, or the type that its values are wanted in."""


@dataclass(frozen=True)
class Conversion:
    """What becomes of the values of one component."""

    component: str
    converter: Converter
    kind: pa.DataType

    def cell(self, cell: Cell) -> Cell:
        """Return a cell converted."""
        return Cell(cell.component, self._values(cell.values))

    def column(self, table: pa.Table) -> pa.Table:
        """Return a table with the column of the component, of lists of values, converted."""
        at = table.schema.get_field_index(self.component)
        chunks = [self._lists(chunk) for chunk in table.column(at).chunks]
        column = pa.chunked_array(chunks, pa.large_list(self.kind))
        return table.set_column(at, pa.field(self.component, column.type), column)

    def _lists(self, lists: pa.Array) -> pa.Array:
        values = self._values(lists.flatten())
        lengths = numpy_array(fill_null(lists.value_lengths(), 0))
        offsets = arrow_array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
        mask = lists.is_null() if lists.null_count else None
        return pa.LargeListArray.from_arrays(offsets, values, pa.large_list(self.kind), mask=mask)

    def _values(self, values: pa.Array) -> pa.Array:
        """Return values converted; refuse what a converter should not have made of them."""
        try:
            made = self.converter.convert(values, self.kind)
        except TesselError:
            raise
        except Exception as error:
            raise ExecutionError(
                f"the converter {self.converter.name!r} failed on component {self.component!r}: "
                f"{error!r}",
                hint="ask without it to see what is there",
                component=self.component,
            ) from error
        if isinstance(made, pa.ChunkedArray):
            made = made.combine_chunks()
        if not isinstance(made, pa.Array) or made.type != self.kind or len(made) != len(values):
            shown = f"{len(made)} of {made.type}" if isinstance(made, pa.Array) else repr(made)[:80]
            raise ExecutionError(
                f"the converter {self.converter.name!r} made {shown} of {len(values)} values of "
                f"component {self.component!r}, not {self.kind}",
                component=self.component,
            )
        return made


def conversions(
    wanted: Wanted | None,
    components: Sequence[str],
    kind_of: Callable[[str], pa.DataType],
) -> list[Conversion]:
    """Return the conversions that a question needs; none for a type that a component has.

    Parameters
    ----------
    wanted
        By component the name of a converter, or a type.
    components
        Those that are asked for.
    kind_of
        Gives the type of a component.

    Raises
    ------
    ColumnNotFoundError
        For a component that is not asked for.
    NameNotFoundError
        For a converter that there is not, or a type that none makes.
    UnsupportedTypeError
        For a converter that does not take the type of the component.
    """
    if wanted is None:
        return []
    if not isinstance(wanted, Mapping):
        raise InvalidInputError(
            f"convert is {wanted!r:.80}", hint='give a mapping: {"angle": "degrees"}'
        )
    found = []
    for component, how in wanted.items():
        if component not in components:
            raise ColumnNotFoundError.for_name(component, list(components), where="this question")
        held = kind_of(component)
        if isinstance(how, pa.DataType):
            if how != held:
                found.append(Conversion(component, converter_to(held, how), how))
        elif isinstance(how, str):
            converter = find_converter(how)
            made = converter.makes(held)
            if not made:
                raise UnsupportedTypeError(
                    f"the converter {how!r} does not take {held}, which component {component!r} is",
                    component=component,
                )
            found.append(Conversion(component, converter, made[0]))
        else:
            raise InvalidInputError(
                f"component {component!r} is to be converted to {how!r:.80}",
                hint="give the name of a converter, or an Arrow type",
                component=component,
            )
    return found
