"""Clauses to plain data and back: the JSON form, driven by the fields of a class.

Nothing from outside is trusted: unknown and absent fields, and values of another type than the
field declares, give a ``PlanFormatError`` that names the path.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tessel.errors import PlanError, PlanFormatError, UnicodeTextError, nearest, shown
from tessel.expression.named import expression_form, expression_from_form
from tessel.expression.node import Expression


def fields_from_json(cls: type, data: Mapping[str, Any], path: str | None = None) -> dict[str, Any]:
    """Return the constructor arguments of a dataclass from its plain data, checked.

    Parameters
    ----------
    cls
        A dataclass: a clause, or a part of one.
    data
        The plain data; a key ``"clause"`` is the clause's own name and is passed over.
    path
        Where the data stands in the plan, for messages.
    """
    place = path or str(data.get("clause", cls.__name__))
    fields = [field for field in dataclasses.fields(cls) if field.init]
    names = [field.name for field in fields]
    for key in data:
        if key not in names and key != "clause":
            match = nearest(str(key), names)
            raise PlanFormatError(
                f"{place} has no field {key!r}",
                hint=(f"did you mean {match!r}?   " if match else "") + f"fields: {names}",
                path=place,
            )
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for field in fields:
        if field.name in data:
            values[field.name] = _read(hints[field.name], data[field.name], f"{place}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise PlanFormatError(f"{place} lacks the field {field.name!r}", path=place)
    return values


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _read(annotation: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(annotation)
    if annotation is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _read_union(typing.get_args(annotation), value, path)
    if origin is typing.Literal:
        if value not in typing.get_args(annotation):
            raise _wrong(path, " or ".join(map(repr, typing.get_args(annotation))), value)
        return value
    if origin is tuple:
        return _read_tuple(typing.get_args(annotation), value, path)
    if origin in (dict, Mapping) or annotation is dict:
        if not isinstance(value, Mapping):
            raise _wrong(path, "an object", value)
        inner = typing.get_args(annotation)[1] if typing.get_args(annotation) else Any
        return {str(key): _read(inner, item, f"{path}.{key}") for key, item in value.items()}
    if annotation is Expression:
        if not isinstance(value, Mapping) or set(value) != {"expression"}:
            raise _wrong(path, 'an expression, {"expression": "text"}', value)
        return expression_from_form(value["expression"])
    if hasattr(annotation, "from_json"):
        if not isinstance(value, Mapping):
            raise _wrong(path, "an object", value)
        return annotation.from_json(value)
    return _read_scalar(annotation, value, path)


def _read_union(choices: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in choices:
        return None
    first: PlanFormatError | None = None
    for choice in choices:
        if choice is not type(None):
            try:
                return _read(choice, value, path)
            except PlanFormatError as error:
                first = first or error
    raise first or _wrong(path, "null", value)


def _read_tuple(inner: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(path, "a list", value)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_read(inner[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if len(inner) != len(value):
        raise _wrong(path, f"a list of {len(inner)} items", value)
    pairs = zip(inner, value, strict=True)
    return tuple(_read(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(pairs))


def _read_scalar(annotation: Any, value: Any, path: str) -> Any:
    accepted: dict[Any, tuple[type, ...]] = {
        str: (str,),
        int: (int,),
        float: (float, int),
        bool: (bool,),
        type(None): (type(None),),
    }
    if annotation not in accepted:
        raise PlanFormatError(f"{path} is of a type that has no plain form: {annotation}")
    is_flag = isinstance(value, bool)
    if not isinstance(value, accepted[annotation]) or (is_flag and annotation is not bool):
        raise _wrong(path, annotation.__name__, value)
    return value * 1.0 if annotation is float else value  # type: ignore[operator]


def _wrong(path: str, wanted: str, value: Any) -> PlanFormatError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return PlanFormatError(f"{path} takes {wanted}, not {shown}", path=path)


def plain_form(value: Any, place: str) -> Any:
    """Return a field as plain data; PlanError, which names its place, where it has no such form."""
    if value is None or isinstance(value, str | int | float):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, Expression):
        return {"expression": expression_form(value)}
    if isinstance(value, np.generic | enum.Enum):
        return value.item() if isinstance(value, np.generic) else value.value
    if dataclasses.is_dataclass(value) and hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [plain_form(item, f"{place}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): plain_form(item, f"{place}.{key}") for key, item in value.items()}
    raise PlanError(
        f"{place} is a {type(value).__name__}, which has no plain form",
        hint="hold text, numbers, lists or expressions in the fields of a clause, or give the "
        "clause a to_json and a from_json of its own",
        field=place,
    )


def check_texts(value: Any, what: str) -> None:
    """Raise ``UnicodeTextError`` where a text in the fields of a clause is none in UTF-8."""
    if isinstance(value, str):
        UnicodeTextError.require(value, what)
    elif isinstance(value, tuple | list):
        for item in value:
            check_texts(item, what)
    elif isinstance(value, Mapping):
        check_texts([*value, *value.values()], what)
    elif dataclasses.is_dataclass(value) and not isinstance(value, Expression):
        check_texts([getattr(value, field.name) for field in dataclasses.fields(value)], what)


def is_word(value: Any, words: Sequence[str]) -> bool:
    """Say whether a value is one of some words; an array is not compared, item by item."""
    return isinstance(value, str) and value in words


def check_flags(clause: Any) -> None:
    """Raise ``PlanError`` where a field that is declared ``bool`` holds anything else."""
    for field in dataclasses.fields(clause) if dataclasses.is_dataclass(clause) else ():
        value = getattr(clause, field.name)
        if field.type in (bool, "bool") and not isinstance(value, bool | np.bool_):
            raise PlanError(f"{clause.name}: {field.name} is true or false, not {shown(value)}")
