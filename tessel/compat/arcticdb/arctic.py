"""The folder that libraries are in: each is a Tessel store in a folder of its own."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import tessel as ts
from tessel.api import Store
from tessel.compat.arcticdb.items import LibraryOptions, OutputFormat
from tessel.compat.arcticdb.library import Library
from tessel.errors import InvalidInputError, StoreNotFoundError, shown

_DYNAMIC_SCHEMA = "arcticdb.dynamic_schema"
"""The tag that says of a store that appends may bring new columns."""

_in_memory: dict[str, dict[str, Store]] = {}
"""Libraries in the memory of this process, by the place and name of each."""
_lock = threading.Lock()


class Arctic:
    """A place with libraries.

    Parameters
    ----------
    uri
        A directory, also as ``lmdb://directory``; ``memory://name`` or ``mem://name`` for libraries
        that live as long as the process, ``mem://`` alone for those of this object; or
        ``s3://bucket/folder``, ``gs://…``, ``az://…`` as :func:`tessel.open` takes them.

    Raises
    ------
    InvalidInputError
        For ArcticDB's own form of a place in a cloud, and for what names no place.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        encoding_version: object = None,
        output_format: OutputFormat | str = "pandas",
    ) -> None:
        uri = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
        if not isinstance(uri, str) or not uri.removeprefix("lmdb://"):
            raise InvalidInputError(
                f"{shown(uri)} names no place of libraries",
                hint='a directory, "lmdb://directory", "mem://", or a place in a cloud such as '
                '"s3://bucket/folder"',
            )
        self._given = uri
        self._output_format = output_format
        place, _, _ = uri.removeprefix("lmdb://").partition("?")
        if uri.startswith(("mem://", "memory://")):
            place = f"memory://{place.partition('://')[2]}"
        elif uri.startswith(("s3s://", "azure://", "gcpxml://", "mongodb://")) or (
            uri.startswith("s3://") and ("?" in uri or ":" in uri[5:])
        ):
            raise InvalidInputError(
                "ArcticDB's form of a place in a cloud is not read",
                hint="s3://bucket/folder, gs://bucket/folder or az://container/folder; "
                "credentials come from the environment",
            )
        self._place = place
        with _lock:
            mine: dict[str, Store] = {}
            self._memory = mine if place == "memory://" else _in_memory.setdefault(place, mine)

    def __repr__(self) -> str:
        return f"Arctic({self._place!r})"

    def __getitem__(self, name: str) -> Library:
        return self.get_library(name)

    def __contains__(self, name: str) -> bool:
        return self.has_library(name)

    def get_uri(self) -> str:
        """Return the place as it was given."""
        return self._given

    def get_library(
        self,
        name: str,
        create_if_missing: bool = False,
        library_options: LibraryOptions | None = None,
        output_format: OutputFormat | str | None = None,
    ) -> Library:
        """Return a library.

        Raises
        ------
        StoreNotFoundError
            Where there is none, and none is to be made.
        """
        if create_if_missing and not self.has_library(name):
            return self.create_library(name, library_options, output_format)
        store = self._open(name)
        form = output_format or self._output_format
        return Library(store, name, LibraryOptions(_DYNAMIC_SCHEMA in store.tags()), form)

    def create_library(
        self,
        name: str,
        library_options: LibraryOptions | None = None,
        output_format: OutputFormat | str | None = None,
    ) -> Library:
        """Make a library.

        Raises
        ------
        InvalidInputError
            Where there is one: a ``ValueError``, as programs expect.
        """
        if self.has_library(name):
            raise InvalidInputError(
                f"library {name!r} exists already", hint="get_library(name) returns it"
            )
        options = library_options or LibraryOptions()
        store = ts.open("memory://" if self._is_memory else self._uri(name))
        if self._is_memory:
            with _lock:
                self._memory[name] = store
        if options.dynamic_schema:
            store.create_tag(_DYNAMIC_SCHEMA, 0)
        form = output_format or self._output_format
        return Library(store, name, LibraryOptions(options.dynamic_schema), form)

    def modify_library_option(self, library: Library, option: Any, option_value: Any) -> None:
        """Take an option that has no effect, as all have that can be changed."""
        name = str(getattr(option, "name", option)).lower()
        options = library.options()
        if name == "dynamic_schema" or name not in options._fields:
            raise InvalidInputError(
                f"option={name!r} of a library is not changed",
                hint="it is chosen when the library is made: LibraryOptions(dynamic_schema=...)",
            )
        library._options = options._replace(**{name: option_value})

    def delete_library(self, name: str) -> None:
        """Delete a library and all of its files; nothing happens where there is none.

        Raises
        ------
        InvalidInputError
            For one in a cloud.
        """
        if not self.has_library(name):
            return
        if self._is_memory:
            with _lock:
                del self._memory[name]
        elif "://" in self._place:
            raise InvalidInputError(
                f"library {name!r} is in a cloud, where no folder is deleted",
                hint="delete it with the tools of the cloud",
            )
        else:
            shutil.rmtree(self._uri(name))

    def has_library(self, name: str) -> bool:
        """Return whether there is a library of that name."""
        try:
            self._open(name)
        except StoreNotFoundError:
            return False
        return True

    def list_libraries(self) -> list[str]:
        """Return the names of the libraries, sorted.

        Raises
        ------
        InvalidInputError
            For a place in a cloud.
        """
        if self._is_memory:
            return sorted(self._memory)
        if "://" in self._place:
            raise InvalidInputError(
                f"the folders of {self._place!r} are not listed",
                hint="get_library(name) opens one, and has_library(name) asks for it",
            )
        names = (
            os.path.relpath(found.parent, self._place)
            for found in Path(self._place).glob("**/store.json")
        )
        return sorted(name.replace(os.sep, "/") for name in names)

    @property
    def _is_memory(self) -> bool:
        return self._place.startswith("memory://")

    def _uri(self, name: str) -> str:
        parts = name.split("/") if isinstance(name, str) else [""]
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            raise InvalidInputError(
                f"{name!r} is no name of a library", hint="it becomes a folder: desk/trades"
            )
        return f"{self._place.removesuffix('/')}/{name}"

    def _open(self, name: str) -> Store:
        uri = self._uri(name)
        if not self._is_memory:
            return ts.open(uri, create=False)
        found = self._memory.get(name)
        if found is None:
            raise StoreNotFoundError.at(uri)
        return found
