"""A store of manifests with one token per segment: what a packing must leave as it was.

Everything here is written without the packing's own helpers: closures by fixed point, bins by
looking at every one, and answers by listing segments one by one.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

from tessel.store.manifest.packing import ManifestConfiguration, ManifestSet
from tessel.store.manifest.packing.plan import PackingPlan, Run, SymbolContent
from tessel.store.manifest.packing.tails import FoldPlan, plan_tails
from tests.store.manifest.memberships import ManifestMembers, MembershipTable, SymbolMembership

Tokens = tuple[int, ...]
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass
class Symbol:
    """A symbol: its segments (``slice_width`` of them make a row slice), and where they lie."""

    name: str
    rate: int
    slice_width: int
    tokens: Tokens
    manifests: tuple[str, ...]


@dataclass
class Stored:
    """A manifest as written; it never changes."""

    set: str | None
    tokens: dict[int, Tokens]


@dataclass
class ModelStore:
    """The newest snapshot, and every manifest ever written."""

    symbols: dict[int, Symbol] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    next_token: int = 0
    next_manifest: int = 0

    # --- what the packing is told -----------------------------------------------------------------

    def live(self) -> set[str]:
        return {name for symbol in self.symbols.values() for name in symbol.manifests}

    def members(self, manifest: str) -> dict[int, int]:
        stored = self.stored[manifest]
        return {
            symbol: len(tokens)
            for symbol, tokens in stored.tokens.items()
            if symbol in self.symbols and manifest in self.symbols[symbol].manifests
        }

    def membership(self, order: random.Random | None = None) -> MembershipTable:
        """Return both lookups, their items in an order drawn from ``order``."""
        by_symbol = {
            key: SymbolMembership(each.name, each.rate, each.manifests)
            for key, each in self.symbols.items()
        }
        by_manifest = {
            name: ManifestMembers(self.stored[name].set, reordered(self.members(name), order))
            for name in sorted(self.live())
        }
        return MembershipTable(reordered(by_symbol, order), reordered(by_manifest, order))

    def fresh(self, count: int) -> Tokens:
        self.next_token += count
        return tuple(range(self.next_token - count, self.next_token))

    def content(self, key: int, name: str, rate: int, tokens: Tokens) -> SymbolContent:
        """Return a new state as runs: stretches of what one manifest holds, and new segments."""
        origin: dict[int, str] = {}
        if key in self.symbols:
            for manifest in self.symbols[key].manifests:
                origin |= dict.fromkeys(self.stored[manifest].tokens[key], manifest)
        runs: list[Run] = []
        before: tuple[str | None] | None = None
        for token in tokens:
            here = origin.get(token)
            if before == (here,):
                runs[-1] = Run(runs[-1].segments + 1, here)
            else:
                runs.append(Run(1, here))
            before = (here,)
        return SymbolContent(key, name, rate, tuple(runs))

    # --- carrying out -----------------------------------------------------------------------------

    def write(self, set_: str | None, tokens: dict[int, Tokens]) -> str:
        name = f"man/{self.next_manifest:06d}"
        self.next_manifest += 1
        assert name not in self.stored
        self.stored[name] = Stored(set_, tokens)
        return name

    def apply(self, plan: PackingPlan, states: Mapping[int, Symbol], gone: Iterable[int]) -> None:
        """Carry out a plan; ``states`` are the new states of changed symbols."""
        after = {key: each for key, each in self.symbols.items() if key not in set(gone)}
        after |= states
        names = []
        for each in plan.written:
            tokens = {p.symbol: after[p.symbol].tokens[p.start : p.stop] for p in each.parts}
            assert len(tokens) == len(each.parts), "a symbol twice in one manifest"
            assert each.segments == sum(map(len, tokens.values()))
            names.append(self.write(each.set, tokens))
        for key, placements in plan.placements.items():
            chosen = []
            for placed in placements:
                assert (placed.manifest is None) != (placed.written is None)
                name = placed.manifest if placed.written is None else names[placed.written]
                assert name is not None
                held = self.stored[name].tokens[key]
                assert held == after[key].tokens[placed.start : placed.stop]
                chosen.append(name)
            state = after[key]
            after[key] = Symbol(
                state.name, state.rate, state.slice_width, state.tokens, tuple(chosen)
            )
        assert states.keys() <= plan.placements.keys()
        self.symbols = after

    def append(self, configuration: ManifestConfiguration, counts: Mapping[int, int]) -> int:
        """Append slices to symbols as tails of one commit; return how many objects that took."""
        added = {key: self.fresh(n * self.symbols[key].slice_width) for key, n in counts.items()}
        contents = [
            SymbolContent(key, self.symbols[key].name, self.symbols[key].rate, (Run(len(tokens)),))
            for key, tokens in added.items()
        ]
        ends = SliceEndsOf(
            {key: (len(tokens), self.symbols[key].slice_width) for key, tokens in added.items()}
        )
        planned = plan_tails(configuration, contents, slice_ends=ends)
        for each in planned:
            assert each.set is None
            tokens = {p.symbol: added[p.symbol][p.start : p.stop] for p in each.parts}
            name = self.write(None, tokens)
            for part in each.parts:
                symbol = self.symbols[part.symbol]
                symbol.manifests = (*symbol.manifests, name)
        for key, tokens in added.items():
            self.symbols[key].tokens += tokens
        return len(planned)

    def join(self, folds: FoldPlan) -> int:
        """Carry out the joins of a fold plan; return how many segments were written again."""
        rewritten = 0
        for group in folds.joined:
            held = {}
            for join in group:
                parts = [self.stored[m].tokens[join.symbol] for m in join.manifests]
                held[join.symbol] = tuple(token for part in parts for token in part)
                assert len(held[join.symbol]) == join.segments
                rewritten += join.segments
            name = self.write(None, held)
            for join in group:
                symbol = self.symbols[join.symbol]
                at = symbol.manifests.index(join.manifests[0])
                stop = at + len(join.manifests)
                assert symbol.manifests[at:stop] == join.manifests
                symbol.manifests = (*symbol.manifests[:at], name, *symbol.manifests[stop:])
        return rewritten

    # --- what must hold ---------------------------------------------------------------------------

    def check(self, configuration: ManifestConfiguration) -> None:
        """Check every law that holds in each snapshot."""
        for key, symbol in self.symbols.items():
            found = [t for m in symbol.manifests for t in self.stored[m].tokens[key]]
            assert tuple(found) == symbol.tokens, "each segment once and in order"
            assert len(set(symbol.manifests)) == len(symbol.manifests)
        counts: Counter[str] = Counter()
        known = {each.name: each for each in configuration.sets}
        for name in self.live():
            stored, members = self.stored[name], self.members(name)
            if stored.set is None or stored.set not in known:
                continue
            assert members.keys() == stored.tokens.keys(), "no dead rows in a packed manifest"
            target = known[stored.set]
            counts[target.name] += 1
            segments = sum(members.values())
            size = sum(n * self.symbols[key].rate for key, n in members.items())
            assert size <= target.byte_limit
            if target.max_segments is not None and segments > target.max_segments:
                (key,) = members
                assert segments == self.symbols[key].slice_width, "only what cannot be cut"
            if target.symbols_per_manifest is not None:
                assert len(members) <= target.symbols_per_manifest
            for key in members:
                packed = [m for m in self.symbols[key].manifests if self.stored[m].set is not None]
                assert len(packed) == 1 or len(members) == 1, "a split symbol shares with nobody"
        for target in configuration.sets:
            if target.cardinality is not None:
                assert counts[target.name] <= target.cardinality


class SliceEndsOf:
    """Gives the ends of row slices of one width for each symbol."""

    def __init__(self, widths: dict[int, tuple[int, int]]) -> None:
        self._widths = widths
        self.asked: list[int] = []

    def __call__(self, symbol: int) -> Sequence[int]:
        self.asked.append(symbol)
        count, width = self._widths[symbol]
        return range(width, count + 1, width)


def reordered(items: Mapping[Key, Value], order: random.Random | None) -> dict[Key, Value]:
    """Return a dictionary with its items in an order drawn from ``order``."""
    listed = list(items.items())
    if order is not None:
        order.shuffle(listed)
    return dict(listed)


def naive_closure(
    holders: Mapping[str, Collection[int]], start: Collection[int]
) -> tuple[set[int], set[str]]:
    """Return the symbols and manifests that hang together with ``start``, by fixed point."""
    symbols = set(start)
    manifests: set[str] = set()
    while True:
        reached = {m for m, held in holders.items() if symbols & set(held)}
        grown = symbols.union(*(holders[m] for m in reached))
        if grown == symbols and reached == manifests:
            return symbols, manifests
        symbols, manifests = grown, reached


def naive_first_fit(
    sizes: Sequence[tuple[int, int, int]], max_segments: int, max_bytes: int
) -> list[list[int]]:
    """Return first fit of ``(segments, bytes, id)`` in the order given, looking at every bin."""
    bins: list[list[int]] = []
    room: list[list[int]] = []
    for segments, size, key in sizes:
        fitting = [at for at, left in enumerate(room) if left[0] >= segments and left[1] >= size]
        at = fitting[0] if fitting else len(bins)
        if not fitting:
            bins.append([])
            room.append([max_segments, max_bytes])
        bins[at].append(key)
        room[at][0] -= segments
        room[at][1] -= size
    return bins


def naive_target(configuration: ManifestConfiguration, name: str, segments: int) -> str:
    """Return the set that the rules choose, by Python's own regular expressions."""
    for rule in configuration.rules:
        low, high = rule.segments
        if rule.symbols is not None and not re.fullmatch(rule.symbols, name):
            continue
        if (low is None or low <= segments) and (high is None or segments <= high):
            return rule.target
    return "default"


def naive_packing(
    configuration: ManifestConfiguration, sizes: Sequence[tuple[int, int, str]]
) -> tuple[list[tuple[str, list[int]]], set[int]]:
    """Pack ``(segments, rate, name)`` into an empty store, and return manifests and what is cut."""
    at = {k: naive_target(configuration, name, n) for k, (n, _, name) in enumerate(sizes)}
    left = {each.name: each for each in configuration.sets}
    manifests: list[tuple[str, list[int]]] = []
    cut: set[int] = set()
    while left:
        # The first set in order that no other set still overflows to.
        taken = {each.overflow_to for each in left.values()}
        target = left.pop(next(name for name in left if name not in taken))
        big, held = [], []
        most = sum(n for n, _, _ in sizes) if target.max_segments is None else target.max_segments
        for key in sorted(k for k, name in at.items() if name == target.name):
            segments, rate, _ = sizes[key]
            fits = segments <= most and segments * rate <= target.byte_limit
            (held if fits else big).append(key)

        def weight(key: int, most: int = most, target: ManifestSet = target) -> Fraction:
            segments, rate, _ = sizes[key]
            if target.max_segments is None:
                return Fraction(segments * rate)
            return max(Fraction(segments, most), Fraction(segments * rate, target.byte_limit))

        held.sort(key=lambda key: (-weight(key), key))
        if target.symbols_per_manifest is None:
            triples = [(sizes[k][0], sizes[k][0] * sizes[k][1], k) for k in held]
            bins = naive_first_fit(triples, most, target.byte_limit)
        else:
            bins = naive_pairs(held, sizes, target.symbols_per_manifest, target.byte_limit)
        if target.cardinality is not None:

            def fullness(
                each: list[int], most: int = most, target: ManifestSet = target
            ) -> Fraction:
                segments = sum(sizes[k][0] for k in each)
                size = sum(sizes[k][0] * sizes[k][1] for k in each)
                if target.max_segments is None:
                    return Fraction(size)
                return max(Fraction(segments, most), Fraction(size, target.byte_limit))

            counted = target.symbols_per_manifest is not None
            bins.sort(key=lambda b: (-len(b) if counted else 0, -fullness(b), min(b)))
            big += [key for each in bins[target.cardinality :] for key in each]
            bins = bins[: target.cardinality]
        manifests += [(target.name, sorted(each)) for each in bins]
        if target.overflow_to is None:
            cut |= set(big)
        else:
            at |= dict.fromkeys(big, target.overflow_to)
    return manifests, cut


def naive_pairs(
    ordered: Sequence[int], sizes: Sequence[tuple[int, int, str]], count: int, max_bytes: int
) -> list[list[int]]:
    """Return groups of the biggest with the smallest, from keys in descending order."""
    left = list(ordered)
    groups = []
    while left:
        group = [left.pop(0)]

        def fits(key: int, group: list[int] = group) -> bool:
            return sum(sizes[k][0] * sizes[k][1] for k in [*group, key]) <= max_bytes

        while left and len(group) < -(-count // 2) and fits(left[0]):
            group.append(left.pop(0))
        while left and len(group) < count and fits(left[-1]):
            group.append(left.pop())
        groups.append(group)
    return groups


def fewest_bins(sizes: Sequence[int], limit: int) -> int:
    """Return the fewest bins of a limit that sizes fit into, by trying every assignment."""
    best = len(sizes)

    def place(at: int, loads: list[int]) -> None:
        nonlocal best
        if len(loads) >= best and at < len(sizes):
            return
        if at == len(sizes):
            best = min(best, len(loads))
            return
        for place_ in range(len(loads)):
            if loads[place_] + sizes[at] <= limit:
                loads[place_] += sizes[at]
                place(at + 1, loads)
                loads[place_] -= sizes[at]
        place(at + 1, [*loads, sizes[at]])

    place(0, [])
    return best
