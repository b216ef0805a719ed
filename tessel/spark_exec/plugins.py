"""How clauses that are not part of the package reach Spark's workers.

Workers have the package and what is installed beside it, but neither the script that runs, nor the
cells of a notebook, nor a module next to the script. Classes from such places travel by value,
those of installed packages by name. This is Spark's own way for functions; nothing of it is stored.

The fields of a clause are read by their annotations. As text (``from __future__ import
annotations``) these mean something in the module of the class alone, which a worker does not have:
they travel as what they mean.

A component of a clause's own travels as the name of its class with the JSON that its ``to_json``
makes; the class travels with the clause that attaches it, which names it in ``attaches``.
``from_json`` makes it again, and so checks it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import pickle
import site
import sys
import sysconfig
import threading
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tessel.clauses.base import Clause
from tessel.ecs.piece import with_component
from tessel.errors import PlanError, SparkError

_lock = threading.Lock()


def packed_plugins(classes: Sequence[type[Clause]]) -> bytes:
    """Return clause classes as bytes for :func:`load_plugins`; empty where there are none.

    Raises
    ------
    PlanError
        If a class refers to something that cannot be sent, such as an open file.
    """
    if not classes:
        return b""
    cloudpickle: Any = importlib.import_module("pyspark.cloudpickle")
    with _lock:  # the registry is the process's; it is left as it was
        known = cloudpickle.list_registry_pickle_by_value()
        attached = [kind for cls in classes for kind in cls.attaches]
        names = {cls.__module__ for cls in (*classes, *attached)}
        modules = [sys.modules[name] for name in names - known if name in sys.modules]
        by_value = [module for module in modules if not _is_installed(module)]
        try:
            for module in by_value:
                cloudpickle.register_pickle_by_value(module)
            packed: bytes = cloudpickle.dumps((tuple(classes), _annotations(classes)))
        except Exception as error:
            named = ", ".join(sorted(cls.name for cls in classes))
            raise PlanError(
                f"the clause {named} cannot be sent to Spark's workers: {error}",
                hint="let its methods refer to nothing that lives in this process alone, or "
                "install its module as a package, here and on the workers",
                clause=named,
            ) from error
        finally:
            for name in {module.__name__ for module in by_value}:
                if name in cloudpickle.list_registry_pickle_by_value():
                    cloudpickle.unregister_pickle_by_value(sys.modules[name])
    return packed


@functools.lru_cache(maxsize=64)
def load_plugins(packed: bytes) -> Mapping[str, type[Clause]]:
    """Return the clause classes that were packed, by name; runs in a worker.

    They are not registered: a worker serves queries that mean other classes by the same name, as
    cells of a notebook that were changed, and several users do.

    Raises
    ------
    SparkError
        If a module that they need is not installed on the worker.
    """
    if not packed:
        return {}
    try:
        classes, annotations = pickle.loads(packed)
    except ImportError as error:
        raise SparkError(
            f"a clause of the query cannot be loaded by Spark's workers: {error}",
            hint="install the package that holds it on the workers too",
        ) from error
    for cls, meant in annotations:
        cls.__annotations__ = meant
    return {cls.name: cls for cls in classes}


def _annotations(classes: Sequence[type[Clause]]) -> list[tuple[type, dict[str, Any]]]:
    """Return the own annotations of classes that travel by value, and of their bases."""
    bases = dict.fromkeys(base for cls in classes for base in cls.__mro__)
    found = []
    for base in bases:
        own = inspect.get_annotations(base)
        module = sys.modules.get(base.__module__)
        if not own or base.__module__.startswith("tessel.") or (module and _is_installed(module)):
            continue
        # What cannot be resolved stays text; reading such a field fails in this process too.
        with contextlib.suppress(NameError):
            meant = typing.get_type_hints(base, include_extras=True)
            found.append((base, {name: meant[name] for name in own}))
    return found


def _is_installed(module: ModuleType) -> bool:
    """Return whether a module lies where installers put packages, so that workers have it too."""
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ != "__main__"
    return any(Path(file).resolve().is_relative_to(folder) for folder in _install_folders())


@functools.cache
def _install_folders() -> tuple[Path, ...]:
    named = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders = [*named, *site.getsitepackages(), site.getusersitepackages()]
    return tuple(Path(folder).resolve() for folder in dict.fromkeys(folders))


# --- components -----------------------------------------------------------------------------------

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
