"""Short ways to write snapshots, changes and plans down."""

from __future__ import annotations

from tessel.store.manifest.packing import ManifestConfiguration, ManifestRule, ManifestSet
from tessel.store.manifest.packing.plan import Changes, PackingPlan, Run, SymbolContent
from tests.store.manifest.memberships import ManifestMembers, MembershipTable, SymbolMembership

MIB = 1 << 20
RATE = 24


def stored(*manifests: tuple[str, str | None, dict[int, int]]) -> MembershipTable:
    """Return a snapshot of these manifests, in row order of every symbol."""
    by_symbol: dict[int, SymbolMembership] = {}
    for name, _, segments in manifests:
        for symbol in segments:
            before = by_symbol[symbol].manifests if symbol in by_symbol else ()
            by_symbol[symbol] = SymbolMembership(f"s{symbol}", RATE, (*before, name))
    members = {name: ManifestMembers(set_, segments) for name, set_, segments in manifests}
    return MembershipTable(by_symbol, members)


def new(*sizes: tuple[int, int], rate: int = RATE) -> Changes:
    """Return changes that write symbols anew: ids with their segments."""
    return Changes(tuple(content(key, count, rate=rate) for key, count in sizes))


def content(key: int, *runs: int | tuple[int, str], rate: int = RATE) -> SymbolContent:
    made = tuple(Run(each) if isinstance(each, int) else Run(*each) for each in runs)
    return SymbolContent(key, f"s{key}", rate, made)


def layout(plan: PackingPlan) -> list[tuple[str | None, dict[int, tuple[int, int]]]]:
    """Return what is written: sets, with the segments of each symbol."""
    return [(m.set, {p.symbol: (p.start, p.stop) for p in m.parts}) for m in plan.written]


def sets(*made: ManifestSet, rules: tuple[ManifestRule, ...] = ()) -> ManifestConfiguration:
    return ManifestConfiguration(made, rules)
