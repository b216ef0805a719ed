"""Components of a clause's own as text and back: how they cross processes.

A component travels as the name of its class with the JSON that its ``to_json`` makes; the class
travels with the clause that attaches it, which names it in ``attaches``
(:mod:`tessel.spark_exec.plugins`). ``from_json`` makes it again, and so checks it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tessel.clauses.base import Clause
from tessel.ecs.piece import with_component
from tessel.errors import PlanError, SparkError

SentComponent = tuple[str, str]
"""The name of a component's class, and the component as JSON."""

_METHODS_HINT = (
    "give it a method to_json that returns plain data and a class method from_json that takes it"
)


def kinds_of(classes: Iterable[type[Clause]]) -> Mapping[str, type]:
    """Return the component classes that clauses say they attach, by name.

    Raises
    ------
    PlanError
        For a class without ``to_json`` and ``from_json``.
    """
    found: dict[str, type] = {}
    for cls in classes:
        for kind in cls.attaches:
            if not (hasattr(kind, "to_json") and hasattr(kind, "from_json")):
                raise PlanError(
                    f"the component {kind.__qualname__} of clause {cls.name!r} cannot be sent to "
                    "Spark's workers",
                    hint=_METHODS_HINT,
                    clause=cls.name,
                    component=kind.__qualname__,
                )
            found[_name(kind)] = kind
    return found


def sent_components(components: Sequence[Any]) -> tuple[SentComponent, ...]:
    """Return components as text.

    Raises
    ------
    SparkError
        For one that has no plain form.
    """
    sent: list[SentComponent] = []
    for each in components:
        try:
            sent.append((_name(type(each)), json.dumps(each.to_json())))
        except Exception as error:
            raise _failure(type(each).__qualname__, "sent", error, _METHODS_HINT) from error
    return tuple(sent)


def received_components(
    sent: Iterable[SentComponent], kinds: Mapping[str, type]
) -> tuple[object, ...]:
    """Return the components that were sent as text.

    Raises
    ------
    SparkError
        For one whose class no clause of the query names, or whose ``from_json`` refuses it.
    """
    received: tuple[object, ...] = ()
    for name, text in sent:
        try:
            kind: Any = kinds[name]
        except KeyError as error:
            hint = "name the class in attaches of the clause that attaches it"
            raise _failure(name, "received", error, hint) from error
        try:
            component = kind.from_json(json.loads(text))
            with_component((), component)
            if type(component) is not kind:
                raise TypeError(f"from_json made a {type(component).__qualname__}")
        except Exception as error:
            hint = "let from_json take what to_json made"
            raise _failure(name, "received", error, hint) from error
        received = (*received, component)
    return received


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _failure(name: str, what: str, error: Exception, hint: str) -> SparkError:
    return SparkError(
        f"a component {name} cannot be {what}: {type(error).__name__}: {error}",
        hint=hint,
        component=name,
    )
