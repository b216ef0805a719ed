"""Converters: what one is, those there are by name, and how one is found before a question runs.

A plug-in package names its converters in the entry-point group ``tessel.converters``::

    [project.entry-points."tessel.converters"]
    fahrenheit = "my_package.fahrenheit:Fahrenheit"

They are imported when a name or a type is looked up that is not known yet, and never before. Ours
are at the end.
"""

from __future__ import annotations

import importlib.metadata
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar, fill_null, numpy_array
from tessel.errors import (
    ColumnNotFoundError,
    ExecutionError,
    InvalidInputError,
    NameNotFoundError,
    TesselError,
    UnsupportedTypeError,
    nearest,
)
from tessel.forking import ChildSafeLock
from tessel.lazy import dataclass
from tessel.store.events.row import Cell


class Converter(ABC):
    """Makes values of one type into values of another, or of another unit.

    It has no state, and any number of threads call it at once. A subclass has a ``name``, and is
    registered with :func:`register_converter`.

    Attributes
    ----------
    name
        By which it is asked for.
    by_name_only
        Whether it is passed over where a type is asked for: it changes what values mean.
    """

    name: ClassVar[str]
    by_name_only: ClassVar[bool] = False

    @abstractmethod
    def makes(self, held: pa.DataType) -> Sequence[pa.DataType]:
        """Return the types that it makes of a type; none where it takes no such values.

        The first is the one made where the converter is asked for by its name.
        """

    @abstractmethod
    def convert(self, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Return as many values of a type that :meth:`makes` said; a missing one stays missing."""


_GROUP = "tessel.converters"
_converters: dict[str, Converter] = {}
_lock = ChildSafeLock()

ConverterType = TypeVar("ConverterType", bound=type[Converter])


def register_converter(cls: ConverterType) -> ConverterType:
    """Register a converter class under its ``name``; use as a decorator.

    Raises
    ------
    InvalidInputError
        For what is no converter, a name that is no identifier, or one that another class has.
    """
    if not isinstance(cls, type) or not issubclass(cls, Converter):
        raise InvalidInputError(f"{cls!r} is no class of converters", hint="subclass Converter")
    name: object = getattr(cls, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidInputError(
            f"{cls.__name__} has no usable name", hint='give it name = "my_unit", an identifier'
        )
    if cls.__abstractmethods__:
        missing = sorted(cls.__abstractmethods__)
        raise InvalidInputError(f"{cls.__name__} has no {missing}", hint="define them")
    with _lock:
        known = _converters.get(name)
        if known is not None and _place(type(known)) != _place(cls):
            raise InvalidInputError(
                f"a converter {name!r} is registered already, by {_place(type(known))}",
                hint=f"choose another name for {_place(cls)}",
            )
        _converters[name] = cls()
    return cls


def find_converter(name: str) -> Converter:
    """Return the converter of a name, loading plug-ins where needed.

    Raises NameNotFoundError for an unknown name, with the nearest one.
    """
    with _lock:
        if name not in _converters:
            _load_plugins(name)
        if name not in _converters:
            raise NameNotFoundError.for_name("converter", name, converter_names())
        return _converters[name]


def converter_to(held: pa.DataType, wanted: pa.DataType) -> Converter:
    """Return a converter between two types, of several the first by name.

    Raises NameNotFoundError where there is none, with the types that can be made.
    """
    with _lock:
        for load in (False, True):
            if load:
                _load_plugins()
            for _, converter in sorted(_converters.items()):
                if not converter.by_name_only and wanted in converter.makes(held):
                    return converter
        made = {
            str(kind)
            for converter in _converters.values()
            if not converter.by_name_only
            for kind in converter.makes(held)
        }
    existing = sorted(made)
    raise NameNotFoundError(
        f"no converter makes {wanted} of {held}",
        hint=f"it can become {', '.join(existing)}" if existing else "nothing is made of it",
        name=str(wanted),
        existing=existing,
        nearest=nearest(str(wanted), existing),
    )


def converter_names() -> list[str]:
    """Return the names of all converters, those of plug-ins not loaded yet included, sorted."""
    found = {point.name for point in importlib.metadata.entry_points(group=_GROUP)}
    return sorted(found | set(_converters))


def _load_plugins(name: str | None = None) -> None:
    """Import the plug-ins of a name, or all that are not known."""
    points = importlib.metadata.entry_points(group=_GROUP)
    for point in points if name is None else points.select(name=name):
        if point.name in _converters:
            continue
        try:
            found = register_converter(point.load())
        except (ImportError, AttributeError) as error:
            raise InvalidInputError(
                f"the plug-in that has the converter {point.name!r} cannot be imported: {error}",
                hint=f"its package names it in the entry point {point.name}={point.value}",
            ) from error
        if found.name != point.name:
            raise InvalidInputError(
                f"a plug-in promises the converter {point.name!r}, and has {found.name!r}",
                hint=f"name the entry point as the converter: {found.name!r}",
            )


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


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

    Raises ColumnNotFoundError for a component that is not asked for; NameNotFoundError for a
    converter that there is not, or a type that none makes; UnsupportedTypeError for a converter
    that does not take the type of the component.

    Parameters
    ----------
    wanted
        By component the name of a converter, or a type.
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


_FLOAT32_BITS, _FLOAT64_BITS = 24, 53
"""Integers of so many bits are floats exactly (IEEE 754)."""


@register_converter
class Wider(Converter):
    """Integers and floats in any wider type that holds all values of theirs, bit for bit.

    By name: in the widest of their kind. ``int64`` has no float, and ``uint64`` no other type.
    """

    name: ClassVar[str] = "wider"

    def makes(self, held: pa.DataType) -> Sequence[pa.DataType]:
        """Return the wider types, the widest of the same kind first."""
        if pa.types.is_floating(held):
            return [kind for kind in _FLOATS if kind.bit_width > held.bit_width]
        if not pa.types.is_integer(held):
            return []
        signed = pa.types.is_signed_integer(held)
        same, other = (_SIGNED, ()) if signed else (_UNSIGNED, _SIGNED)
        wider = [kind for kind in (*same, *other) if kind.bit_width > held.bit_width]
        bits = held.bit_width - signed
        exact = {pa.float64(): _FLOAT64_BITS, pa.float32(): _FLOAT32_BITS}
        return wider + [kind for kind in _FLOATS if bits <= exact[kind]]

    def convert(self, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Return the same numbers."""
        return values.cast(wanted)


_FLOATS = (pa.float64(), pa.float32())
_SIGNED = (pa.int64(), pa.int32(), pa.int16())
_UNSIGNED = (pa.uint64(), pa.uint32(), pa.uint16())


class _Angles(Converter):
    """Angles times a factor, in their own precision."""

    by_name_only: ClassVar[bool] = True
    factor: ClassVar[float]

    def makes(self, held: pa.DataType) -> Sequence[pa.DataType]:
        """Return the same type, for float32 and float64."""
        return [held] if pa.types.is_float32(held) or pa.types.is_float64(held) else []

    def convert(self, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Return the angles in the other unit."""
        return pc.multiply(values, arrow_scalar(self.factor, wanted))


@register_converter
class Degrees(_Angles):
    """Angles that were logged in radians, in degrees: times 180 / π, in their own precision."""

    name: ClassVar[str] = "degrees"
    factor: ClassVar[float] = 180 / math.pi


@register_converter
class Radians(_Angles):
    """Angles that were logged in degrees, in radians: times π / 180, in their own precision."""

    name: ClassVar[str] = "radians"
    factor: ClassVar[float] = math.pi / 180
