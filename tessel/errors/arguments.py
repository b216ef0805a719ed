"""Raw errors of wrong arguments, told as what they are: the annotation says what was wanted.

Public classes and functions enter here, by the decorator :func:`checks_arguments`. A call costs
nothing more and takes whatever works. Only when it raises an error that is none of ours, its
arguments, and the fields of a dataclass whose method it is, are compared with their annotations:
if one does not fit, that is the error. See ``docs/decisions/0039``.
"""

from __future__ import annotations

import ast
import collections.abc
import dataclasses
import errno
import functools
import importlib
import inspect
import itertools
import numbers
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tessel.errors.execution import ExecutionError
from tessel.errors.invalid_input import (
    ArgumentCountError,
    InvalidInputError,
    UnknownArgumentError,
)
from tessel.errors.root import TesselError
from tessel.lazy import MadeLater

__all__ = ["check_nesting", "checks_arguments", "explain_misfits", "names_ours", "refuses"]

Public = TypeVar("Public", bound=Callable[..., Any])

_MOST_LOOKED_AT = 1000


def checks_arguments(public: Public) -> Public:
    """Decorate a public function, or all public methods of a class."""
    if not isinstance(public, type):
        return typing.cast(Public, _checked(public, public.__qualname__))
    for name, member in list(vars(public).items()):
        function = getattr(member, "__func__", member)
        if not isinstance(function, types.FunctionType | MadeLater):
            continue
        if name.startswith("_") and name not in _SPECIAL:
            continue
        checked = _checked(function, public.__name__ if name == "__init__" else name)
        bound = isinstance(member, classmethod | staticmethod)
        setattr(public, name, type(member)(checked) if bound else checked)
    return public


def names_ours(*kinds: str) -> Callable[[Any, str], Any]:
    """Return a ``__getattr__`` whose error names ours, for attributes that objects lack.

    Parameters
    ----------
    kinds
        What the objects are, as in :attr:`tessel.errors.foreign_names.ForeignName.on`.
    """

    def missing(self: Any, name: str) -> Any:
        if name.startswith("_"):  # others ask for these to see what an object is
            raise AttributeError(name)
        from tessel.errors.foreign_names import missing_attribute

        return missing_attribute(self, name, *kinds)

    return missing


def refuses(what: str, hint: str) -> Callable[..., Any]:
    """Return a special method that objects lack: its error says what they have in its place.

    ``{}`` in either text stands for the name of the object's class.
    """

    def refused(self: Any, *_: Any) -> Any:
        from tessel.errors.stores import UnknownVerbError

        name = type(self).__name__
        raise UnknownVerbError(what.format(name), hint=hint.format(name))

    return refused


_SPECIAL = {
    *("__init__", "__call__", "__getitem__", "__repr__", "__hash__", "__eq__"),
    *(f"__{side}{name}__" for side in ("", "r") for name in ("add", "sub", "mul", "truediv")),
    *(f"__{side}{name}__" for side in ("", "r") for name in ("floordiv", "mod", "pow", "and")),
    *("__or__", "__ror__", "__xor__", "__lt__", "__le__", "__gt__", "__ge__", "__ne__"),
}


def _checked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generated(*positional: Any, **named: Any) -> Iterator[Any]:
            try:
                yield from function(*positional, **named)
            except Exception as error:
                explain_misfits(function, name, positional, named, error)
                raise

        return generated

    @functools.wraps(function)
    def called(*positional: Any, **named: Any) -> Any:
        try:
            return function(*positional, **named)
        except Exception as error:
            explain_misfits(function, name, positional, named, error)
            raise

    return called


def explain_misfits(
    function: Callable[..., Any],
    name: str,
    positional: tuple[Any, ...],
    named: dict[str, Any],
    error: Exception,
) -> None:
    """Raise ``InvalidInputError`` for the first argument that does not fit its annotation.

    Where the process has no handles left, that is told: an import on first use needs some.
    """
    if isinstance(error, TesselError | MemoryError):
        return
    if isinstance(error, OSError):
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise ExecutionError.no_handles(name) from error
        return
    signature = inspect.signature(function)
    try:
        given = signature.bind(*positional, **named).arguments
    except TypeError as unfit:
        known = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
        made_by = getattr(positional[0], "_made_by", "") if function.__name__ == "__init__" else ""
        if made_by:
            cls = type(positional[0]).__name__
            raise ArgumentCountError(
                f"a {cls} is not made by its class", hint=made_by, function=cls
            ) from error
        if all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in known):
            names = [each.name for each in known]
            for unknown in (each for each in named if each not in names):
                raise UnknownArgumentError.for_name(name, unknown, names) from error
        plain = [each.replace(annotation=inspect.Parameter.empty) for each in known]
        call = f"{name}{inspect.Signature(plain)}"
        raise ArgumentCountError.for_call(name, unfit, call) from error
    if isinstance(error, RecursionError):
        raise InvalidInputError.too_deep(name) from error
    scope = _Scope(sys.modules[function.__module__])
    for parameter in signature.parameters.values():
        if parameter.name not in given:
            continue
        wanted = _resolved(parameter.annotation, scope)
        value = given[parameter.name]
        many: tuple[Any, ...] = (value,)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            many = value
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            many = tuple(value.values())
        is_self = parameter.name == "self" and dataclasses.is_dataclass(value)
        for each in many:
            found = _misfit_of_fields(each) if is_self else _misfit(wanted, each, parameter.name)
            if found is not None:
                raise InvalidInputError.for_argument(name, *found) from error


class _Scope(dict[str, Any]):
    """The names of a module, with those that it imports for type checkers only."""

    def __init__(self, module: types.ModuleType) -> None:
        super().__init__(vars(module))
        self._module = module

    def __missing__(self, name: str) -> Any:
        for node in ast.walk(ast.parse(inspect.getsource(self._module))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for each in node.names:
                    if name == (each.asname or each.name):
                        return getattr(importlib.import_module(node.module), each.name)
        raise KeyError(name)


def _resolved(annotation: Any, scope: _Scope) -> Any:
    """Return what an annotation stands for; Any where that cannot be found."""
    if not isinstance(annotation, str):
        return Any if annotation is inspect.Parameter.empty else annotation
    try:
        return eval(annotation, {}, scope)
    except Exception:
        return Any


_DEEPEST = 64
"""Lists in lists past which Arrow's own formats give up; a list of itself has no end to it."""


def check_nesting(values: object, depth: int = 0) -> None:
    """Raise ``InvalidInputError`` for Python lists so deep that Arrow would end the process."""
    if depth > _DEEPEST:
        raise InvalidInputError.too_deep("values")
    if isinstance(values, dict):
        values = list(values.values())
    if type(values) in _NESTS and not _NESTS.isdisjoint(map(type, values)):  # type: ignore[call-overload]
        for each in values:  # type: ignore[attr-defined]
            check_nesting(each, depth + 1)


_NESTS: frozenset[type] = frozenset((list, tuple, dict, set, frozenset))


Misfit = tuple[str, str, Any]
"""The place of a value, what is wanted there, and the value."""


def _misfit(wanted: Any, value: Any, place: str) -> Misfit | None:
    """Return what does not fit an annotation in a value, or None where all of it may."""
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        ways = [_misfit(each, value, place) for each in inner]
        if None in ways:
            return None
        deeper = [each for each in ways if each is not None and each[0] != place]
        return deeper[0] if deeper else (place, _told(wanted), value)
    if origin is typing.Literal:
        fits = isinstance(value, str | int | None) and value in inner
        return None if fits else (place, _told(wanted), value)
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return _misfit_of_items(origin, inner, wanted, value, place)
    if wanted in _FITTING:
        return None if _FITTING[wanted](value) else (place, _told(wanted), value)
    if origin is collections.abc.Callable:
        return None if callable(value) else (place, _told(wanted), value)
    plain = origin if isinstance(origin, type) else wanted
    if not isinstance(plain, type) or plain is object or getattr(plain, "_is_protocol", False):
        return None
    if not isinstance(value, plain):
        return place, _told(wanted), value
    found = _misfit_of_fields(value) if dataclasses.is_dataclass(value) else None
    return None if found is None else (f"{place}: {found[0]}", *found[1:])


_LISTS: dict[type, Any] = {
    tuple: tuple | list,
    **dict.fromkeys((list, collections.abc.Sequence), collections.abc.Iterable),
}
"""What works as well where a list is wanted."""


def _misfit_of_items(
    origin: type, inner: tuple[Any, ...], wanted: Any, value: Any, place: str
) -> Misfit | None:
    if issubclass(origin, collections.abc.Mapping):
        if not isinstance(value, collections.abc.Mapping):
            return place, _told(wanted), value
        key, item = inner or (Any, Any)
        pairs = list(value.items())[:_MOST_LOOKED_AT]
        misfits = [_misfit(key, each, f"a key of {place}") for each, _ in pairs]
        misfits += [_misfit(item, each, f"{place}[{at!r:.40}]") for at, each in pairs]
        return next((each for each in misfits if each is not None), None)
    if isinstance(value, str | bytes) or not isinstance(value, _LISTS.get(origin, origin)):
        return place, _told(wanted), value
    if getattr(value, "ndim", 1) == 0:
        return place, _told(wanted), value
    if isinstance(value, collections.abc.Iterator):
        # What it gave is used up. Where a list is wanted, it is the first suspect.
        fits = issubclass(collections.abc.Iterator, origin)
        return None if fits else (place, _told(wanted), value)
    value = list(itertools.islice(value, _MOST_LOOKED_AT))
    kinds = inner or (Any,)
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        if len(value) != len(inner):
            return place, _told(wanted), value
    else:
        kinds = (kinds[0],) * len(value)
    for at, (kind, each) in enumerate(zip(kinds, value, strict=False)):
        found = _misfit(kind, each, f"{place}[{at}]")
        if found is not None:
            return found
    return None


def _misfit_of_fields(value: Any) -> Misfit | None:
    """Return what does not fit in the fields of a dataclass."""
    cls = type(value)
    for field in dataclasses.fields(value):
        owner = next(
            each for each in cls.__mro__ if field.name in vars(each).get("__annotations__", {})
        )
        wanted = _resolved(field.type, _Scope(sys.modules[owner.__module__]))
        found = _misfit(wanted, getattr(value, field.name, None), field.name)
        if found is not None:
            return found
    return None


_SURROGATES = "[\ud800-\udfff]"
"""Halves of characters, which text in UTF-8 cannot hold."""


def _is_number(value: Any, kind: type) -> bool:
    spans = getattr(getattr(value, "dtype", None), "kind", "") == "m"  # to numpy, integers
    return isinstance(value, kind) and not isinstance(value, bool) and not spans


_FITTING: dict[Any, Callable[[Any], bool]] = {
    Any: lambda value: True,
    object: lambda value: True,
    None: lambda value: value is None,
    type(None): lambda value: value is None,
    str: lambda value: isinstance(value, str) and not re.search(_SURROGATES, value),
    bool: lambda value: isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"),
    int: lambda value: _is_number(value, numbers.Integral),
    float: lambda value: _is_number(value, numbers.Real),
    bytes: lambda value: isinstance(value, bytes | bytearray | memoryview),
}

_WORDS: dict[Any, str] = {
    None: "None",
    type(None): "None",
    Any: "anything",
    str: "text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    os.PathLike: "a path",
}


def _told(wanted: Any) -> str:
    """Return an annotation in words."""
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted in _WORDS:
        return _WORDS[wanted]
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_told(each) for each in inner))
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    if origin is collections.abc.Callable:
        return "a function"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return f"a mapping from {_told(inner[0])} to {_told(inner[1])}"
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"({', '.join(map(_told, inner))})"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return f"a list of {_told(inner[0])}"
    return str(getattr(wanted, "__name__", wanted))
