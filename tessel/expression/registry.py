"""The one table of operators: name → class.

Text calls, JSON, the fluent methods and the kernels find an operator here by its name. A module of
`tessel.expression.operators` enters its classes with `register`; nothing else writes to the table.
Whoever asks for all of them imports the table from there.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from tessel.errors import NameNotFoundError

if TYPE_CHECKING:
    from tessel.expression.node import Expression

__all__ = ["OPERATORS", "make", "operator_class", "register"]

_Class = TypeVar("_Class", bound="type[Expression]")

_operators: dict[str, type[Expression]] = {}

OPERATORS: Mapping[str, type[Expression]] = MappingProxyType(_operators)
"""Every operator by its name, which is also its name as a function in text."""


def register(cls: _Class) -> _Class:
    """Enter an operator class under its ``name``; used as a decorator."""
    if cls.name in _operators:
        raise ValueError(f"two operators are named {cls.name!r}")
    _operators[cls.name] = cls
    return cls


def operator_class(name: str) -> type[Expression]:
    """Return the operator of a name; an unknown one raises with the nearest match."""
    if name not in _operators:
        importlib.import_module("tessel.expression.operators")  # all of them
    if name not in _operators:
        raise NameNotFoundError.for_name("operator", name, sorted(_operators))
    return _operators[name]


def make(name: str, *arguments: object) -> Expression:
    """Make an operator from arguments in the order of its fields; plain values become literals."""
    return operator_class(name).of(*arguments)
