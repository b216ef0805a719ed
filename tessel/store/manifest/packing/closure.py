"""The closure: the symbols and manifests that a flush has to look at, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from tessel.store.manifest.packing.membership import Membership

__all__ = ["Closure"]


class Closure:
    """The symbols whose manifests are written anew when some symbols change.

    All that share a manifest with one of them, and so on. Tails join nobody: they are left where
    they are unless their own symbol changes. A symbol that the snapshot does not know is its own
    closure.

    Parameters
    ----------
    membership
        The snapshot before.
    symbols
        Ids of those that start it.
    alone
        Whether symbols leave their manifests by themselves: then nobody is drawn in, and the
        manifests stay with those who share them.

    Attributes
    ----------
    symbols
        Ids, those that started it included (deleted ones too).
    manifests
        The packed manifests among them.
    """

    def __init__(
        self, membership: Membership, symbols: Iterable[int], *, alone: bool = False
    ) -> None:
        self._membership = membership
        self._alone = alone
        self.symbols: set[int] = set()
        self.manifests: set[str] = set()
        self._follow(list(symbols))

    def pull(self, manifests: Iterable[str]) -> None:
        """Take further manifests in, with all that share them."""
        for manifest in manifests:
            self.manifests.add(manifest)
            self._follow(list(self._membership.members_of(manifest)))

    def _follow(self, waiting: list[int]) -> None:
        membership = self._membership
        while waiting:
            symbol = waiting.pop()
            if symbol in self.symbols:
                continue
            self.symbols.add(symbol)
            if self._alone:
                continue
            for manifest in membership.manifests_of(symbol):
                if manifest in self.manifests or membership.set_of(manifest) is None:
                    continue
                self.manifests.add(manifest)
                waiting.extend(membership.members_of(manifest))
