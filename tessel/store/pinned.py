"""The symbols of a store at one version: what the planner of a query asks."""

from __future__ import annotations

from tessel.store.repository import Repository
from tessel.store.view import SymbolView


class PinnedViews:
    """Gives symbols at the version of one of them, so that a query sees one snapshot.

    Parameters
    ----------
    repository
        The store.
    first
        The symbol whose version counts.
    """

    def __init__(self, repository: Repository, first: SymbolView) -> None:
        self._repository = repository
        self._first = first
        self.version = first.version

    def view(self, symbol: str, as_of: int | None) -> SymbolView:
        """Return a symbol; of the pinned version where ``as_of`` is None."""
        if symbol == self._first.name and as_of in (None, self.version):
            return self._first  # known already: another look-up would list the log again
        return self._repository.view(symbol, as_of=self.version if as_of is None else as_of)
