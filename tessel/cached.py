"""What objects remember: properties that are computed once, and copies with the same.

Every part may use it. ``functools.cached_property`` of Python 3.11 holds one lock for all objects
of a class while it computes: threads wait for one another, and a child that is forked at that
moment by another thread waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["cached", "copied"]

Value = TypeVar("Value")


class cached(Generic[Value]):  # noqa: N801  (a decorator, as property is)
    """Computes a property when it is first asked for, and keeps it in the object's ``__dict__``.

    Two threads that ask at once both compute; what the later one found is kept. An error is not
    kept, and ``del`` forgets a value.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> cached[Value] | Value:
        if instance is None:
            return self
        # Python looks there first from now on, since this class has no __set__.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


def copied(value: Value) -> Value:
    """Return another object with the same attributes, properties that were computed among them.

    ``copy.copy`` asks first how the object is pickled, and takes five times as long.
    """
    found = object.__new__(type(value))
    found.__dict__.update(value.__dict__)
    return found
