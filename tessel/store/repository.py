"""A store without queries: symbols, versions, writes and transactions.

Writing goes data → segments → manifest → one log entry, and nothing is visible before the entry
is. Reading starts from a version, which never changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from tessel.errors import InvalidInputError, SymbolNotFoundError
from tessel.store.difference import Difference, difference
from tessel.store.history import MAIN, open_store
from tessel.store.manifest import Manifest, ManifestReference
from tessel.store.names import check_symbol_name
from tessel.store.objects import CloudOptions, CredentialsSource, ObjectStore, open_objects
from tessel.store.timeline import AsOf, Timeline
from tessel.store.transaction import Transaction
from tessel.store.view import SymbolView

__all__ = ["Repository"]

_KEPT_MANIFESTS = 256


class Repository(Timeline):
    """A store, or a branch of it: opened with :meth:`open`, safe to use from several threads.

    Several processes may have one store open; none of them locks it.
    """

    def __init__(
        self, objects: ObjectStore, identity: str, *, read_only: bool, branch: str = MAIN
    ) -> None:
        super().__init__(objects, identity, read_only=read_only, branch=branch)
        self._manifests: dict[str, Manifest] = {}

    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        *,
        create: bool = True,
        read_only: bool = False,
        branch: str = MAIN,
        credentials: CredentialsSource | None = None,
        options: CloudOptions | dict[str, Any] | None = None,
    ) -> Repository:
        """Open a store.

        Parameters
        ----------
        uri
            A path, ``file:///path``, ``memory://name``, ``memory://`` for a new one in memory, or
            ``s3://bucket/folder``, ``gs://…``, ``az://container/folder``.
        create
            Make a store where there is nothing.
        read_only
            Refuse every write; then nothing is made, and no file is touched.
        branch
            The branch to read and to write.
        credentials, options
            For a store in a cloud; see :func:`tessel.store.objects.open_objects`.

        Raises
        ------
        StoreNotFoundError
            When there is nothing, and none is to be made.
        NotAStoreError
            When there is something else; it is left as it is.
        FormatVersionError
            When another version of the format wrote it; it is left as it is.
        RefNotFoundError
            When the store has no such branch.
        """
        objects = open_objects(uri, credentials=credentials, options=options)
        identity = open_store(objects, create=create, read_only=read_only)
        return cls(objects, identity.id, read_only=read_only).on_branch(branch)

    def on_branch(self, branch: str) -> Repository:
        """Return the same store on another branch; ``RefNotFoundError`` where there is none."""
        if branch != MAIN:
            self.history.refs().branch(branch)
        return Repository(self.objects, self.id, read_only=self.read_only, branch=branch)

    def __repr__(self) -> str:
        at = "" if self.branch == MAIN else f" branch {self.branch!r}"
        return f"<Repository {self.uri!r}{at}{' read-only' if self.read_only else ''}>"

    # --- reading ----------------------------------------------------------------------------------

    def symbols(self, pattern: str | None = None, *, as_of: AsOf = None) -> list[str]:
        """Return the names of the symbols, sorted.

        Parameters
        ----------
        pattern
            A regular expression that the whole name matches; all names by default.
        as_of
            A version number, a tag or branch, or an instant; the newest version by default.
        """
        names = list(self.at(as_of).snapshot)
        if pattern is None:
            return names
        try:
            matches = re.compile(pattern).fullmatch
        except re.error as error:
            raise InvalidInputError(f"{pattern!r} is no regular expression: {error}") from error
        return [name for name in names if matches(name)]

    def view(self, symbol: str, as_of: AsOf = None) -> SymbolView:
        """Return a symbol as it is, or as it was.

        Parameters
        ----------
        symbol
            Its name.
        as_of
            A version number, a tag or branch, or an instant with a time zone, on the branch that
            is open; its newest version by default.

        Raises
        ------
        SymbolNotFoundError, VersionNotFoundError
            When there is no such symbol, or no such version.
        """
        check_symbol_name(symbol)
        commit = self.at(as_of)
        state = commit.snapshot.get(symbol)
        if state is None:
            existing = commit.snapshot.near(symbol)
            raise SymbolNotFoundError.for_name(symbol, existing, version=commit.number)
        return SymbolView(self, symbol, commit.number, state)

    def manifest(self, reference: ManifestReference) -> Manifest:
        """Return a manifest, kept from an earlier call where there was one."""
        found = self._manifests.get(reference.object)
        if found is None or found.reference != reference:
            found = self._manifests[reference.object] = Manifest(self.objects, reference)
            while len(self._manifests) > _KEPT_MANIFESTS:
                self._manifests.pop(next(iter(self._manifests)), None)
        return found

    def diff(self, before: AsOf, after: AsOf = None) -> Difference:
        """Say what differs between two versions: symbols, columns, rows and segments.

        Parameters
        ----------
        before, after
            The versions; ``after`` is by default the newest of the branch.

        Raises
        ------
        VersionNotFoundError
            When there is no such version.
        """
        return difference(self, self.at(before), self.at(after))

    # --- writing ----------------------------------------------------------------------------------

    def write(
        self,
        symbol: str,
        data: Any,
        *,
        index: str | None = None,
        sort: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Write a table as a symbol, new or in place of what it was; return the new version.

        Parameters
        ----------
        symbol
            Its name.
        data
            A table of any kind that :mod:`tessel.store.frames` takes.
        index
            The column that is the time index: a timestamp, date or integer that never goes back
            and has no missing values.
        sort
            Sort the rows by the index first; rows of equal times keep their order.
        metadata
            Plain JSON to keep with the symbol.

        Raises
        ------
        InvalidInputError
            In one of its kinds, when the data cannot be taken; nothing was changed.
        CommitConflictError
            When another writer changed the symbol meanwhile; nothing was changed.
        """
        with self.transaction(f"write {symbol}") as transaction:
            transaction.write(symbol, data, index=index, sort=sort, metadata=metadata)
        return transaction.landed

    def append(self, symbol: str, data: Any) -> int:
        """Add rows at the end of a symbol; return the new version.

        The columns are those of the symbol, in any order, with the same types (a column of nulls
        without a type goes with any). With an index, no row is before the last one of the symbol.

        Raises
        ------
        SymbolNotFoundError
            When there is no such symbol.
        SchemaMismatchError
            When columns or types differ; lists all differences.
        UnsortedIndexError
            When the index goes back, in the data or below the last time of the symbol.
        """
        with self.transaction(f"append {symbol}") as transaction:
            transaction.append(symbol, data)
        return transaction.landed

    def delete(self, symbol: str) -> int:
        """Delete a symbol; earlier versions keep it. Return the new version."""
        with self.transaction(f"delete {symbol}") as transaction:
            transaction.delete(symbol)
        return transaction.landed

    def transaction(self, message: str = "") -> Transaction:
        """Gather changes of several symbols into one commit.

        ``with repository.transaction("end of day") as tx: tx.append(…); tx.write(…)``. The commit
        lands when the block ends; if the block raises, nothing of it does. A transaction without
        changes makes no version.
        """
        self.check_writable()
        if not isinstance(message, str):
            raise InvalidInputError(f"the message of a transaction is text, not {message!r}")
        return Transaction(
            self.objects, self.history, self.history.newest(self.branch), message, self.manifest
        )
