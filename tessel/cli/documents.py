"""Documents that commands take from files: plans and jobs, as JSON or YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tessel.errors import MissingDependencyError, PlanFormatError

_YAML = (".yaml", ".yml")
_SCALARS = {
    "bool": (r"true|false", "tf"),
    "int": (r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    "float": (r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
    "null": (r"null|~|", ["n", "~", ""]),
}
"""Plain scalars that are no text, as in JSON: with the rules of YAML 1.1 the field ``on`` of a join
is a truth value, and a date is no text."""


def is_document(text: str) -> bool:
    """Return whether an argument names a file, rather than being an expression."""
    return text.endswith((".json", *_YAML))


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the fields of a JSON or YAML file.

    Raises
    ------
    InvalidInputError
        For a file that is absent.
    PlanFormatError
        For one that is not text, not of its format, or holds no fields.
    MissingDependencyError
        For YAML, without the extra ``cli``.
    """
    from tessel.store.files import require_file

    require_file(path)
    try:
        text = path.read_text(encoding="utf-8")
        data = _from_yaml(text) if path.suffix in _YAML else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanFormatError(f"cannot read {str(path)!r}: {error}", path=str(path)) from error
    if not isinstance(data, Mapping):
        raise PlanFormatError(f"{str(path)!r} holds no fields", path=str(path))
    return data


def _from_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise MissingDependencyError.for_extra("pyyaml", "cli", "a file of YAML") from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # it has no types
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (of the parent, replaced)

    for name, (pattern, first) in _SCALARS.items():
        kind = f"tag:yaml.org,2002:{name}"
        Loader.add_implicit_resolver(kind, re.compile(f"^(?:{pattern})$"), list(first))
    try:
        return yaml.load(text, Loader)  # a SafeLoader: plain data
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
