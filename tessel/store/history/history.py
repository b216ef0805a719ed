"""Changing a store: commits among other writers, and acts on branches and tags."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tessel.errors import SnapshotExpiredError, VersionNotFoundError
from tessel.store.history.committer import Committer, Draft, EntryHeader
from tessel.store.history.refs import MAIN, Refs
from tessel.store.history.snapshot import Snapshot
from tessel.store.history.versions import Commit

if TYPE_CHECKING:
    from tessel.store.history.changes import Change, Tried
    from tessel.store.history.leaves import Node
    from tessel.store.history.log import LogEntry
    from tessel.store.history.rebase import Objection, ReadRange
    from tessel.store.manifest.packing.configuration import ManifestConfiguration
    from tessel.store.objects.base import ObjectStore


class History(Committer):
    """The history of one store; safe to use from several threads.

    One log serialises everything: an entry is a commit on one branch, or an act on branches and
    tags. A commit conflicts with commits on its own branch only.
    """

    # --- commits ----------------------------------------------------------------------------------

    def commit(
        self,
        base: Commit,
        changes: Sequence[Change],
        message: str,
        *,
        reads: Sequence[ReadRange] = (),
        metadata: Mapping[str, Any] | None = None,
        survived: Callable[[Refs], None] | None = None,
        act: str = "commit",
        objects: Sequence[tuple[str, bytes]] = (),
        through: ObjectStore | None = None,
        objections: Sequence[Objection] = (),
        tried: Tried | None = None,
    ) -> LogEntry:
        """Commit changes that were made on ``base``, rebased onto what its branch has since.

        Everything the changes refer to has been written, or is among ``objects``, which are written
        side by side with what the commit needs itself. Nothing is visible until the log entry
        is; on any error nothing is.

        Raises CommitConflictError when a newer commit of the branch changed the same rows, or there
        is an objection to it, or the branch was deleted or set back; CommitUnknownError when it is
        not known whether the commit is in the log.

        Parameters
        ----------
        base
            The version that the changes were made on, and the branch they go to.
        message, metadata
            What the log shall say: text, and plain JSON.
        reads
            What must not have changed since ``base``, under the isolation ``serializable``.
        survived
            Called before each attempt where a collection was announced after ``base``, with the
            refs that say so; raises where an object that the changes refer to was condemned. An
            announcement is an entry of the log, so none can come between this and the commit.
        objects
            Names and bytes of manifests that are still to be written.
        through
            Where objects are put, as ``Draft`` has it.
        objections
            Asked about every entry committed to the branch since ``base``, whatever its changes.

        tried
            The changes as they were applied to ``base``, which is not done again then.
        """
        from tessel.store.history.rebase import PendingCommit

        pending = PendingCommit(self, base, changes, reads, objects, through, objections, tried)

        def draft(head: LogEntry | None) -> Draft:
            before = None if base.entry is None else base.entry.refs
            if survived is not None and head is not None and head.refs != before:
                refs = self.refs_at(head)
                if refs.collected > base.number:
                    survived(refs)
            return pending.draft(head)

        return self._commit(draft, EntryHeader(message, metadata or {}, act))

    def revert(self, base: Commit, to: Commit, message: str) -> LogEntry | None:
        """Land a commit that makes the symbols those of an older version; None if they are.

        It conflicts with what came after ``base`` as the same changes made by hand would.
        """
        from tessel.store.history.changes import Removal, Replacement
        from tessel.store.history.rebase import PendingCommit
        from tessel.store.history.snapshot import changed_symbols

        changes: list[Change] = []
        for symbol, now, then in changed_symbols(base.snapshot, to.snapshot):
            if then is None:
                changes.append(Removal(symbol))
                continue
            # The ids of columns that were dropped since are not given out again.
            if now is not None and now.id == then.id:
                next_id = max(now.next_column_id, then.next_column_id)
                then = dataclasses.replace(then, next_column_id=next_id)
            changes.append(Replacement(symbol, then))
        if not changes:
            return None
        pending = PendingCommit(self, base, changes)

        def draft(head: LogEntry | None) -> Draft:
            # Once it has expired, what the older version refers to may go away at any moment.
            self._kept_entry(head, self.refs_at(head), to.number)
            return pending.draft(head)

        return self._commit(draft, EntryHeader(message))

    # --- branches and tags ------------------------------------------------------------------------

    def create_branch(self, name: str, at: int) -> LogEntry:
        """Make a branch that begins with a version.

        Raises RefExistsError when a branch or tag has the name, or a deleted tag had it;
        VersionNotFoundError when there is no such version.
        """

        def draft(head: LogEntry | None) -> Draft:
            refs = self.refs_at(head)
            after = refs.with_branch(name, at)
            start = self._kept_entry(head, refs, at)
            return Draft(name, start, self._root_of(start), refs=after)

        header = EntryHeader(f"create branch {name}", act="create-branch", subject=name)
        return self._commit(draft, header)

    def reset_branch(self, name: str, to: int) -> LogEntry:
        """Set a branch to a version, of whatever branch; what came after leaves its line.

        Commits to the branch that are under way get a conflict, unless they were made on that
        version.
        """

        def draft(head: LogEntry | None) -> Draft:
            refs = self.refs_at(head)
            refs.branch(name)
            start = self._kept_entry(head, refs, to)
            return Draft(name, start, self._root_of(start))

        message = f"reset branch {name} to version {to}"
        return self._commit(draft, EntryHeader(message, act="reset-branch", subject=name))

    def delete_branch(self, name: str) -> LogEntry:
        """Delete a branch; its versions can be read by number as long as they are kept."""
        header = EntryHeader(f"delete branch {name}", act="delete-branch", subject=name)
        return self._change_refs(lambda refs, head: refs.without_branch(name), header)

    def create_tag(self, name: str, at: int) -> LogEntry:
        """Name a version for ever.

        Raises RefExistsError when a branch or tag has the name, or a deleted tag had it;
        VersionNotFoundError when there is no such version.
        """

        def refs_after(refs: Refs, head: LogEntry | None) -> Refs:
            after = refs.with_tag(name, at)
            self._kept_entry(head, refs, at)
            return after

        header = EntryHeader(f"create tag {name} at version {at}", act="create-tag", subject=name)
        return self._change_refs(refs_after, header)

    def delete_tag(self, name: str) -> LogEntry:
        """Delete a tag; its name is never used again."""
        header = EntryHeader(f"delete tag {name}", act="delete-tag", subject=name)
        return self._change_refs(lambda refs, head: refs.without_tag(name), header)

    def expire_before(self, number: int) -> LogEntry:
        """Give up the versions before ``number``, besides tags and newest ones of branches.

        Nothing is deleted here: what is given up may be from now on.
        """

        def refs_after(refs: Refs, head: LogEntry | None) -> Refs:
            self._kept_entry(head, refs, number)
            return dataclasses.replace(refs, oldest=max(refs.oldest, number))

        header = EntryHeader(f"expire versions before {number}", act="expire")
        return self._change_refs(refs_after, header)

    def announce_collection(self, condemned_us: int) -> LogEntry:
        """Say that objects written before an instant will go unless a kept version needs them.

        Every later commit stands on this entry, and checks its objects against it;
        every commit before it can be seen by whoever collects.

        Parameters
        ----------
        condemned_us
            Microseconds since 1970 UTC, by the clock of the place.
        """

        def refs_after(refs: Refs, head: LogEntry | None) -> Refs:
            number = 1 if head is None else head.number + 1
            latest_us = max(refs.condemned_us, condemned_us)
            return dataclasses.replace(refs, collected=number, condemned_us=latest_us)

        header = EntryHeader("collect what no kept version needs", act="collect")
        return self._change_refs(refs_after, header)

    def set_manifests(self, configuration: ManifestConfiguration) -> LogEntry:
        """Say which symbols share a manifest, from the next commit on and on all branches."""
        return self._change_refs(
            lambda refs, head: dataclasses.replace(refs, manifests=configuration),
            EntryHeader("configure manifests", act="configure-manifests"),
        )

    def _change_refs(
        self, after: Callable[[Refs, LogEntry | None], Refs], header: EntryHeader
    ) -> LogEntry:
        """Land an entry of the main branch that changes no symbol."""

        def draft(head: LogEntry | None) -> Draft:
            refs = after(self.refs_at(head), head)
            number = self.tip(head, MAIN)
            tip = self.entry(number) if number else None
            return Draft(MAIN, tip, self._root_of(tip), refs=refs)

        return self._commit(draft, header)

    def _kept_entry(self, head: LogEntry | None, refs: Refs, number: int) -> LogEntry | None:
        newest = 0 if head is None else head.number
        if not 0 <= number <= newest:
            raise VersionNotFoundError.for_version(number, newest=newest)
        if not refs.keeps(number):
            raise SnapshotExpiredError.for_version(number, newest=newest, oldest=refs.oldest)
        return self.entry(number) if number else None

    def _root_of(self, entry: LogEntry | None) -> Node:
        return Snapshot(self._nodes).root if entry is None else entry.root
