"""Which symbols share a manifest, and what is fetched early: verbs of ``Repository``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tessel.errors import OptionError
from tessel.errors.arguments import checks_arguments
from tessel.progress import operation
from tessel.store.manifest.packing.configuration import ManifestConfiguration, usual_configuration
from tessel.store.manifest.packing.preload import Preloader
from tessel.store.timeline import AsOf, Timeline

if TYPE_CHECKING:
    from tessel.store.manifest.packing.repacking import RepackReport

Manifests = ManifestConfiguration | Mapping[str, Any] | None
"""A configuration of manifests, or the plain data of one; None for that of the store."""


def checked_configuration(given: Manifests) -> ManifestConfiguration | None:
    """Return a configuration that a user gave; ``OptionError`` for what is none."""
    if given is None or isinstance(given, ManifestConfiguration):
        return given
    if isinstance(given, Mapping):
        return ManifestConfiguration.from_json(given)
    raise OptionError(
        f"manifests={given!r:.60} is no configuration of manifests",
        hint="give a ManifestConfiguration, or a mapping as its to_json() returns it",
        option="manifests",
    )


@checks_arguments
class ManifestSets(Timeline):
    """A store whose symbols share manifests by rules."""

    _override: ManifestConfiguration | None = None
    _preloader: Preloader | None = None

    @property
    def manifest_configuration(self) -> ManifestConfiguration:
        """Which symbols share a manifest: as given when it was opened, else as the store says."""
        self.history.head()
        return self.known_configuration()

    def known_configuration(self) -> ManifestConfiguration:
        """Return the configuration as of the newest version that was seen, of whatever branch."""
        if self._override is not None:
            return self._override
        stored = self.history.refs_at(self.history.known_head).manifests
        return usual_configuration() if stored is None else stored

    def set_manifest_configuration(self, configuration: Manifests) -> int:
        """Say which symbols share a manifest from now on, on all branches; return the version.

        What is packed already stays as it is until it is touched; :meth:`repack` applies the
        configuration to everything.

        Parameters
        ----------
        configuration
            A ``ManifestConfiguration``, or plain data as its ``to_json`` makes them.

        Raises
        ------
        OptionError
            For an option that cannot be, with its path. Nothing was changed.

        Examples
        --------
        >>> store.set_manifest_configuration(store.manifest_configuration)
        3
        """
        self.check_writable()
        checked = checked_configuration(configuration)
        return self.history.set_manifests(checked or usual_configuration()).number

    def repack(self, configuration: Manifests = None, *, dry_run: bool = False) -> RepackReport:
        """Pack all manifests of the branch anew, tails included, in one commit.

        No segment is written and no answer changes. A symbol that another writer packs or changes
        meanwhile keeps the manifests that it has then.

        Parameters
        ----------
        configuration
            Pack by this one, without making it that of the store; by default by the store's.
        dry_run
            Only plan it.

        Raises
        ------
        OptionError
            For a configuration that cannot be.

        Examples
        --------
        >>> store.repack(dry_run=True).dry_run
        True
        """
        from tessel.store.maintenance.leases import WriteSession
        from tessel.store.manifest.packing.repacking import RepackReport, repack_all

        checked = checked_configuration(configuration)
        if not dry_run:
            self.check_writable()
        base = self.history.newest(self.branch)
        by = self.known_configuration() if checked is None else checked
        with operation("repack"):
            plan, objects, repackings = repack_all(by, base.snapshot, self.manifest)
        size = sum(len(data) for _, data in objects)
        if dry_run or not repackings:
            return RepackReport(base.number, dry_run, plan, len(repackings), size)
        with operation("repack"), contextlib.closing(WriteSession(self.objects)) as session:
            landed = self.history.commit(
                base,
                repackings,
                "repack",
                survived=session.survived,
                act="repack",
                objects=objects,
                through=session,
            )
        return RepackReport(landed.number, False, plan, len(repackings), size)

    # --- fetching early ---------------------------------------------------------------------------

    def preload(self, as_of: AsOf = None) -> None:
        """Begin to fetch the manifests that ``preload`` of the configuration chooses.

        It goes on in the background, and fails nothing. Opening a store begins it for the branch;
        it is begun once for each branch or tag.

        Parameters
        ----------
        as_of
            The branch or tag; by default the branch that is open.

        Examples
        --------
        >>> store.preload()
        """
        if self._preloader is None:
            self._preloader = Preloader(self.manifest)
        name = self.branch if as_of is None else str(as_of)
        self._preloader.start(name, lambda: self.at(as_of), self.known_configuration)
