"""What is made when it is first used: names of a package, and methods of a dataclass.

A package lists here what its users find in it (PEP 562). Our own modules import from where a name
lies, so that what one module needs is all that it imports: a package that imports all of its
modules makes each of them pay for all.

:func:`dataclass` is that of the standard library, which looks at each field and writes and compiles
the source of up to seven methods for each class while its module is imported: a script of one query
spent more time on that than on its query, and most of these methods are never called. Here fields
are looked at when somebody asks for them, and a method is made when somebody calls it; ``__init__``
alone is compiled, once for all classes with fields in the same places. All else is as there:
fields, parameters, equality, order, text, errors, also for those who derive from a class in either
way. But a wrong order of fields is told when ``__init__`` is made, and there are no ``InitVar`` and
``KW_ONLY``.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import operator
import reprlib
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

__all__ = ["MadeLater", "dataclass", "names_from"]


def names_from(
    package: str, homes: Mapping[str, str], *, asked_by_users: bool = False, **renamed: str
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    Parameters
    ----------
    package
        Its name.
    homes
        Modules, relative to the package, and the names that lie in each, separated by spaces.
    asked_by_users
        Whether the error for a name that is not there says which one is.
    renamed
        Names of the package for names of those.
    """
    places = {name: module for module, names in homes.items() for name in names.split()}

    def imported(name: str) -> Any:
        there = renamed.get(name, name)
        if there not in places:
            is_private = name.startswith("_") or importlib.util.find_spec(f"{package}.{name}")
            if asked_by_users and not is_private:  # nor a module, which an import asks for first
                names = importlib.import_module(f"{package}.errors.foreign_names")
                return names.missing_attribute(sys.modules[package], name, "module")
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
        own = vars(cls)
        # A class that says how it is equal, and not more, has None there.
        is_hashed = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
        declared = _Declared(cls, frozen)
        members: dict[str, Any] = {
            "__doc__": cls.__name__ if cls.__doc__ is None else cls.__doc__,
            "__dataclass_fields__": _Asked(declared, "__dataclass_fields__"),
            "__dataclass_params__": _parameters(init, repr, eq, order, frozen, slots),
        }
        if frozen:
            members |= {"__setattr__": _set_unless_frozen, "__delattr__": _delete_unless_frozen}
        if eq and not is_hashed:
            members["__hash__"] = MadeLater(declared, "__hash__") if frozen else None
        # What follows gives way to what a class has of its own.
        made_later = ["__init__"] * init + ["__repr__"] * repr + ["__eq__"] * eq + _ORDER * order
        given: dict[str, Any] = {name: MadeLater(declared, name) for name in made_later}
        given["__match_args__"] = _Asked(declared, "__match_args__")
        if frozen and slots:
            given |= {"__getstate__": _state, "__setstate__": _set_state}
        if init:
            given["__signature__"] = _Signature(declared)
        members |= {name: each for name, each in given.items() if name not in own}
        return abc.update_abstractmethods(declared.finish(members, slots))

    return decorate if cls is None else decorate(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass

_ORDER = ["__lt__", "__le__", "__gt__", "__ge__"]


@functools.cache
def _parameters(*values: bool) -> Any:
    made: Any = dataclasses.make_dataclass("_", (), init=False, repr=False, eq=False)
    parameters = made.__dataclass_params__
    names = ("init", "repr", "eq", "order", "frozen", "slots")
    for name, value in zip(names, values, strict=True):
        if hasattr(parameters, name):  # `slots` since Python 3.12
            setattr(parameters, name, value)
    return parameters


class _Declared:
    """What a class declares: its own fields, and those of its bases."""

    def __init__(self, cls: type, frozen: bool) -> None:
        self.cls, self.frozen = cls, frozen
        annotations = cls.__annotations__.items()
        self.kinds = {name: kind for name, kind in annotations if not _is_of_class(kind)}
        self.values: dict[str, Any] = {
            name: getattr(cls, name, dataclasses.MISSING) for name in self.kinds
        }
        self._bases: tuple[Any, ...] = tuple(
            [base for base in cls.__mro__[-2:0:-1] if "__dataclass_fields__" in vars(base)]
        )
        frozen_bases = {base.__dataclass_params__.frozen for base in self._bases}
        if frozen_bases and frozen != any(frozen_bases):
            one, other = ("frozen", "a non-frozen") if frozen else ("non-frozen", "a frozen")
            raise TypeError(f"cannot inherit {one} dataclass from {other} one")

    @functools.cached_property
    def fields(self) -> tuple[dataclasses.Field[Any], ...]:
        """The fields in their order, those of base classes first."""
        fields = {each.name: each for base in self._bases for each in _fields_of(base)}
        for name, value in self.values.items():
            if isinstance(value, types.MemberDescriptorType):
                value = dataclasses.MISSING  # a slot of a base class
            is_field = isinstance(value, dataclasses.Field)
            fields[name] = field = value if is_field else dataclasses.field(default=value)
            field.name, field.type, field.kw_only = name, self.kinds[name], field.kw_only is True
            field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
        return tuple(fields.values())

    def finish(self, members: dict[str, Any], slots: bool) -> Any:
        """Give members to the class; with slots it is made anew, as by the standard library."""
        cls = self.cls
        if slots:
            inherited = [each.name for base in self._bases for each in _fields_of(base)]
            names = dict.fromkeys([*inherited, *self.kinds])
            known = {name for base in cls.__mro__ for name in vars(base).get("__slots__", ())}
            left_out = names.keys() | {"__dict__", "__weakref__"}
            kept = {name: each for name, each in vars(cls).items() if name not in left_out}
            kept["__slots__"] = tuple(name for name in names if name not in known)
            self.cls = type(cls)(cls.__name__, cls.__bases__, kept | members)
            self.cls.__qualname__ = cls.__qualname__
            return self.cls
        for name, value in self.values.items():
            if isinstance(value, dataclasses.Field):
                if value.default is dataclasses.MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, value.default)
        for name, value in members.items():
            setattr(cls, name, value)
        return cls

    def init(self) -> Callable[..., Any]:
        """Make ``__init__``.

        Classes with as many fields, and defaults in the same places, share what is compiled: names
        and defaults are put into it.
        """
        names, known, lines = {}, {"_set": object.__setattr__, "_made": _FACTORY}, []
        by_place, by_name, defaults = ["_self"], ["*"], {}
        for number, each in enumerate(self.fields):
            place, value = f"_{number}", f"_{number}"
            names[place], default = each.name, each.default
            if each.default_factory is not dataclasses.MISSING:
                known[f"_make{place}"], default = each.default_factory, _FACTORY
                value = f"_make{place}()" + f" if {place} is _made else {place}" * each.init
            elif not each.init:
                known[place] = default
            if each.init:
                is_bare = default is dataclasses.MISSING and not each.kw_only
                if is_bare and by_place[-1] in defaults:
                    raise TypeError(f"non-default argument {each.name!r} follows default argument")
                (by_name if each.kw_only else by_place).append(place)
                if default is not dataclasses.MISSING:
                    defaults[place] = default
            if each.init or default is not dataclasses.MISSING:
                lines.append(f"_set(_self, {place!r}, {value})")
        if hasattr(self.cls, "__post_init__"):
            lines.append("_self.__post_init__()")
        if "self" not in names.values():
            names["_self"] = "self"
        parameters = ", ".join(by_place + by_name * (len(by_name) > 1))
        code = _compiled(f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]))
        code = code.replace(
            co_varnames=tuple([names.get(each, each) for each in code.co_varnames]),
            co_consts=tuple([names.get(each, each) for each in code.co_consts]),
        )
        ordered = tuple([defaults[place] for place in by_place if place in defaults])
        method = types.FunctionType(code, known, "__init__", ordered)
        method.__kwdefaults__ = {
            names[each]: defaults[each] for each in by_name if each in defaults
        }
        kinds = {each.name: each.type for each in self.fields if each.init}
        method.__annotations__ = {**kinds, "return": None}
        return method


_FACTORY: Any = dataclasses._HAS_DEFAULT_FACTORY  # type: ignore[attr-defined]
"""What stands for a default that a function makes; signatures show it."""


@functools.cache
def _compiled(source: str) -> types.CodeType:
    """Return the code of the function that a source defines."""
    defined = compile(source, "<string>", "exec").co_consts
    return next(each for each in defined if isinstance(each, types.CodeType))


class _Asked:
    """Stands for what tells the fields of a class until somebody asks for it."""

    def __init__(self, declared: _Declared, name: str) -> None:
        self.declared, self._name = declared, name

    def __get__(self, instance: object, owner: type) -> Any:
        fields = self.declared.fields
        value: Any = {each.name: each for each in fields}
        if self._name == "__match_args__":
            value = tuple([each.name for each in fields if each.init and not each.kw_only])
        setattr(self.declared.cls, self._name, value)
        return value


class MadeLater:
    """Stands for a method of a class until somebody asks for it, as the class does for a call.

    It is one object, where a function that makes another takes ten, and what a program holds is
    what a collection of garbage looks at. A decorator may keep it: called, it is the method.
    """

    def __init__(self, declared: _Declared, name: str) -> None:
        self._declared = declared
        self._found: Callable[..., Any] | None = None
        self.__name__, self.__module__, self.__doc__ = name, declared.cls.__module__, None
        self.__qualname__ = f"{declared.cls.__qualname__}.{name}"

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The method itself; who asks for the signature finds it."""
        found = self._found
        if found is None:
            self._found = found = _made(self._declared, self.__name__)
            if vars(self._declared.cls).get(self.__name__) is self:  # else a decorator has it
                setattr(self._declared.cls, self.__name__, found)
        return found

    def __get__(self, instance: object, owner: type) -> Any:
        return self.__wrapped__.__get__(instance, owner)

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: D102
        return (self._found or self.__wrapped__)(*arguments, **named)


def _fields_of(base: Any) -> Iterable[dataclasses.Field[Any]]:
    asked = vars(base)["__dataclass_fields__"]
    return asked.declared.fields if isinstance(asked, _Asked) else dataclasses.fields(base)


def _is_of_class(kind: object) -> bool:
    return str(kind).removeprefix("typing.").startswith("ClassVar")


def _made(declared: _Declared, name: str) -> Callable[..., Any]:
    """Return a method of a dataclass.

    Only ``__init__`` is compiled: the others are as fast over what ``operator.attrgetter`` gets.
    """
    cls, fields = declared.cls, declared.fields
    if name == "__init__":
        method: Callable[..., Any] = declared.init()
    elif name == "__repr__":
        method = _repr_of([each.name for each in fields if each.repr])
    elif name == "__hash__":
        hashed = [each for each in fields if (each.compare if each.hash is None else each.hash)]
        method = _hash_of(_values_of([each.name for each in hashed]))
    else:
        method = _comparison_of(name, _values_of([each.name for each in fields if each.compare]))
    method.__name__, method.__module__ = name, cls.__module__
    method.__qualname__ = f"{cls.__qualname__}.{name}"
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

    def __init__(self, declared: _Declared) -> None:
        self._declared = declared

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if instance is not None or owner is not self._declared.cls:
            raise AttributeError("__signature__")
        signature = inspect.signature(_made(self._declared, "__init__"))
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
