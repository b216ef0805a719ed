"""Which manifests are fetched at open."""

from __future__ import annotations

import random

import pytest

from tessel.store.manifest.packing import Preload
from tessel.store.manifest.packing.preload import PreloadCandidate, choose_preloads

CANDIDATES = [
    PreloadCandidate("m1", 50_000, ("axis", "time", "quotes")),
    PreloadCandidate("m2", 50_001, ("axis", "time", "quotes", "x")),
    PreloadCandidate("m3", 10, ("axis", "axis2")),
    PreloadCandidate("m4", 20, ("time", "trades")),
    PreloadCandidate("m5", 20, ("time", "trades")),
    PreloadCandidate("m6", 0, ()),
]


@pytest.mark.parametrize(
    ("preload", "chosen"),
    [
        (Preload(), ("m1",)),
        (Preload(max_segments=None), ("m2",)),
        (Preload(max_segments=10), ("m3",)),
        (Preload(max_segments=9), ()),
        (Preload(max_manifests=0), ()),
        (Preload(()), ()),
        (Preload(max_manifests=None), ("m1", "m4", "m5", "m3")),
        (Preload(("axis.*",), max_manifests=2), ("m3", "m1")),
        (Preload(("axi",), max_manifests=2), ()),
        (Preload(("trades", "axis"), max_manifests=3), ("m4", "m5", "m1")),
        (Preload(("none", "axis2"), max_manifests=3), ("m3",)),
    ],
)
def test_what_is_chosen(preload: Preload, chosen: tuple[str, ...]) -> None:
    assert choose_preloads(preload, CANDIDATES) == chosen
    mixed = random.Random(1).sample(CANDIDATES, len(CANDIDATES))
    assert choose_preloads(preload, iter(mixed)) == chosen
