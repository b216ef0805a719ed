"""The one table of operators: name → class.

Text calls, JSON and the fluent methods find an operator here by its name. A module of
`tessel.expression.operators` enters a class by declaring it with a name (see `Expression`).
The modules are imported one after another until one of them has the name that is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from tessel.errors import NameNotFoundError

if TYPE_CHECKING:
    from tessel.expression.node import Expression

_Class = TypeVar("_Class", bound="type[Expression]")

_operators: dict[str, type[Expression]] = {}

_MODULES = (
    *("comparison", "boolean", "arithmetic", "membership"),
    *("casting", "text", "time", "aggregate"),
)
"""The modules of operators, those of most queries first."""


def all_operators() -> Mapping[str, type[Expression]]:
    """Return every operator by its name, which is also its name as a function in text."""
    for module in _MODULES:
        importlib.import_module(f"tessel.expression.operators.{module}")
    return _operators


def register(cls: _Class) -> _Class:
    """Enter an operator class under its ``name``."""
    if cls.name in _operators:
        raise ValueError(f"two operators are named {cls.name!r}")
    _operators[cls.name] = cls
    return cls


def operator_class(name: str) -> type[Expression]:
    """Return the operator of a name; an unknown one raises with the nearest match."""
    for module in _MODULES:
        if name in _operators:
            break
        importlib.import_module(f"tessel.expression.operators.{module}")
    if name not in _operators:
        raise NameNotFoundError.for_name("operator", name, sorted(_operators))
    return _operators[name]


def make(name: str, *arguments: object) -> Expression:
    """Make an operator from arguments in the order of its fields; plain values become literals."""
    return operator_class(name).of(*arguments)
