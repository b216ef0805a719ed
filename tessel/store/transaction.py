"""Changes of several symbols on their way into one commit.

The verbs are functions of :mod:`tessel.store.operations`; this is what users hold.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from tessel.cancelling import check_cancelled
from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.options import options
from tessel.progress import operation
from tessel.store.history.history import History
from tessel.store.history.versions import Commit
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.packing.configuration import ManifestConfiguration
from tessel.store.objects.base import ObjectStore
from tessel.store.operations import columns, finalize, rows, symbols, upsert
from tessel.store.operations.stage import Stage

Isolation = Literal["snapshot", "serializable"]
"""``"snapshot"``: what was read may have changed; ``"serializable"``: then the commit conflicts."""

_ISOLATIONS = ("snapshot", "serializable")

P = ParamSpec("P")
R = TypeVar("R")


def _verb(function: Callable[Concatenate[Stage, P], R]) -> Callable[Concatenate[Transaction, P], R]:
    """Return a verb of :mod:`tessel.store.operations` as a method of transactions."""
    # What Python says of missing and of too many arguments names the method.
    function.__qualname__ = f"Transaction.{function.__name__}"

    @functools.wraps(function)
    def called(self: Transaction, /, *positional: P.args, **named: P.kwargs) -> R:
        symbol = positional[0] if positional else named.get("symbol", "")
        with operation(function.__name__, str(symbol)):
            return function(self._open(), *positional, **named)

    signature = inspect.signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    others = list(signature.parameters.values())[1:]
    called.__signature__ = signature.replace(parameters=[own, *others])  # type: ignore[attr-defined]
    return called


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
        self._serializable = isolation == "serializable"
        self._stage = Stage(objects, base, manifest, configuration, history)
        self._stage.metadata.update(metadata or {})
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

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.commit()
        else:
            self._abandoned = True
            self._stage.session.close()

    @property
    def base_version(self) -> int:
        """The version that the transaction started from."""
        return self._base.number

    # --- verbs ------------------------------------------------------------------------------------

    read = _verb(rows.read)
    append = _verb(rows.append)
    update = _verb(rows.update)
    delete_rows = _verb(rows.delete_rows)
    upsert = _verb(upsert.upsert)
    write = _verb(symbols.write)
    delete = _verb(symbols.delete)
    rename_symbol = _verb(symbols.rename_symbol)
    set_metadata = _verb(symbols.set_metadata)
    add_column = _verb(columns.add_column)
    drop_column = _verb(columns.drop_column)
    rename_columns = _verb(columns.rename_columns)
    widen = _verb(columns.widen)
    compact = _verb(symbols.compact)
    finalize = _verb(finalize.finalize)

    # --- the end ----------------------------------------------------------------------------------

    def commit(self) -> int:
        """Land all changes as one version; called when the block ends.

        Raises
        ------
        CancelledError
            Where the job that this is part of was cancelled: nothing lands.
        """
        stage = self._open()
        # Whatever comes of it, these changes are not tried twice.
        self._abandoned = True
        landed = self._base.number
        with options(), operation("commit"), stage.session.ending():
            changes = stage.changes()
            check_cancelled()
            if changes:
                landed = self._history.commit(
                    self._base,
                    changes,
                    self._message,
                    metadata=stage.metadata,
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
