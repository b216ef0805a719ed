"""Names of a package that are imported when they are first used (PEP 562).

A package lists here what its users find in it. Our own modules import from where a name lies, so
that what one module needs is all that it imports: a package that imports all of its modules makes
each of them pay for all.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["names_from"]


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
