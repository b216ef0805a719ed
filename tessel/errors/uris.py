"""Secrets of URIs, which no text of ours shows: users, passwords and queries are left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["without_secrets"]

_HIDDEN = "***"
_USER = re.compile(r"""(?<=://)(?:[^\s/@"']*@|[^\s/@"']*:[^\s"']*@)""")
"""What stands before an ``@`` in the authority. A key may hold a slash that nobody has quoted:
where there is a colon, all up to the last ``@`` counts."""
_QUERY = re.compile(r"""(://[^\s"'?#]*)[?#][^\s"']+""")


def without_secrets(value: Any) -> Any:
    """Return a value with the secrets of all URIs left out, in texts and containers of them."""
    if isinstance(value, str):
        if "://" not in value:
            return value
        return _QUERY.sub(rf"\1?{_HIDDEN}", _USER.sub(f"{_HIDDEN}@", value))
    if isinstance(value, Mapping):
        return {name: without_secrets(each) for name, each in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(map(without_secrets, value))
    return value
