"""What holds in every snapshot, whatever was committed; found from all symbols, not looked up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow.compute as pc
import pytest

from tessel.store.history.snapshot import Snapshot
from tessel.store.manifest.manifest import Manifest
from tessel.store.manifest.packing import ManifestConfiguration
from tessel.store.repository import Repository
from tests.store.history.helpers import small_nodes

Lookup = dict[str, dict[str, dict[int, tuple[str, int]]]]
"""By set and manifest: name and segments of each symbol."""


def lookup_of_symbols(snapshot: Snapshot) -> Lookup:
    """Return what the lookup should say, from the symbols alone."""
    found: Lookup = {}
    for name, state in snapshot.items():
        for extent in state.manifests:
            if extent.set is not None and extent.held is None:
                members = found.setdefault(extent.set, {}).setdefault(extent.reference.object, {})
                before = members.get(state.id, (name, 0))[1]
                members[state.id] = name, before + extent.segments
    return found


def check_lookup(snapshot: Snapshot) -> Lookup:
    """Check that the lookup says both ways what the symbols say, and return that."""
    expected = lookup_of_symbols(snapshot)
    whole: Lookup = {}
    for each in snapshot.lookup:
        members = whole.setdefault(each.set, {}).setdefault(each.manifest, {})
        members[each.symbol] = each.name, each.segments
    assert whole == expected
    for set_name, manifests in expected.items():
        assert list(snapshot.lookup.manifests(set_name)) == sorted(manifests)
        for manifest, members in manifests.items():
            told = {
                each.symbol: (each.name, each.segments)
                for each in snapshot.lookup.members(set_name, manifest)
            }
            assert told == members
    assert not list(snapshot.lookup.manifests("no such set"))
    firsts = [(each.set, each.manifest) for each in snapshot.lookup.first_members()]
    assert firsts == sorted((s, m) for s, manifests in expected.items() for m in manifests)
    return expected


def check_limits(repository: Repository, configuration: ManifestConfiguration) -> None:
    """Check the limits of all sets in the newest snapshot."""
    snapshot = repository.at(None).snapshot
    found = check_lookup(snapshot)
    references = {e.reference.object: e.reference for s in snapshot.values() for e in s.manifests}
    for set_name, manifests in found.items():
        limits = configuration.set_named(set_name)
        assert limits.cardinality is None or len(manifests) <= limits.cardinality
        for manifest, members in manifests.items():
            check_segments(repository.manifest(references[manifest]), limits.max_segments)
            if limits.symbols_per_manifest is not None:
                assert len(members) <= limits.symbols_per_manifest
            assert repository.objects.size(manifest) <= limits.byte_limit
    check_extents(repository)


def check_segments(manifest: Manifest, limit: int | None) -> None:
    """Check what a manifest really holds: at most the limit, or one row slice, which is not cut."""
    if limit is not None and manifest.segments.num_rows > limit:
        assert pc.sum(manifest.segments.column("begins")).as_py() == 1


def check_extents(repository: Repository) -> None:
    """Check that what symbols say of their manifests is so."""
    for state in repository.at(None).snapshot.values():
        for extent in state.manifests:
            held = repository.manifest(extent.reference).holdings
            rows = held.rows_of(state.id)
            assert extent.first_row + extent.rows <= rows
            if not extent.cut and extent.rows == rows:
                at = held.symbols.tolist().index(state.id)
                assert extent.segments == held.segments[at]


@contextlib.contextmanager
def small_folds() -> Iterator[None]:
    """Fold and pack after a few tails and cuts, over an index of small nodes."""
    with pytest.MonkeyPatch.context() as patch, small_nodes():
        patch.setattr("tessel.store.manifest.packing.tails.FAN_IN", 4)
        patch.setattr("tessel.store.manifest.packing.flush._LONGEST", 4)
        patch.setattr("tessel.store.manifest.packing.flush._LONGEST_PER_ROOT", 1)
        yield
