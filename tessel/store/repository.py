"""A store without queries: symbols, versions, writes and transactions.

Writing goes data → segments → manifest → one log entry, and nothing is visible before the entry
is. Reading starts from a version, which never changes.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from tessel.errors import InvalidInputError, StoreNotVisibleError
from tessel.errors.arguments import checks_arguments
from tessel.store.bulk import Bulk
from tessel.store.history.documents import check_same, open_store
from tessel.store.history.log import ATTACHED
from tessel.store.history.refs import MAIN
from tessel.store.maintenance.upkeep import Manifests, checked_configuration
from tessel.store.manifest.packing.validation import fault_of, full_matches
from tessel.store.names import check_message
from tessel.store.objects.base import freeing
from tessel.store.objects.memory import MemoryObjects
from tessel.store.objects.open import open_objects
from tessel.store.timeline import AsOf
from tessel.store.view import SymbolView

if TYPE_CHECKING:
    from tessel.expression.node import Expression
    from tessel.store.difference import Difference
    from tessel.store.objects.cloud_place import CloudOptions
    from tessel.store.objects.credentials import CredentialsSource
    from tessel.store.operations.incoming import Evolve
    from tessel.store.transaction import Isolation, Transaction


@checks_arguments
class Repository(Bulk):
    """A store, or a branch of it: opened with :meth:`open`, safe to use from several threads.

    Several processes may have one store open; none of them locks it.
    """

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
        manifests: Manifests = None,
    ) -> Self:
        """Open a store, making it where there is none.

        Parameters
        ----------
        uri
            A path, ``file:///path``, ``memory://name`` for a store that lives as long as the
            process, ``memory://`` for a new one of that kind, or ``s3://bucket/folder``,
            ``gs://…``, ``az://container/folder`` with the extra ``cloud``.
        create
            Whether a store is made where there is none; otherwise ``StoreNotFoundError``.
        read_only
            Refuse every write; then nothing is made, and no file is touched.
        branch
            The branch to read and to write.
        credentials
            For a cloud: :class:`S3Credentials`, :class:`GoogleCredentials`,
            :class:`AzureCredentials`, or a function that returns them; by default what the
            environment offers.
        options
            For a cloud: :class:`CloudOptions`, or a mapping of its fields.
        manifests
            Which symbols share a manifest, for what this session writes and fetches early: a
            ``ManifestConfiguration`` or the plain data of one; by default that of the store.

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
        OptionError
            For a configuration of manifests that cannot be.

        Examples
        --------
        >>> ts.open("example", read_only=True).symbols()
        ['names', 'trades']
        """
        override = checked_configuration(manifests)
        objects = open_objects(uri, credentials=credentials, options=options)
        identity = open_store(objects, create=create, read_only=read_only)
        opened = cls(objects, identity.id, read_only=read_only).on_branch(branch)
        opened._override = override
        opened.preload()
        return opened

    def on_branch(self, branch: str) -> Self:
        """Return the same store on another branch; ``RefNotFoundError`` where there is none.

        Examples
        --------
        >>> store.create_branch("trial")
        3
        >>> store.on_branch("trial").delete("names")
        4
        >>> store.symbols()
        ['names', 'trades']
        """
        if branch != MAIN:
            self.history.refs().branch(branch)
        other = type(self)(self.objects, self.id, read_only=self.read_only, branch=branch)
        other._override = self._override
        if self._preloader is not None:
            other.preload()
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the store is, for another process to open it; no secret is among it.

        Raises
        ------
        StoreAccessError
            For a store that was opened with credentials.
        StoreNotVisibleError
            For a store in the memory of this process.
        """
        from tessel.store.objects.open import address_of

        if isinstance(self.objects, MemoryObjects):
            raise StoreNotVisibleError.in_memory(self.uri)
        address = address_of(self.objects)
        return _opened, (type(self), address, self.id, self.read_only, self.branch, self._override)

    def __repr__(self) -> str:
        at = "" if self.branch == MAIN else f" branch {self.branch!r}"
        return f"<Repository {self.uri!r}{at}{' read-only' if self.read_only else ''}>"

    # --- reading ----------------------------------------------------------------------------------

    def symbols(self, pattern: str | None = None, *, as_of: AsOf = None) -> list[str]:
        """Return the names of the symbols, sorted.

        Parameters
        ----------
        pattern
            A regular expression in RE2's syntax that the whole name matches: linear time, no
            backreferences, no look-around. All names by default.
        as_of
            A version number, a tag or branch, or an instant; the newest version by default.

        Examples
        --------
        >>> store.symbols("t.*")
        ['trades']
        """
        names = list(self.at(as_of).snapshot)
        if pattern is None:
            return names
        fault = fault_of(pattern)
        if fault is not None:
            raise InvalidInputError.no_regex(pattern, fault)
        return list(itertools.compress(names, full_matches(pattern, names)))

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

        Examples
        --------
        >>> store.view("trades").row_count
        4
        """
        commit, state = self._state(symbol, as_of)
        if isinstance(as_of, str) and self._preloader is not None:
            self.preload(as_of)
        return SymbolView(self, symbol, commit.number, state)

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

        Examples
        --------
        >>> store.append("names", {"symbol": ["NVDA"], "name": ["Nvidia"]})
        3
        >>> store.diff(2).changed[0].rows_after
        3
        """
        from tessel.store.difference import difference

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
        encodings: Mapping[str, str] | None = None,
    ) -> int:
        """Write a table as a symbol, new or in place of what it was; return the new version."""
        with self._begin(f"write {symbol}") as transaction:
            transaction.write(
                symbol, data, index=index, sort=sort, metadata=metadata, encodings=encodings
            )
        return transaction.landed

    def append(self, symbol: str, data: Any, *, evolve: Evolve = None) -> int:
        """Add rows at the end of a symbol; return the new version."""
        with self._begin(f"append {symbol}") as transaction:
            transaction.append(symbol, data, evolve=evolve)
        return transaction.landed

    def update(
        self,
        symbol: str,
        data: Any,
        *,
        date_range: tuple[Any, Any] | None = None,
        evolve: Evolve = None,
    ) -> int:
        """Replace the rows in a range of times by those of a table; return the new version."""
        with self._begin(f"update {symbol}") as transaction:
            transaction.update(symbol, data, date_range=date_range, evolve=evolve)
        return transaction.landed

    def upsert(self, symbol: str, data: Any, *, keys: Sequence[str], evolve: Evolve = None) -> int:
        """Replace rows by key and add those of new keys; return the new version."""
        with self._begin(f"upsert {symbol}") as transaction:
            transaction.upsert(symbol, data, keys=keys, evolve=evolve)
        return transaction.landed

    def delete_rows(
        self,
        symbol: str,
        *,
        rows: tuple[int, int] | None = None,
        date_range: tuple[Any, Any] | None = None,
        where: Expression | str | None = None,
    ) -> int:
        """Take rows out of a symbol; return the new version, or the newest where none went.

        Parameters
        ----------
        symbol
            Its name.
        rows
            Positions ``(start, stop)``.
        date_range
            A range of the index, as for :meth:`update`.
        where
            A condition; the rows where it is true go. One of the three is given.

        Examples
        --------
        >>> store.delete_rows("trades", where="qty > 2")
        3
        >>> store.read("trades")["qty"].to_pylist()
        [1, 2]
        """
        with self._begin(f"delete rows of {symbol}") as transaction:
            transaction.delete_rows(symbol, rows=rows, date_range=date_range, where=where)
        return transaction.landed

    def delete(self, symbol: str) -> int:
        """Delete a symbol; earlier versions keep it. Return the new version.

        Examples
        --------
        >>> store.delete("names")
        3
        >>> store.symbols()
        ['trades']
        """
        with freeing(self.objects), self._begin(f"delete {symbol}") as transaction:
            transaction.delete(symbol)
        return transaction.landed

    def rename_symbol(self, symbol: str, to: str) -> int:
        """Give a symbol another name, which none has; return the new version.

        Examples
        --------
        >>> store.rename_symbol("names", "companies")
        3
        >>> store.symbols()
        ['companies', 'trades']
        """
        with self._begin(f"rename {symbol} to {to}") as transaction:
            transaction.rename_symbol(symbol, to)
        return transaction.landed

    def set_metadata(self, symbol: str, metadata: Mapping[str, Any]) -> int:
        """Replace the metadata of a symbol, plain JSON; return the new version.

        Examples
        --------
        >>> store.set_metadata("names", {"source": "by hand"})
        3
        >>> store.view("names").metadata
        {'source': 'by hand'}
        """
        with self._begin(f"set metadata of {symbol}") as transaction:
            transaction.set_metadata(symbol, metadata)
        return transaction.landed

    def add_column(
        self, symbol: str, name: str, values: Any = None, *, data_type: Any = None
    ) -> int:
        """Add a column at the end; no other column is rewritten. Return the new version.

        Parameters
        ----------
        symbol, name
            The symbol, and the name of the column.
        values
            One value for all rows, or as many as there are rows; None for missing values, which
            writes no data at all.
        data_type
            A pyarrow type or its name; by default that of the values. A column of missing values
            without a type takes the first one that it is given.

        Examples
        --------
        >>> store.add_column("names", "listed", True)
        3
        >>> store.read("names")["listed"].to_pylist()
        [True, True]
        """
        with self._begin(f"add column {name} to {symbol}") as transaction:
            transaction.add_column(symbol, name, values, data_type=data_type)
        return transaction.landed

    def drop_column(self, symbol: str, name: str) -> int:
        """Take a column away; a column of that name added later is another one.

        Examples
        --------
        >>> store.drop_column("trades", "price")
        3
        >>> store.read("trades").column_names
        ['time', 'symbol', 'qty']
        """
        with self._begin(f"drop column {name} of {symbol}") as transaction:
            transaction.drop_column(symbol, name)
        return transaction.landed

    def rename_columns(self, symbol: str, names: Mapping[str, str]) -> int:
        """Give columns other names, ``{"old": "new"}``; no data is written.

        Examples
        --------
        >>> store.rename_columns("names", {"name": "company"})
        3
        >>> store.read("names").column_names
        ['symbol', 'company']
        """
        with self._begin(f"rename columns of {symbol}") as transaction:
            transaction.rename_columns(symbol, names)
        return transaction.landed

    def widen(self, symbol: str, types: Mapping[str, Any]) -> int:
        """Give columns wider types, ``{"column": "int64"}``; no data is written.

        Raises
        ------
        SchemaMismatchError
            For a type that does not hold every value of the old one exactly.

        Examples
        --------
        >>> store.write("small", trades.cast({"qty": "int32"}).rename({"qty": "n"}))
        3
        >>> store.widen("small", {"n": "float64"})
        4
        >>> store.schema("small").arrow.field("n").type
        DataType(double)
        """
        with self._begin(f"widen columns of {symbol}") as transaction:
            transaction.widen(symbol, types)
        return transaction.landed

    def transaction(
        self,
        message: str = "",
        *,
        isolation: Isolation = "snapshot",
        metadata: Mapping[str, Any] | None = None,
    ) -> Transaction:
        """Gather changes of several symbols into one commit.

        ``with repository.transaction("end of day") as tx: tx.append(…); tx.write(…)``. The commit
        lands when the block ends; if the block raises, nothing of it does. A transaction without
        changes makes no version.

        Parameters
        ----------
        message
            What the log says about it.
        isolation
            ``"snapshot"``: it conflicts with changes of what it changes. ``"serializable"``: also
            with changes of what it read.
        metadata
            Plain JSON to keep with the commit; ``log`` shows it.

        Examples
        --------
        >>> with store.transaction("both at once") as both:
        ...     both.write("a", {"n": [1]})
        ...     both.delete("names")
        >>> store.version, store.symbols()
        (3, ['a', 'trades'])
        """
        from tessel.store.operations.working import checked_metadata

        self.check_writable()
        attached = None if metadata is None else {ATTACHED: checked_metadata(metadata)}
        return self._begin(check_message(message), isolation, attached)

    def _begin(
        self,
        message: str,
        isolation: Isolation = "snapshot",
        metadata: Mapping[str, Any] | None = None,
    ) -> Transaction:
        """Begin a transaction with a message of ours; the verbs check the names in it."""
        from tessel.store.transaction import Transaction

        self.check_writable()
        return Transaction(
            self.objects,
            self.history,
            self.history.newest(self.branch),
            message,
            self.manifest,
            isolation=isolation,
            metadata=metadata,
            configuration=self.known_configuration,
        )


def _opened(
    cls: type[Repository],
    address: dict[str, Any],
    identity: str,
    read_only: bool,
    branch: str,
    manifests: Manifests,
) -> Repository:
    """Open a store that was pickled; it is the same one, or an error."""
    found = cls.open(
        address["uri"],
        create=False,
        read_only=read_only,
        branch=branch,
        options=address["options"],
        manifests=manifests,
    )
    check_same(found.uri, found.id, identity)
    return found
