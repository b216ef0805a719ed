"""Random configurations, and random histories of flushes that check every law as they go."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

from tessel.store.manifest.packing import ManifestConfiguration, ManifestRule, ManifestSet
from tessel.store.manifest.packing.pack import pack, repack
from tessel.store.manifest.packing.plan import Changes, PackingPlan
from tessel.store.manifest.packing.tails import plan_folds
from tests.store.manifest.model import (
    ModelStore,
    SliceEndsOf,
    Symbol,
    naive_closure,
    naive_target,
)

MIB = 1 << 20
RATES = (24, 100, MIB // 30, MIB // 9)
NAMES = ("axis", "axis2", "time", "quotes", "trades")
PATTERNS = (None, None, "axis.*", "time|axis", ".*s", "(?i)QUOTES")


@st.composite
def configurations(draw: st.DrawFn) -> ManifestConfiguration:
    names = draw(st.permutations(["a", "b", "c", "d"]))[: draw(st.integers(0, 4))]
    limits = st.one_of(st.none(), st.integers(1, 60))
    made = []
    for at, name in enumerate(names):
        # Overflow goes to later names of the permutation, so it cannot go round.
        target = draw(st.sampled_from([None, "default", *names[at + 1 :]]))
        made.append(_drawn_set(draw, name, limits, target))
    if draw(st.booleans()):
        made.append(_drawn_set(draw, "default", limits, None))
    made = draw(st.permutations(made))
    targets = st.sampled_from([*names, "default"])
    ends = st.tuples(
        st.one_of(st.none(), st.integers(0, 20)), st.one_of(st.none(), st.integers(20, 80))
    )
    rules = draw(
        st.lists(st.builds(ManifestRule, targets, st.sampled_from(PATTERNS), ends), max_size=5)
    )
    return ManifestConfiguration(tuple(made), tuple(rules))


def _drawn_set(
    draw: st.DrawFn, name: str, limits: st.SearchStrategy[int | None], target: str | None
) -> ManifestSet:
    count = draw(st.one_of(st.none(), st.none(), st.integers(1, 4)))
    return ManifestSet(
        name,
        max_segments=draw(limits) if count is None else None,
        symbols_per_manifest=count,
        cardinality=None if name == "default" else draw(st.sampled_from([1, 1, 2, 3, None])),
        overflow_to=target,
        max_bytes=draw(st.sampled_from([MIB, 64 * MIB, None])),
    )


class History:
    """A random history of flushes, each checked against the laws and an order of its own."""

    def __init__(self, configuration: ManifestConfiguration, seed: int) -> None:
        self.configuration = configuration
        self.random = random.Random(seed)
        self.store = ModelStore()
        self.next_id = 0

    def step(self) -> None:
        kind = self.random.choices(
            ["flush", "append", "repack", "configure"], weights=[12, 6, 1, 0.3]
        )[0]
        getattr(self, kind)()
        self.store.check(self.configuration)

    def configure(self) -> None:
        """Raise limits; what lies in the store keeps them as it is."""
        self.configuration = ManifestConfiguration(
            tuple(
                ManifestSet(
                    each.name,
                    each.max_segments and each.max_segments + self.random.randint(0, 30),
                    each.symbols_per_manifest,
                    each.cardinality and each.cardinality + self.random.randint(0, 1),
                    each.overflow_to,
                    each.max_bytes,
                )
                for each in self.configuration.sets
            ),
            self.configuration.rules,
        )

    def append(self) -> None:
        present = sorted(key for key, each in self.store.symbols.items() if each.tokens)
        for _ in range(self.random.choice([1, 1, 20])):
            chosen = self.random.sample(present, min(len(present), self.random.randint(1, 5)))
            self.fold(chosen)
            if chosen:
                counts = {key: self.random.choice([1, 1, 2, 30]) for key in chosen}
                assert self.store.append(self.configuration, counts) >= 1

    def fold(self, chosen: Sequence[int]) -> None:
        folds = plan_folds(self.configuration, chosen, self.store.membership())
        self.store.join(folds)
        self.run({key: self.store.symbols[key] for key in folds.packed}, ())

    def flush(self) -> None:
        states: dict[int, Symbol] = {}
        gone: set[int] = set()
        for key, each in sorted(self.store.symbols.items()):
            what = self.random.random()
            if what < 0.08:
                gone.add(key)
                if self.random.random() < 0.5:
                    states |= self.created(each.name)
            elif what < 0.2:
                states[key] = self.altered(each)
        if self.random.random() < 0.7:
            states |= self.created(f"{self.random.choice(NAMES)}{self.next_id}")
            states |= self.created(self.random.choice(NAMES))
        self.run(states, gone)

    def created(self, name: str) -> dict[int, Symbol]:
        # Ids are random, as in a store, so that their order says nothing of age.
        self.next_id += 1
        key = self.next_id * 7_919 % 10_007
        width = self.random.choice([1, 1, 2, 5])
        count = self.random.choice([0, 1, 2, 5, 15, 40, 90]) * width
        rate = self.random.choice(RATES)
        return {key: Symbol(name, rate, width, self.store.fresh(count), ())}

    def altered(self, before: Symbol) -> Symbol:
        width, tokens = before.slice_width, before.tokens
        slices = len(tokens) // width
        start = self.random.randint(0, slices)
        stop = self.random.randint(start, min(slices, start + 8))
        fresh = self.store.fresh(self.random.choice([0, 1, 3, 12]) * width)
        whole = self.random.random() < 0.1
        changed = fresh if whole else tokens[: start * width] + fresh + tokens[stop * width :]
        return Symbol(before.name, before.rate, width, changed, before.manifests)

    def repack(self) -> None:
        before = self.store.membership(self.random)
        widths = {k: (len(s.tokens), s.slice_width) for k, s in self.store.symbols.items()}
        plan = repack(self.configuration, before, slice_ends=SliceEndsOf(widths))
        self.store.apply(plan, dict(self.store.symbols), ())
        again = repack(self.configuration, self.store.membership(), slice_ends=SliceEndsOf(widths))
        assert again.written == ()
        assert set(again.kept) == self.store.live()
        assert again.released == ()

    def run(self, states: Mapping[int, Symbol], gone: Iterable[int]) -> None:
        """Plan a flush in two orders, compare, check what was touched, and carry it out."""
        store = self.store
        contents = [
            store.content(key, each.name, each.rate, each.tokens) for key, each in states.items()
        ]
        widths = {k: (len(s.tokens), s.slice_width) for k, s in {**store.symbols, **states}.items()}
        plans = []
        for order in (None, self.random):
            if order is not None:
                order.shuffle(contents)
            plans.append(
                pack(
                    self.configuration,
                    Changes(tuple(contents), frozenset(gone)),
                    store.membership(order),
                    slice_ends=SliceEndsOf(widths),
                )
            )
        assert plans[0] == plans[1], "the order of what is given changed the plan"
        self.check_touched(plans[0], states, gone)
        store.apply(plans[0], states, gone)

    def check_touched(
        self, plan: PackingPlan, states: Mapping[int, Symbol], gone: Iterable[int]
    ) -> None:
        """Check that the plan touches the closure and the closures of full sets alone."""
        store = self.store
        packed = {m: store.members(m) for m in store.live() if store.stored[m].set is not None}
        start = {*states, *gone}
        symbols, manifests = naive_closure(packed, start)
        for name in plan.metrics.pulled:
            more = {k for m, held in packed.items() if store.stored[m].set == name for k in held}
            symbols, manifests = naive_closure(packed, symbols | more)
        touched = {*plan.kept, *plan.released}
        assert touched <= manifests
        self.check_sets(plan, states)
        assert plan.placements.keys() <= symbols
        if not plan.metrics.pulled:
            assert touched == manifests
            assert plan.placements.keys() == symbols - set(gone)

    def check_sets(self, plan: PackingPlan, states: Mapping[int, Symbol]) -> None:
        """Check that each symbol is packed in the set of its rule, or one this overflows to."""
        overflow = {each.name: each.overflow_to for each in self.configuration.sets}
        stored = self.store.stored
        flipped = []
        for key, placements in plan.placements.items():
            symbol = states.get(key) or self.store.symbols[key]
            before = [stored[m].set for m in symbol.manifests]
            chosen = {
                plan.written[p.written].set if p.written is not None else stored[p.manifest].set
                for p in placements
                if p.written is not None or p.manifest is not None
            } - {None}
            assert len(chosen) == (1 if symbol.tokens else 0)
            name: str | None = naive_target(self.configuration, symbol.name, len(symbol.tokens))
            while chosen and name not in chosen:
                assert name is not None
                name = overflow[name]
            packed = [each for each in before if each is not None]
            if chosen and packed and packed[0] not in chosen:
                flipped.append(key)
        assert plan.metrics.flipped == tuple(sorted(flipped))
