"""The versions, branches and tags of a store, as one branch sees them.

The part of :class:`~tessel.store.repository.Repository` that knows no tables.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from tessel.display.shown import InNotebooks
from tessel.errors import InvalidInputError, ReadOnlyStoreError, SymbolNotFoundError, shown
from tessel.errors.arguments import checks_arguments, refuses
from tessel.expression.periods import last_moment
from tessel.expression.scalars import moment_of, whole_number
from tessel.lazy import dataclass
from tessel.store.history.log import ATTACHED, LogEntry
from tessel.store.history.refs import MAIN
from tessel.store.history.symbol import SymbolState
from tessel.store.history.versions import Commit, timestamp_of
from tessel.store.lru_cache import LruCache
from tessel.store.manifest.format import ManifestReference
from tessel.store.manifest.manifest import Manifest
from tessel.store.names import check_message, check_ref_name, check_symbol_name
from tessel.store.objects.base import ObjectStore, freeing

if TYPE_CHECKING:
    from tessel.display.documents import Part


@dataclass(frozen=True, slots=True)
class Version:
    """What one version did to one symbol, or to branches and tags.

    Attributes
    ----------
    number
        Number of the commit: the version of the whole store.
    timestamp
        When it landed, UTC.
    message
        What the writer said.
    symbol
        The symbol that it touched; ``""`` for an act on branches or tags.
    change
        What it did to the symbol, such as ``"write"``, ``"append"`` or ``"delete"``; or to branches
        and tags, such as ``"create-tag"``.
    rows
        Rows of the symbol afterwards.
    branch
        The branch that it was made on.
    metadata
        What the writer attached to the commit: plain JSON.
    """

    number: int
    timestamp: datetime
    message: str
    symbol: str
    change: str
    rows: int
    branch: str = MAIN
    metadata: Mapping[str, Any] = field(default_factory=dict)

    if not TYPE_CHECKING:  # for those who try
        __lt__ = __le__ = __gt__ = __ge__ = __int__ = __sub__ = refuses(
            "a {} is compared by its number", "its .number is an integer"
        )

    @classmethod
    def of(cls, entry: LogEntry, symbol: str | None = None) -> Iterator[Version]:
        """Yield what an entry did: to one symbol, or to all and to branches and tags."""
        done = [
            (c.name, c.kind, c.rows) for c in entry.changes if symbol is None or symbol in c.names
        ]
        if symbol is None and entry.act != "commit":
            done.append(("", entry.act, 0))
        moment, metadata = timestamp_of(entry), entry.metadata.get(ATTACHED, {})
        for what in done:
            yield cls(entry.number, moment, entry.message, *what, entry.branch, metadata)


_CACHED_MANIFESTS = 256

AsOf = int | str | date | None
"""A version number; the name of a tag or branch; on the branch that is open, an instant with a time
zone, or a date or time as ISO text; None for the newest version of that branch."""

_DIGITS = 18  # as many as 64 bits hold


class VersionLog(list[Version], InNotebooks):
    """Versions, which a notebook shows as a table."""

    def _document(self) -> Part:
        from tessel.display.documents import Table

        columns = ("number", "timestamp", "symbol", "change", "rows", "message")
        moment = "{0.timestamp:%Y-%m-%d %H:%M:%S}Z".format
        rows = tuple((e.number, moment(e), e.symbol, e.change, e.rows, e.message) for e in self)
        return Table("", columns, rows)


@checks_arguments
class Timeline:
    """A store as a sequence of versions."""

    _made_by = 'store = ts.open("data") makes and opens one'

    def __init__(
        self, objects: ObjectStore, identity: str, *, read_only: bool, branch: str = MAIN
    ) -> None:
        from tessel.store.history.history import History

        self.objects = objects
        self.id = identity
        self.read_only = read_only
        self.branch = check_ref_name(branch)
        """The branch that is read where nothing else is said, and that writes go to."""
        self.history = History(objects)
        self._manifests: LruCache[str, Manifest] = LruCache(_CACHED_MANIFESTS)

    @property
    def uri(self) -> str:
        """Where the store is; other processes can open it by this, unless it is in memory."""
        return self.objects.uri

    @property
    def newest(self) -> int:
        """The newest version of the branch; 0 while nothing was committed."""
        history = self.history
        return history.tip(history.head(), self.branch)

    # --- versions ---------------------------------------------------------------------------------

    def versions(self, symbol: str) -> list[int]:
        """Return the numbers of the versions that touched a symbol, the oldest first.

        Those on the line of versions that led to the branch as it is, as far as they are kept.

        Raises
        ------
        SymbolNotFoundError
            When none of them touched a symbol of that name.

        Examples
        --------
        >>> store.append("names", {"symbol": ["NVDA"], "name": ["Nvidia"]})
        3
        >>> store.versions("names")
        [2, 3]
        """
        return sorted({version.number for version in self.log(symbol)})

    def log(self, symbol: str | None = None, *, limit: int | None = None) -> list[Version]:
        """Return what was done to a symbol, or to everything, the newest first.

        Parameters
        ----------
        symbol
            Its name; by default all symbols, and acts on branches and tags.
        limit
            Look for so many versions; all by default. A version that touched several symbols is
            listed once for each.

        Raises
        ------
        SymbolNotFoundError
            When no version on the line of the branch touched a symbol of that name.

        Examples
        --------
        >>> [(each.number, each.symbol, each.change) for each in store.log()]
        [(2, 'names', 'write'), (1, 'trades', 'write')]
        """
        if symbol is not None:
            check_symbol_name(symbol)
        if limit is not None and (not isinstance(limit, int) or not 0 < limit <= sys.maxsize):
            raise InvalidInputError(f"limit={shown(limit)} is no number of versions, from 1 on")
        start = self.history.newest(self.branch)
        logged = (list(Version.of(entry, symbol)) for entry in self.history.line(start))
        found = list(itertools.islice(filter(None, logged), limit))
        if symbol is not None and not found:
            raise SymbolNotFoundError.for_name(symbol, start.snapshot.near(symbol))
        return VersionLog(version for group in found for version in group)

    def resolve(self, commit: str) -> int | None:
        """Return the version that a commit id landed as; None if it did not land.

        Examples
        --------
        >>> store.resolve(store.at(1).entry.commit)
        1
        """
        return self.history.resolve(commit)

    def at(self, as_of: AsOf) -> Commit:
        """Return a version.

        Parameters
        ----------
        as_of
            Its number; the name of a tag or of a branch; or a time, which means the newest version
            not after it: a datetime with a zone, a date, or ISO text where nothing has that name.
            Text without a zone is UTC; a date or a part of one (``"2024-05"``) is its last instant.

        Raises
        ------
        VersionNotFoundError
            In one of its kinds, when there is none of that number, name or instant.

        Examples
        --------
        >>> store.at(1).number
        1
        >>> store.at("2100-01-31").number
        2
        """
        if as_of is None:
            return self.history.newest(self.branch)
        if type(as_of) is date:
            as_of = str(as_of)
        if isinstance(as_of, str):  # no name is all digits
            if not as_of.isdecimal() or len(as_of) > _DIGITS:
                return self.history.named(as_of, self.branch)
            as_of = int(as_of)
        number, moment = whole_number(as_of), moment_of(as_of)
        if number is not None:
            return self.history.at(number, self.branch)
        if moment is not None:
            return self.history.as_of(moment, self.branch)
        raise InvalidInputError(
            f"as_of={as_of!r} is no version",
            hint="give a version number, a tag, a branch, ISO text, or a datetime with a zone",
        )

    def _told(self, as_of: AsOf) -> str:
        """Return as what :meth:`at` takes something that it takes."""
        if as_of is None:
            return f"the newest of branch {self.branch!r}"
        number, moment, text = whole_number(as_of), moment_of(as_of), str(as_of)
        if number is None and moment is None:  # text, or a date
            if text.isdecimal():
                number = int(text)
            else:
                refs = self.history.refs_at(self.history.known_head)  # that was just looked at
                for kind, names in (("tag", refs.tags), ("branch", refs.branches)):
                    if text in names:
                        return f"{kind} {text!r}"
                moment = last_moment(text)
        return f"the newest up to {moment}" if number is None else f"version {number}"

    def manifest(self, reference: ManifestReference) -> Manifest:
        """Return a manifest, kept from an earlier call where there was one."""
        found = self._manifests.get(reference.object)
        if found is None or found.reference != reference:
            found = Manifest(self.objects, reference)
            self._manifests.put(reference.object, found)
        return found

    def _state(self, symbol: str, as_of: AsOf = None) -> tuple[Commit, SymbolState]:
        check_symbol_name(symbol)
        commit = self.at(as_of)
        state = commit.snapshot.get(symbol)
        if state is None:
            existing = commit.snapshot.near(symbol)
            raise SymbolNotFoundError.for_name(symbol, existing, version=commit.number)
        return commit, state

    # --- branches and tags ------------------------------------------------------------------------

    def branches(self) -> dict[str, int]:
        """Return the newest version of each branch, sorted by name.

        Examples
        --------
        >>> store.branches()
        {'main': 2}
        """
        return dict(sorted(self.history.refs().branches.items()))

    def tags(self) -> dict[str, int]:
        """Return the version of each tag, sorted by name.

        Examples
        --------
        >>> store.create_tag("audited")
        3
        >>> store.tags()
        {'audited': 2}
        """
        return dict(sorted(self.history.refs().tags.items()))

    def create_branch(self, name: str, at: AsOf = None) -> int:
        """Make a branch, and return its first version, which holds what ``at`` held.

        Parameters
        ----------
        name
            Of letters, digits and ``_ . / -``; no branch, tag or deleted tag has it.
        at
            The version that it begins with; by default the newest of the branch that is open.

        Raises
        ------
        RefNameError, RefExistsError, VersionNotFoundError
            When the name cannot be taken, or there is no such version.

        Examples
        --------
        >>> store.create_branch("trial")
        3
        >>> store.on_branch("trial").symbols()
        ['names', 'trades']
        """
        self.check_writable()
        check_ref_name(name)
        return self.history.create_branch(name, self.at(at).number).number

    def reset_branch(self, name: str, to: AsOf) -> int:
        """Set a branch to a version, and return the version that this makes.

        Versions after ``to`` leave the line of the branch; they can be read by number as long as
        they are kept.

        Raises
        ------
        RefNotFoundError, VersionNotFoundError
            When there is no such branch or version.

        Examples
        --------
        >>> store.create_branch("trial")
        3
        >>> store.reset_branch("trial", 1)
        4
        >>> store.on_branch("trial").symbols()
        ['trades']
        """
        self.check_writable()
        return self.history.reset_branch(check_ref_name(name), self.at(to).number).number

    def delete_branch(self, name: str) -> int:
        """Delete a branch, and return the version that this makes on the main branch.

        Raises
        ------
        RefNotFoundError
            When there is no such branch.
        InvalidInputError
            For the main branch, which every store has.

        Examples
        --------
        >>> store.create_branch("trial")
        3
        >>> store.delete_branch("trial")
        4
        >>> store.branches()
        {'main': 4}
        """
        self.check_writable()
        with freeing(self.objects):
            return self.history.delete_branch(check_ref_name(name)).number

    def create_tag(self, name: str, at: AsOf = None) -> int:
        """Name a version for ever, and return the version that this makes on the main branch.

        Parameters
        ----------
        name
            Of letters, digits and ``_ . / -``; no branch, tag or deleted tag has it.
        at
            What it names; by default the newest version of the branch that is open.

        Raises
        ------
        RefNameError, RefExistsError, VersionNotFoundError
            When the name cannot be taken, or there is no such version.

        Examples
        --------
        >>> store.create_tag("audited")
        3
        >>> store.read("trades", as_of="audited").shape
        (4, 4)
        """
        self.check_writable()
        check_ref_name(name)
        return self.history.create_tag(name, self.at(at).number).number

    def delete_tag(self, name: str) -> int:
        """Delete a tag, whose name is never used again; return the version that this makes.

        Raises
        ------
        RefNotFoundError
            When there is no such tag.

        Examples
        --------
        >>> store.create_tag("audited")
        3
        >>> store.delete_tag("audited")
        4
        >>> store.tags()
        {}
        """
        self.check_writable()
        with freeing(self.objects):
            return self.history.delete_tag(check_ref_name(name)).number

    def revert(self, to: AsOf, message: str = "") -> int:
        """Make all symbols what they were at a version, by a new version; return its number.

        Nothing is forgotten: the versions between stay. Where the symbols are so already, the
        newest version is returned.

        Raises
        ------
        VersionNotFoundError
            When there is no such version.
        CommitConflictError
            When another writer changed one of the symbols meanwhile; nothing was changed.

        Examples
        --------
        >>> store.delete("trades")
        3
        >>> store.revert(2)
        4
        >>> store.symbols()
        ['names', 'trades']
        """
        self.check_writable()
        if to is None:
            raise InvalidInputError("revert needs a version to go back to: revert(to=version)")
        base, target = self.history.newest(self.branch), self.at(to)
        text = check_message(message) or f"revert to version {target.number}"
        landed = self.history.revert(base, target, text)
        return base.number if landed is None else landed.number

    def check_writable(self) -> None:
        """Raise ``ReadOnlyStoreError`` where the store was opened read-only."""
        if self.read_only:
            raise ReadOnlyStoreError(
                f"the store at {self.uri!r} was opened read-only",
                hint="open it with read_only=False to write",
                uri=self.uri,
            )
