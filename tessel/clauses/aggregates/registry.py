"""Which aggregates there are, by name: for calls in expressions, plans and ``agg``.

Our own are imported when they are first named: ``median`` lies in ``median.py``, those of a family
where :data:`_FAMILIES` says.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from tessel.clauses.aggregates.base import Aggregate, AggregateBundle
from tessel.errors import AggregateError, NameNotFoundError, PlanFormatError
from tessel.expression.operators.aggregate import declare_aggregate

_AggregateClass = TypeVar("_AggregateClass", bound="type[Aggregate] | type[AggregateBundle]")

_FAMILIES = {
    **dict.fromkeys(("all", "any", "first", "last", "max", "min", "ohlc"), "selective"),
    **dict.fromkeys(("sem", "std", "var"), "spread"),
    "size": "count",
}

_registry: dict[str, type[Aggregate] | type[AggregateBundle]] = {}


def register(cls: _AggregateClass) -> _AggregateClass:
    """Make an aggregate, or a bundle, known under its ``name`` and aliases; a class decorator.

    Expressions may call it from then on: ``sum(price * qty)``.

    Raises AggregateError when another aggregate has the name.
    """
    if not cls.__module__.startswith(f"{__package__}."):
        _import_all()
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
    cls = _found(name)
    return cls() if cls is not None and issubclass(cls, AggregateBundle) else None


def bind_aggregate(name: str, arguments: Sequence[Any]) -> tuple[Aggregate, tuple[Any, ...]]:
    """Return the aggregate of a call ``name(*arguments)``, and those of them that are columns.

    Columns come first, one and those of :attr:`Aggregate.further`; parameters follow in the order
    of the aggregate's fields.

    Raises NameNotFoundError when there is none of that name, with the nearest; AggregateError when
    there are too few or too many arguments.
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

    Raises NameNotFoundError when there is none of that name, with the nearest; AggregateError when
    it does not take these parameters.
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
    cls = _found(name)
    if cls is None:
        raise NameNotFoundError.for_name("aggregate", name, sorted(_registry))
    if not issubclass(cls, AggregateBundle):
        return cls
    parts = ", ".join(part.describe("column") for part in cls().parts().values())
    raise AggregateError(
        f"{name!r} is not one aggregate but several: {parts}",
        hint=f'write it as one in agg: agg(x=("column", "{name}"))',
        aggregate=name,
    )


def _found(name: str) -> type[Aggregate] | type[AggregateBundle] | None:
    if name.isupper():  # as SQL writes them
        name = name.lower()
    if name not in _registry:
        path, home = sys.modules[__package__].__path__, _FAMILIES.get(name, name)
        if home in {module.name for module in pkgutil.iter_modules(path)}:
            importlib.import_module(f"{__package__}.{home}")
        else:  # another name of one of ours, or of none
            _import_all()
    return _registry.get(name)


def _import_all() -> None:
    for module in pkgutil.iter_modules(sys.modules[__package__].__path__):
        importlib.import_module(f"{__package__}.{module.name}")


def _spelled(parameters: Iterable[str]) -> str:
    return ", ".join(sorted(parameters)) or "no parameters"


def aggregate_from_json(data: Any) -> Aggregate:
    """Rebuild an aggregate from the form of :meth:`Aggregate.to_json`.

    Raises PlanFormatError when ``data`` is not such a form; NameNotFoundError or AggregateError as
    :func:`find_aggregate`.
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
    _import_all()
    return sorted({cls.name for cls in _registry.values() if issubclass(cls, Aggregate)})
