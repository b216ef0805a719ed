"""Who loses what by damage: symbols, versions and rows, found in a second pass over the versions.

Only :mod:`tessel.store.maintenance.fsck` enters here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from tessel.errors import TesselError
from tessel.lazy import dataclass
from tessel.store.history.leaves import Child, Leaf
from tessel.store.history.symbol import ManifestEntry, SymbolState
from tessel.store.history.tree import Nodes, walk
from tessel.store.history.versions import Versions

Rows = tuple[tuple[int, int], ...]


def name_and_message(error: TesselError) -> tuple[str, str]:
    """Return the object that an error is about, and its text."""
    return str(error.attributes.get("object", "")), error.message


@dataclass(frozen=True, slots=True)
class Damage:
    """One object that is damaged or missing, and what one symbol loses by it.

    Attributes
    ----------
    version
        The newest version that is hit; 0 where no version is.
    symbol
        The symbol; empty where a version as a whole is hit, or nothing that can be read.
    object
        What is damaged, as far as known.
    message
        What was found.
    versions
        All versions that are hit, as ranges ``[first, last]``.
    rows
        The rows of the symbol that are lost in ``version``, as ranges ``[start, stop)``.
    """

    version: int
    symbol: str
    object: str
    message: str
    versions: Rows = ()
    rows: Rows = ()


class Losses:
    """Who loses what by damaged objects, version by version, the newest first.

    Parameters
    ----------
    versions, nodes
        The way to the versions.
    hits
        Returns object, message and rows of each damage that hits a state of a symbol.
    """

    def __init__(
        self,
        versions: Versions,
        nodes: Nodes,
        hits: Callable[[str, SymbolState], list[tuple[str, str, Rows]]],
    ) -> None:
        self._log = versions
        self._nodes = nodes
        self._hits_of = hits
        self._found: dict[tuple[str, str], tuple[str, int, set[tuple[int, int]]]] = {}
        self._versions: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._hits: dict[tuple[int, tuple[ManifestEntry, ...]], list[tuple[str, str, Rows]]] = {}

    def version(self, number: int) -> None:
        """Look at all symbols of a version."""
        try:
            entry = self._log.entry(number)
        except TesselError:
            return  # said before

        def of_symbols(child: Child, error: TesselError) -> None:
            several = f" and {child.symbols - 1} after it" if child.symbols > 1 else ""
            self._add(number, child.first + several, *name_and_message(error), ())

        def of_lookup(child: Child, error: TesselError) -> None:
            # The lookup is for commits: without it all symbols can be read.
            self._add(number, "", *name_and_message(error), ())

        for leaf in walk(self._nodes, entry.root, failed=of_symbols):
            self._leaf(number, leaf)
        for _ in walk(self._nodes, entry.lookup, failed=of_lookup):
            pass

    def _leaf(self, number: int, leaf: Leaf) -> None:
        for symbol in leaf.documents:
            try:
                state = leaf.state(symbol)
            except TesselError:
                continue  # said before
            if state is None:
                continue
            identity = (state.id, state.manifests)
            if identity not in self._hits:
                self._hits[identity] = self._hits_of(symbol, state)
            for name, message, rows in self._hits[identity]:
                self._add(number, symbol, name, message, rows)

    def _add(self, number: int, symbol: str, name: str, message: str, rows: Rows) -> None:
        key = (name, symbol)
        newest = self._found.setdefault(key, (message, number, set()))
        if newest[1] == number:
            newest[2].update(rows)
        if not self._versions[key] or self._versions[key][-1] != number:
            self._versions[key].append(number)

    def damages(self, unplaced: Mapping[str, str]) -> list[Damage]:
        """Return one record for each object and symbol.

        Parameters
        ----------
        unplaced
            All damage to manifests and segments: messages by object.
        """
        found = [
            Damage(
                newest,
                symbol,
                name,
                message,
                ranges_of(self._versions[name, symbol]),
                _joined(rows),
            )
            for (name, symbol), (message, newest, rows) in self._found.items()
        ]
        hit = {damage.object for damage in found}
        # Columns that were dropped and rows that were deleted are nobody's loss.
        rest = unplaced.items()
        return found + [Damage(0, "", name, text) for name, text in rest if name not in hit]


def ranges_of(numbers: Iterable[int]) -> Rows:
    """Return numbers as ranges ``[first, last]``, ascending."""
    return tuple((low, high - 1) for low, high in _joined((n, n + 1) for n in numbers))


def _joined(ranges: Iterable[tuple[int, int]]) -> Rows:
    """Return ranges ``[start, stop)``, ascending; those that touch are one."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return tuple(found)
