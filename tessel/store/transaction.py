"""Changes of several symbols on their way into one commit.

The verbs are in :mod:`tessel.store.operations`, one file each; this is what users hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.expression.node import Expression
from tessel.options import options
from tessel.store.history.history import History
from tessel.store.history.versions import Commit
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.packing.configuration import ManifestConfiguration
from tessel.store.objects.base import ObjectStore
from tessel.store.operations.append import append
from tessel.store.operations.columns import (
    add_column,
    drop_column,
    rename_columns,
    widen,
)
from tessel.store.operations.compact import compact
from tessel.store.operations.delete_rows import delete_rows
from tessel.store.operations.finalize import Merged, Mode, finalize
from tessel.store.operations.read import read
from tessel.store.operations.stage import Stage
from tessel.store.operations.staged import StagedRows
from tessel.store.operations.symbols import delete, rename_symbol, set_metadata
from tessel.store.operations.update import update
from tessel.store.operations.upsert import upsert
from tessel.store.operations.write import write

__all__ = ["Evolve", "Isolation", "Transaction"]

Isolation = Literal["snapshot", "serializable"]
"""``"snapshot"``: what was read may have changed; ``"serializable"``: then the commit conflicts."""

Evolve = str | Iterable[str] | None
"""How a table may change the columns of its symbol: ``"add"``, ``"widen"``, both, or not."""

_ISOLATIONS = ("snapshot", "serializable")


@checks_arguments
class Transaction:
    """Writes segments at once or when it commits, then one manifest and one log entry.

    Made by ``Repository.transaction``. Each verb sees what the ones before it did. A verb that
    raises has changed nothing. A transaction is used by one thread at a time.
    """

    def __init__(
        self,
        objects: ObjectStore,
        history: History,
        base: Commit,
        message: str,
        manifest: Callable[[ManifestReference], Manifest],
        *,
        isolation: Isolation = "snapshot",
        metadata: Mapping[str, Any] | None = None,
        configuration: Callable[[], ManifestConfiguration] | None = None,
    ) -> None:
        if isolation not in _ISOLATIONS:
            raise InvalidInputError(
                f"isolation={isolation!r} is none",
                hint=f"choose from: {', '.join(_ISOLATIONS)}",
            )
        self._history = history
        self._base = base
        self._message = message
        self._metadata = dict(metadata or {})
        self._serializable = isolation == "serializable"
        self._stage = Stage(objects, base, manifest, configuration)
        self._landed: int | None = None
        self._abandoned = False

    @property
    def landed(self) -> int:
        """The version that the transaction became; known once its block has ended.

        Raises
        ------
        InvalidInputError
            While it has not.
        """
        if self._landed is None:
            raise InvalidInputError("the transaction has not landed yet")
        return self._landed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self._abandoned = True
            self._stage.session.close()

    @property
    def base_version(self) -> int:
        """The version that the transaction started from."""
        return self._base.number

    # --- reading ----------------------------------------------------------------------------------

    def read(
        self,
        symbol: str,
        *,
        rows: tuple[int, int] | None = None,
        times: tuple[Any, Any] | None = None,
    ) -> pa.Table:
        """Return rows of a symbol as the transaction has them, its own changes included.

        Parameters
        ----------
        symbol
            Its name.
        rows
            Positions ``(start, stop)``.
        times
            A range of the index, as ``date_range`` elsewhere: both ends included.

        With ``isolation="serializable"``, the commit conflicts if what was read has changed.
        """
        return read(self._open(), symbol, rows=rows, times=times)

    # --- rows -------------------------------------------------------------------------------------

    def write(
        self,
        symbol: str,
        data: Any,
        *,
        index: str | None = None,
        sort: bool = False,
        metadata: Mapping[str, Any] | None = None,
        encodings: Mapping[str, str] | None = None,
    ) -> None:
        """Write a table as a symbol; see ``Repository.write``."""
        write(
            self._open(),
            symbol,
            data,
            index=index,
            sort=sort,
            metadata=metadata,
            encodings=encodings,
        )

    def append(self, symbol: str, data: Any, *, evolve: Evolve = None) -> None:
        """Add rows at the end of a symbol; see ``Repository.append``."""
        append(self._open(), symbol, data, evolve=evolve)

    def update(
        self,
        symbol: str,
        data: Any,
        *,
        date_range: tuple[Any, Any] | None = None,
        evolve: Evolve = None,
    ) -> None:
        """Replace the rows in a range of times; see ``Repository.update``."""
        update(self._open(), symbol, data, date_range=date_range, evolve=evolve)

    def upsert(
        self,
        symbol: str,
        data: Any,
        *,
        keys: Sequence[str],
        evolve: Evolve = None,
    ) -> None:
        """Replace rows by key, add those of new keys; see ``Repository.upsert``."""
        upsert(self._open(), symbol, data, keys=keys, evolve=evolve)

    def delete_rows(
        self,
        symbol: str,
        *,
        rows: tuple[int, int] | None = None,
        date_range: tuple[Any, Any] | None = None,
        where: Expression | str | None = None,
    ) -> None:
        """Take rows out of a symbol; see ``Repository.delete_rows``."""
        delete_rows(self._open(), symbol, rows=rows, date_range=date_range, where=where)

    def finalize(
        self,
        symbol: str,
        staged: Sequence[StagedRows],
        *,
        mode: Mode = "write",
        sort: bool = False,
        metadata: Mapping[str, Any] | None = None,
        merged: Merged | None = None,
    ) -> None:
        """Make staged rows those of a symbol; see ``Repository.finalize``, which is the way in.

        It conflicts with a commit that takes some of them meanwhile. ``merged`` is what an earlier
        try has merged, and takes what this one does.
        """
        said = finalize(
            self._open(),
            self._history,
            symbol,
            staged,
            mode=mode,
            sort=sort,
            metadata=metadata,
            merged=merged,
        )
        for key, value in said.items():
            self._metadata[key] = {**self._metadata.get(key, {}), **value}

    def compact(self, symbol: str, *, target: int | None = None) -> None:
        """Merge small segments of a symbol into full ones; see ``Repository.compact``."""
        compact(self._open(), symbol, target=target)

    # --- symbols and columns ----------------------------------------------------------------------

    def delete(self, symbol: str) -> None:
        """Delete a symbol; see ``Repository.delete``."""
        delete(self._open(), symbol)

    def rename_symbol(self, symbol: str, to: str) -> None:
        """Give a symbol another name; see ``Repository.rename_symbol``."""
        rename_symbol(self._open(), symbol, to)

    def set_metadata(self, symbol: str, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata of a symbol; see ``Repository.set_metadata``."""
        set_metadata(self._open(), symbol, metadata)

    def add_column(
        self, symbol: str, name: str, values: Any = None, *, data_type: Any = None
    ) -> None:
        """Add a column; see ``Repository.add_column``."""
        add_column(self._open(), symbol, name, values, data_type=data_type)

    def drop_column(self, symbol: str, name: str) -> None:
        """Take a column away; see ``Repository.drop_column``."""
        drop_column(self._open(), symbol, name)

    def rename_columns(self, symbol: str, names: Mapping[str, str]) -> None:
        """Give columns other names; see ``Repository.rename_columns``."""
        rename_columns(self._open(), symbol, names)

    def widen(self, symbol: str, types: Mapping[str, Any]) -> None:
        """Give columns wider types; see ``Repository.widen``."""
        widen(self._open(), symbol, types)

    # --- the end ----------------------------------------------------------------------------------

    def commit(self) -> int:
        """Land all changes as one version; called when the block ends."""
        stage = self._open()
        # Whatever comes of it, these changes are not tried twice.
        self._abandoned = True
        landed = self._base.number
        with options(), stage.session.ending():
            changes = stage.changes()
            if changes:
                landed = self._history.commit(
                    self._base,
                    changes,
                    self._message,
                    metadata=self._metadata,
                    reads=stage.reads if self._serializable else (),
                    objections=stage.objections,
                    survived=stage.session.survived,
                    objects=stage.waiting,
                    through=stage.session,
                    tried=stage.tried,
                ).number
        self._landed = landed
        return landed

    def _open(self) -> Stage:
        if self._landed is not None or self._abandoned:
            raise InvalidInputError(
                "the transaction has ended and takes no more changes",
                hint="begin another one with transaction()",
            )
        return self._stage
