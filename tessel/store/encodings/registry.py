"""The page encodings there are, by code and by name: the one list that a new encoding joins."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tessel.errors import NameNotFoundError
from tessel.store.encodings.base import PageEncoding
from tessel.store.encodings.constant import Constant
from tessel.store.encodings.dictionary import Dictionary
from tessel.store.encodings.flat import AllMissing, Flat, Nothing
from tessel.store.encodings.linear import Delta, Linear, RunEnd
from tessel.store.encodings.scaled import Scaled
from tessel.store.encodings.variable import Variable

ENCODINGS: Final[Mapping[int, PageEncoding]] = MappingProxyType(
    {
        int(encoding.code): encoding
        for encoding in (
            Nothing(),
            AllMissing(),
            Constant(),
            Flat(),
            Linear(),
            Delta(),
            Scaled(),
            Dictionary(),
            RunEnd(),
            Variable(),
        )
    }
)
"""Every encoding by its code."""


def encoding_by_code(code: int) -> PageEncoding:
    """Return the encoding of a validated page record."""
    return ENCODINGS[code]


def encoding_by_name(name: str) -> PageEncoding:
    """Return the encoding of that name.

    Raises NameNotFoundError, which lists the names that exist.
    """
    for encoding in ENCODINGS.values():
        if encoding.name == name:
            return encoding
    names = sorted(encoding.name for encoding in ENCODINGS.values())
    raise NameNotFoundError.for_name("encoding", name, names)


def encoding_names() -> list[str]:
    """Return the names of all encodings."""
    return [encoding.name for encoding in ENCODINGS.values()]
