"""What is made when it is first used: names of a package, and methods of a dataclass.

A package lists here what its users find in it (PEP 562). Our own modules import from where a name
lies, so that what one module needs is all that it imports: a package that imports all of its
modules makes each of them pay for all.

:func:`dataclass` is that of the standard library, which writes and compiles the source of up to
seven methods for each class while its module is imported: a script of one query spent more time on
that than on its query, and most of these methods are never called. Here a class has its fields at
once, and a method is made by the standard library when somebody calls it. All else is as there:
fields, parameters, equality, order, text, errors, also for those who derive from a class in either
way. But a wrong order of fields is told by the first call, and there are no ``InitVar``.
"""

from __future__ import annotations

import abc
import dataclasses
import importlib
import inspect
import operator
import reprlib
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

__all__ = ["dataclass", "names_from"]


def names_from(package: str, homes: Mapping[str, str], **renamed: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    Parameters
    ----------
    package
        Its name.
    homes
        Modules, relative to the package, and the names that lie in each, separated by spaces.
    renamed
        Names of the package for names of those.
    """
    places = {name: module for module, names in homes.items() for name in names.split()}

    def imported(name: str) -> Any:
        there = renamed.get(name, name)
        if there not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{places[there]}"), there)
        setattr(sys.modules[package], name, value)  # from now on Python finds it by itself
        return value

    return imported


def _dataclass(
    cls: type | None = None,
    /,
    *,
    init: bool = True,
    repr: bool = True,  # noqa: A002  (as the standard library calls it)
    eq: bool = True,
    order: bool = False,
    frozen: bool = False,
    slots: bool = False,
) -> Any:
    """Make a class a dataclass; parameters are those of ``dataclasses.dataclass``."""

    def decorate(cls: type) -> Any:
        own = dict(vars(cls))
        # A class that says how it is equal, and not more, has None there.
        is_hashed = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
        # Over other dataclasses the standard library says which may be frozen.
        is_derived = hasattr(cls, "__dataclass_fields__")
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # else the standard library asks for the signature
        made: Any = dataclasses.dataclass(
            init=False, repr=False, eq=False, frozen=frozen and is_derived, slots=slots
        )(cls)
        options = {"init": init, "repr": repr, "eq": eq, "order": order, "frozen": frozen}
        for name, value in options.items():
            setattr(made.__dataclass_params__, name, value)
        if frozen and not is_derived:
            made.__setattr__, made.__delattr__ = _set_unless_frozen, _delete_unless_frozen
            if slots and "__getstate__" not in own:
                made.__getstate__, made.__setstate__ = _state, _set_state
        if eq and not is_hashed:
            made.__hash__ = _made_later(made, "__hash__") if frozen else None
        asked = {"__init__": init, "__repr__": repr, "__eq__": eq, **dict.fromkeys(_ORDER, order)}
        for name in (name for name, is_asked in asked.items() if is_asked and name not in own):
            setattr(made, name, _made_later(made, name))
        if init and "__init__" not in own:
            made.__signature__ = _Signature(made)
        return abc.update_abstractmethods(made)

    return decorate if cls is None else decorate(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")


def _made_later(cls: type, name: str) -> Callable[..., Any]:
    """Return what makes a method when it is called, and puts it in its own place."""
    found: list[Callable[..., Any]] = []

    def made() -> Callable[..., Any]:
        if not found:
            found.append(_made(cls, name))
            method.__wrapped__ = found[0]  # who asks for the signature finds it
            if vars(cls).get(name) is method:  # else a decorator has it
                setattr(cls, name, found[0])
        return found[0]

    def of_any(self: Any, /, *positional: Any, **named: Any) -> Any:
        return made()(self, *positional, **named)

    def of_one(self: Any) -> Any:
        return made()(self)

    def of_two(self: Any, other: Any) -> Any:
        return made()(self, other)

    methods: dict[str, Any] = {"__init__": of_any, "__repr__": of_one, "__hash__": of_one}
    method: Any = methods.get(name, of_two)
    method.__name__, method.__module__ = name, cls.__module__
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return cast(Callable[..., Any], method)


def _made(cls: Any, name: str) -> Callable[..., Any]:
    """Return a method of a dataclass.

    Only ``__init__`` is compiled: the others are as fast over what ``operator.attrgetter`` gets.
    """
    if name == "__init__":
        method = _init_of(cls)
    elif name == "__repr__":
        method = _repr_of([each.name for each in dataclasses.fields(cls) if each.repr])
    elif name == "__hash__":
        hashed = [e for e in dataclasses.fields(cls) if (e.compare if e.hash is None else e.hash)]
        method = _hash_of(_values_of([each.name for each in hashed]))
    else:
        compared = [each.name for each in dataclasses.fields(cls) if each.compare]
        method = _comparison_of(name, _values_of(compared))
    method.__name__, method.__module__ = name, cls.__module__
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


class _FromFactory:
    """What stands for a value that is made anew for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FROM_FACTORY = _FromFactory()


def _init_of(cls: Any) -> Callable[..., Any]:
    """Return the ``__init__`` that the standard library would write, of less source."""
    fields = dataclasses.fields(cls)
    itself = "self" if all(each.name != "self" for each in fields) else "_itself"
    sets = cls.__dataclass_params__.frozen
    scope: dict[str, Any] = {"_set": object.__setattr__, "_FROM_FACTORY": _FROM_FACTORY}
    lines: list[str] = []
    given: dict[bool, list[str]] = {False: [], True: []}
    optional = ""
    for each in fields:
        known, name, value = f"_of_{each.name}", each.name, each.name
        is_made = each.default_factory is not dataclasses.MISSING
        is_known = is_made or each.default is not dataclasses.MISSING
        by_name = each.kw_only is True
        if is_known:
            scope[known] = each.default_factory if is_made else each.default
        if each.init:
            if is_made:
                value = f"{known}() if {name} is _FROM_FACTORY else {name}"
            default = "" if not is_known else "=_FROM_FACTORY" if is_made else f"={known}"
            given[by_name].append(name + default)
            if optional and not is_known and not by_name:
                raise TypeError(
                    f"non-default argument {name!r} follows default argument {optional}"
                )
            optional = repr(name) if is_known and not by_name else optional
        elif is_made or (is_known and "__slots__" in vars(cls)):  # slots hold no defaults
            value = f"{known}()" if is_made else known
        else:
            continue
        lines.append(f"_set({itself}, {name!r}, {value})" if sets else f"{itself}.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(f"{itself}.__post_init__()")
    arguments = [itself, *given[False], *(["*", *given[True]] if given[True] else [])]
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(arguments)}):\n {body}", scope)
    method: Callable[..., Any] = scope["__init__"]
    method.__annotations__ = {each.name: each.type for each in fields if each.init}
    method.__annotations__["return"] = None
    return method


def _repr_of(names: list[str]) -> Callable[..., Any]:
    @reprlib.recursive_repr()
    def shown(self: Any) -> str:
        told = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({told})"

    return shown


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what gets attributes of an object, always as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda each: tuple(getattr(each, name) for name in names)


def _hash_of(values: Callable[[Any], tuple[Any, ...]]) -> Callable[..., Any]:
    def hashed(self: Any) -> int:
        return hash(values(self))

    return hashed


def _comparison_of(name: str, values: Callable[[Any], tuple[Any, ...]]) -> Callable[..., Any]:
    compare = getattr(operator, name)

    def compared(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compare(values(self), values(other))

    return compared


class _Signature:
    """The signature of a dataclass, made when it is asked for."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if instance is not None or owner is not self._cls:
            raise AttributeError("__signature__")
        signature = inspect.signature(_made(owner, "__init__"))
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def _set_unless_frozen(self: Any, name: str, value: object) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delete_unless_frozen(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: Any, name: str) -> bool:
    """Return whether an attribute may not be set: a plain class over a frozen one has its own."""
    return "__dataclass_params__" in vars(type(self)) or name in self.__dataclass_fields__


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
