"""Converters by name: our own, those registered by a decorator, those of installed plug-ins.

A plug-in package names its converters in the entry-point group ``tessel.converters``::

    [project.entry-points."tessel.converters"]
    fahrenheit = "my_package.fahrenheit:Fahrenheit"

They are imported when a name or a type is looked up that is not known yet, and never before.
"""

from __future__ import annotations

import importlib.metadata
import os
import threading
from typing import TypeVar

import pyarrow as pa

from tessel.errors import InvalidInputError, NameNotFoundError, nearest
from tessel.store.events.converters.base import Converter

__all__ = ["converter_names", "converter_to", "find_converter", "register_converter"]

_GROUP = "tessel.converters"
_converters: dict[str, Converter] = {}
_lock = threading.RLock()

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

    Raises
    ------
    NameNotFoundError
        For an unknown name, with the nearest one.
    """
    with _lock:
        if name not in _converters:
            _load_plugins(name)
        if name not in _converters:
            raise NameNotFoundError.for_name("converter", name, converter_names())
        return _converters[name]


def converter_to(held: pa.DataType, wanted: pa.DataType) -> Converter:
    """Return a converter between two types, of several the first by name.

    Raises
    ------
    NameNotFoundError
        Where there is none, with the types that can be made.
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


def _renew_lock() -> None:
    """Give a forked child a lock that nobody holds."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)
