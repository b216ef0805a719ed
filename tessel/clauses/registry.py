"""Clauses by name: our own, those registered by a decorator, those of installed plug-ins.

Our own are imported when they are first named. The class of ``top_k`` is ``TopK``, and
:mod:`tessel.clauses` says where each class lies.

A plug-in package names its clauses in the entry-point group ``tessel.clauses``::

    [project.entry-points."tessel.clauses"]
    z_score = "my_package.z_score:ZScore"

They are imported when a name is looked up that is not known yet, and never before. No lock is held
while a clause of ours is imported: another thread may be importing the same module.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import TYPE_CHECKING, TypeVar

from tessel.clauses.base import Clause
from tessel.errors import NameNotFoundError, PlanError
from tessel.forking import ChildSafeLock

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

_GROUP = "tessel.clauses"
_clauses: dict[str, type[Clause]] = {}
_loaded: set[str] = set()
_lock = ChildSafeLock()

ClauseType = TypeVar("ClauseType", bound=type[Clause])


def register(cls: ClauseType) -> ClauseType:
    """Register a clause class under its ``name``; use as a decorator above ``@dataclass``.

    Raises
    ------
    PlanError
        When the class is not a frozen dataclass, has no usable name, or the name is taken by
        another class.
    """
    if not isinstance(cls, type):
        raise PlanError(f"a clause is a class, not {cls!r:.80}", hint="write @register above it")
    parameters = vars(cls).get("__dataclass_params__")  # its own: what is inherited tells nothing
    if parameters is None or not parameters.frozen:
        raise PlanError(
            f"{cls.__name__} is not a frozen dataclass",
            hint="write @register above @dataclass(frozen=True)",
        )
    name: object = getattr(cls, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise PlanError(
            f"{cls.__name__} has no usable name", hint='give it name = "my_clause", an identifier'
        )
    _import_ours(name)
    known = _clauses.setdefault(name, cls)
    if _place(known) != _place(cls):
        raise PlanError(
            f"a clause {name!r} is registered already, by {_place(known)}",
            hint=f"choose another name for {_place(cls)}",
            clause=name,
        )
    _clauses[name] = cls
    return cls


def find_clause(name: str) -> type[Clause]:
    """Return the clause class of a name, loading plug-ins where needed.

    Raises NameNotFoundError for an unknown name, with the nearest one.
    """
    if name not in _clauses:
        _import_ours(name)
    with _lock:
        if name not in _clauses:
            _load_plugin(name)
    if name not in _clauses:
        raise NameNotFoundError.for_name("clause", name, clause_names())
    return _clauses[name]


def _import_ours(name: str) -> None:
    """Import the module of a clause of ours, if there is one of this name."""
    words = name.split("_")
    getattr(sys.modules[__package__], "".join(map(str.capitalize, words)), None)


def clause_names() -> list[str]:
    """Return the names of all clauses, those of plug-ins not loaded yet included, sorted."""
    for module in pkgutil.walk_packages(sys.modules[__package__].__path__, f"{__package__}."):
        importlib.import_module(module.name)
    found = {point.name for point in _plugins()}
    return sorted(found | set(_clauses))


def _plugins() -> EntryPoints:
    from importlib.metadata import entry_points  # takes longer than many a query

    return entry_points(group=_GROUP)


def _load_plugin(name: str) -> None:
    for point in _plugins().select(name=name):
        key = f"{point.name}={point.value}"
        if key not in _loaded:
            try:
                found = register(point.load())
            except (ImportError, AttributeError) as error:
                raise PlanError(
                    f"the plug-in that has the clause {name!r} cannot be imported: {error}",
                    hint=f"its package names it in the entry point {key!r}",
                    clause=name,
                ) from error
            _loaded.add(key)
            if found.name != name:
                raise PlanError(
                    f"a plug-in promises the clause {name!r}, and what it has is {found.name!r}",
                    hint=f"name the entry point as the clause: {found.name!r}",
                    clause=name,
                )


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
