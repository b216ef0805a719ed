"""The commit log: numbered entries, each written once; whoever writes an entry has won its number.

The reply to a put can be lost, so an entry carries a random commit id. On "exists already" and on
any error the writer reads the entry back: its own id means won, another one lost, no entry means
try again, and what cannot be read means that nobody knows: then nothing is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from tessel.errors import (
    CommitUnknownError,
    CorruptStoreError,
    NotFoundError,
    StoreError,
    StoreNotFoundError,
    TesselError,
)
from tessel.lazy import dataclass
from tessel.store.history.committed_changes import CommittedChange, CommittedChanges
from tessel.store.history.documents import (
    HEADER,
    Fields,
    Reference,
    check_format,
    damaged,
    fields_of,
    seal,
    unseal,
)
from tessel.store.history.leaves import Leaf, Node, read_node
from tessel.store.history.refs import read_numbers
from tessel.store.names import LOG, STORE, log_name, log_number
from tessel.store.objects.base import (
    ObjectStore,
    SupportsDurableNames,
    SupportsReserve,
    VerifiesPuts,
)

ACTS = (
    "commit",
    "create-branch",
    "delete-branch",
    "reset-branch",
    "create-tag",
    "delete-tag",
    "expire",
    "collect",
    "configure-manifests",
    "repack",
)

ATTACHED = "attached"
"""Where the metadata of an entry hold what the writer attached; other keys are ours."""

_ATTEMPTS = 3
_LISTED = 16
_LAST_TIMESTAMP_US = 253_402_300_799_999_999
"""The end of the year 9999, the last that a datetime can be in."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One change of the store: a commit, or an act on branches and tags.

    Every entry belongs to one branch and is its newest version until the next entry of the branch.
    An entry for branches and tags changes no symbol.

    Attributes
    ----------
    number
        Dense, from 1 on: the version of the store after the commit.
    commit, previous
        Random id of this commit and of the one that has the number before, whatever its branch;
        the first has none: ``""``.
    parent
        Number of the version that it changed; 0 for the empty one.
    depth
        How many versions lie between it and the empty one, itself included.
    jump
        A version further back on the same line: 0, or one that
        :mod:`tessel.store.history.versions` may go to.
    timestamp_us
        Microseconds since 1970 UTC, greater than that of the number before whatever the clocks say.
    message, metadata
        What the writer said about it: text, and plain JSON.
    act
        What was done; see :data:`ACTS`.
    subject
        The branch or tag that the act is about; ``""`` for a commit.
    refs
        The branches and tags as last written; None while there is only the main branch.
    moved
        Branches that have a newer version than there, this entry's branch left out.
    changes
        What it changed, at least one per symbol; they are decoded where they are asked for.
    lookup
        The root of the lookup from manifests to symbols.
    """

    number: int
    commit: str
    previous: str
    branch: str
    parent: int
    depth: int
    jump: int
    timestamp_us: int
    message: str
    root: Node
    changes: Iterable[CommittedChange] = ()
    act: str = "commit"
    subject: str = ""
    refs: Reference | None = None
    moved: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    lookup: Node = field(default_factory=Leaf)

    def to_bytes(self) -> bytes:
        """Return the entry as it is stored."""
        return seal({**HEADER, **fields_of(self)})

    @classmethod
    def read(cls, fields: Fields, number: int) -> LogEntry:
        """Read the entry of a number from its document."""
        check_format(fields)
        name = fields.name
        if fields.integer("number") != number:
            damaged(name, f"it is the entry of version {fields.integer('number')}")
        entry = cls(**{name: read(fields, name) for name, read in _FIELDS.items()})
        if not entry.jump <= entry.parent < number or entry.timestamp_us > _LAST_TIMESTAMP_US:
            damaged(name, "its place in the history is impossible")
        if entry.act not in ACTS or any(at >= number for at in entry.moved.values()):
            damaged(name, "what it says of branches is impossible")
        return entry


def _encodable(message: str) -> str:
    return message.encode(errors="backslashreplace").decode()


_FIELDS: Final[Mapping[str, Callable[[Fields, str], Any]]] = {
    **dict.fromkeys(("number", "parent", "depth", "jump", "timestamp_us"), Fields.integer),
    **dict.fromkeys(("commit", "previous", "branch", "act", "subject"), Fields.text),
    # Earlier versions took messages with halves of surrogate pairs, which nothing can show.
    "message": lambda fields, key: _encodable(fields.text(key)),
    **dict.fromkeys(("root", "lookup"), lambda fields, key: read_node(fields.fields(key))),
    "refs": lambda fields, key: (
        None if fields.value(key) is None else Reference.read(fields.fields(key))
    ),
    "moved": read_numbers,
    "metadata": Fields.mapping,
    "changes": lambda fields, key: CommittedChanges(fields.sequence(key), fields.name),
}
"""How each field of an entry is read from its document."""


class CommitLog:
    """Reads and writes the entries of one store."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        # Asked once: whether an object satisfies a protocol takes 40 µs to say.
        self._verifies = objects if isinstance(objects, VerifiesPuts) else None
        self._reserves = objects if isinstance(objects, SupportsReserve) else None

    def newest_number(self) -> int:
        """Return the number of the newest commit; 0 where there is none.

        Raises StoreNotFoundError when there is no store either: an unmounted disk looks like an
        empty log.
        """
        for name in self._objects.list(LOG, limit=_LISTED):
            number = log_number(name)
            if number is not None:
                return number
        self.check_present()
        return 0

    def check_present(self) -> None:
        """Raise ``StoreNotFoundError`` where the store itself is not there any more."""
        if not self._objects.exists(STORE):
            raise StoreNotFoundError.gone(self._objects.uri)

    def follows(self, number: int) -> bool:
        """Whether there is an entry after ``number``; cheaper than finding the newest."""
        return self._objects.exists(log_name(number + 1))

    def read(self, number: int) -> LogEntry:
        """Return an entry.

        Raises CorruptStoreError when it is damaged or missing; FormatVersionError when another
        version of the format wrote it.
        """
        name = log_name(number)
        try:
            data = self._objects.get(name)
        except NotFoundError as error:
            what = f"{name}, the log entry of version {number},"
            raise CorruptStoreError.for_object(what, "is missing", object=name) from error
        return LogEntry.read(unseal(data, name), number)

    def put(self, entry: LogEntry) -> bool:
        """Try to write an entry; return whether it won: the module's text says how that is found.

        Raises CommitUnknownError when it cannot be told whether the entry landed, or whether it
        will survive power loss; StoreError when the entry could not be written and did not land;
        ``ConditionalWriteError`` for a place where it could overwrite another one.
        """
        if self._verifies is not None:
            self._verifies.verify_put_if_absent(STORE)
        if self._reserves is not None:
            self._reserves.keep_reserve()
        name, data = log_name(entry.number), entry.to_bytes()
        self._settle(entry.number - 1)
        failure: StoreError | None = None
        uncertain = ""
        for _ in range(_ATTEMPTS):
            failure = None
            try:
                if self._objects.put_if_absent(name, data):
                    return True
            except StoreError as error:
                failure = error
                if error.attributes.get("landed") == "unknown":
                    uncertain = error.message
            try:
                found = self.read(entry.number)
            except TesselError as error:
                if isinstance(error.__cause__, NotFoundError):
                    continue
                raise _unknown(entry, str(error)) from error
            if found.commit != entry.commit:
                return False
            if failure is not None and failure.attributes.get("landed") == "unknown":
                raise _unknown(entry, failure.message) from failure
            return True
        # A request whose answer never came may still be on its way, and land after all.
        if uncertain or failure is None:
            raise _unknown(entry, uncertain or "the entry exists and does not") from failure
        self.check_present()
        raise failure

    def _settle(self, number: int) -> None:
        """Let the entry before survive power loss before one in another folder follows it.

        Its writer may have given it its name and not synced the folder yet. Within one folder, the
        sync of the entry that follows does it.
        """
        name, following = log_name(number), log_name(number + 1)
        if (
            number > 0
            and name.rpartition("/")[0] != following.rpartition("/")[0]
            and isinstance(self._objects, SupportsDurableNames)
        ):
            self._objects.make_durable(name)


def _unknown(entry: LogEntry, why: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"it is not known whether commit {entry.commit} landed as version {entry.number}: {why}",
        hint=f"nothing was deleted; resolve({entry.commit!r}) tells once the store can be read",
        commit=entry.commit,
        number=entry.number,
    )
