"""Segments that earlier releases wrote: read for ever, by the store and by the plain decoder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tessel.store.segment.records import FORMAT_MAJOR, FORMAT_MINOR
from tests.store.golden.segments import golden_segments
from tests.store.reference.decoder import decode_segment, read_segment
from tests.store.segment.helpers import plain, scanned

_SEGMENTS = Path(__file__).parent / "segments"
_DIGESTS = {"1.0": "c746604584017688251e9a8145b9bf299a7300696b47948fb55b2e23d03a4c63"}


def test_the_archives_are_what_they_were() -> None:
    found = {
        file.name.removesuffix(".tar.xz"): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in _SEGMENTS.iterdir()
    }
    assert found == _DIGESTS
    assert f"{FORMAT_MAJOR}.{FORMAT_MINOR}" in _DIGESTS, "a new version: make its golden segments"


@pytest.mark.parametrize("version", sorted(_DIGESTS))
def test_every_segment_reads_as_it_was_written(version: str) -> None:
    segments = golden_segments(_SEGMENTS / f"{version}.tar.xz")
    used: set[int] = set()
    for name, (data, table) in segments.items():
        assert decode_segment(data) == plain(table), name
        assert plain(scanned(data)) == plain(table), name
        held = read_segment(data)
        entries = [entry for pages in [*held.pages, held.dictionaries] for entry in pages]
        used |= {entry.encoding for entry in entries if entry is not None}
    assert used == set(range(10)), "every encoding is in the archive"
