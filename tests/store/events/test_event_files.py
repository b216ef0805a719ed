"""Journals and dumps that are damaged or cut off: nothing is missing that nobody hears of."""

from __future__ import annotations

import fcntl
import os
import random
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

from tessel.errors import (
    CorruptStoreError,
    DiskFullError,
    FormatVersionError,
    NotAStoreError,
    StoreError,
)
from tessel.store.events import Cell, FileSink, LiveStore, Row, id_bytes
from tessel.store.events.event_file import Journal, read_events, write_events
from tessel.store.events.event_frames import EventFile
from tessel.telemetry import Event, subscribe
from tests.store.events.golden import making

FRAMES = 2
REFUSED = (CorruptStoreError, FormatVersionError, NotAStoreError)


def rows(number: int) -> list[Row]:
    """Events of two shapes, which one call inserts."""
    ids = id_bytes(1, 2 * number), id_bytes(1, 2 * number + 1)
    cells = Cell.from_values("x", [float(number)]), Cell.from_values("n", [number, number])
    return [
        Row(ids[0], "a", {"f": number}, cells=[cells[0]]),
        Row(ids[1], "b", {"f": number}, 2, cells=[cells[1]]),
    ]


@pytest.fixture(autouse=True)
def _no_syncs(monkeypatch):
    """Thousands of files are written; what a sync is for is tested elsewhere."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def journal(path: Path) -> list[int]:
    """Write a journal; return where each frame ends."""
    ends = []
    with LiveStore(journal=path) as store:
        for number in range(FRAMES):
            store.insert(rows(number)[number:])
            ends.append(path.stat().st_size)
    return ends


def dump(path: Path) -> None:
    with LiveStore() as store:
        for number in range(FRAMES):
            store.insert(rows(number)[number:])
        store.dump(path)


def version_1(path: Path) -> list[int]:
    """Write what earlier releases wrote: frames whose lengths nothing vouches for."""
    dump(path)
    content, ends = b"TSLEVT\x01\x00", []
    for batch in list(read_events(path)):
        write_events(path, [batch])
        stream = path.read_bytes()[32:-16]
        content += struct.pack("<II", len(stream), google_crc32c.value(stream)) + stream
        ends.append(len(content))
    path.write_bytes(content)
    return ends


EVENTS = 3


def replayed(path: Path) -> int:
    opened = Journal(path)
    try:
        return sum(map(len, opened.replay()))
    finally:
        opened.close()


def loaded(path: Path) -> int:
    return sum(map(len, read_events(path)))


@pytest.mark.parametrize("write", [journal, dump, version_1])
def test_every_flipped_bit_is_an_error_that_leaves_the_file_alone(write, tmp_path):
    path = tmp_path / "events"
    write(path)
    content = path.read_bytes()
    silent = []
    step = 7 if write is version_1 else 1  # lengths are all flipped below, in a golden file
    with path.open("r+b", buffering=0) as file:
        for bit in range(0, 8 * len(content), step):
            at, flipped = bit // 8, content[bit // 8] ^ 1 << bit % 8
            os.pwrite(file.fileno(), bytes([flipped]), at)
            try:
                (replayed if bit % 64 == 0 else loaded)(path)
            except REFUSED:
                os.pwrite(file.fileno(), content[at : at + 1], at)
            else:
                silent.append(bit)
    assert path.read_bytes() == content
    assert silent == []
    assert os.listdir(tmp_path) == ["events"]
    path.write_bytes(content)
    assert loaded(path) == replayed(path) == EVENTS


@pytest.mark.parametrize("write", [journal, version_1])
def test_a_journal_cut_off_anywhere_loses_one_frame_which_is_kept_beside(write, tmp_path, caplog):
    path = tmp_path / "events"
    first = 8 if write is version_1 else 16
    ends = write(path)
    content = path.read_bytes()
    totals = [0]  # of version 1 a frame is a shape, in any order
    for end in ends:
        path.write_bytes(content[:end])
        totals.append(loaded(path))
    counts = np.diff(totals).tolist()
    assert sum(counts) == EVENTS
    assert all(counts)
    for cut in range(len(content)):
        path.write_bytes(content[:cut])
        whole = max([0, *(end for end in (first, *ends) if end <= cut)])
        count = sum(n for end, n in zip(ends, counts, strict=True) if end <= cut)
        told: list[Event] = []
        caplog.clear()
        with subscribe(told.append):
            assert replayed(path) == count
        assert [event.name for event in told] == ["events.torn"] * (cut > whole)
        assert len(caplog.records) == len(told)
        for event in told:
            kept = Path(event.attributes["kept"])
            assert kept.read_bytes() == content[whole:cut]
            kept.unlink()
        assert replayed(path) == count
        assert path.read_bytes()[:8] == b"TSLEVT\x02\x00"


@pytest.mark.parametrize("write", [journal, version_1])
def test_an_end_that_was_never_written_is_torn_and_other_damage_is_not(write, tmp_path):
    """A file may have its new length before its bytes: what is missing reads as zeros."""
    path = tmp_path / "events"
    ends = write(path)
    content = path.read_bytes()
    path.write_bytes(content[: ends[-2]])
    before = loaded(path)  # of version 1 a frame is a shape, in any order
    assert 0 < before < EVENTS
    for cut in range(ends[-2], len(content) - 8, 5):
        path.write_bytes(content[:cut] + bytes(len(content) - cut))
        assert replayed(path) == before
    for cut in range(ends[-2] // 2, ends[-2] - 8, 31):  # a whole frame follows
        path.write_bytes(content[:cut] + bytes(ends[-2] - cut) + content[ends[-2] :])
        with pytest.raises(CorruptStoreError):
            replayed(path)


def test_a_dump_that_is_cut_off_is_damaged(tmp_path):
    path = tmp_path / "events"
    dump(path)
    content = path.read_bytes()
    for cut in range(len(content)):
        path.write_bytes(content[:cut])
        with pytest.raises(CorruptStoreError, match="damaged"):
            loaded(path)
    path.write_bytes(content + content[16:])
    with pytest.raises(CorruptStoreError, match="the mark of its end"):
        LiveStore().load(path)


def test_what_is_whole_of_a_damaged_file_can_be_salvaged(tmp_path, caplog):
    path = tmp_path / "events"
    ends = journal(path)
    content = path.read_bytes()
    for at in range(16 + 16, ends[0], 11):
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        caplog.clear()
        store = LiveStore()
        assert store.load(path, salvage=True) == 1
        assert "damaged at byte 16" in caplog.text
        assert store.range("f", 0, 9, "b").column("f").to_pylist() == [1]
    dump(path)
    content = path.read_bytes()
    path.write_bytes(content[:-16])
    assert LiveStore().load(path, salvage=True) == EVENTS


def test_random_damage_is_an_error_or_one_torn_frame(tmp_path):
    path = tmp_path / "events"
    journal(path)
    content = path.read_bytes()
    pick, outcomes = random.Random(7), set()
    for _ in range(500):
        start = pick.randrange(len(content))
        stop = pick.choice([pick.randrange(start, len(content)) + 1, len(content)])
        middle = pick.choice([bytes(stop - start), pick.randbytes(stop - start), b""])
        damaged = content[:start] + middle + content[stop:]
        path.write_bytes(damaged)
        told: list[Event] = []
        try:
            with subscribe(told.append):
                count = replayed(path)
        except REFUSED:
            outcomes.add("refused")
            assert path.read_bytes() == damaged
        else:
            rest = path.read_bytes()
            assert content.startswith(rest)
            assert count == EVENTS or told or damaged == rest
            outcomes.add(count)
    assert outcomes >= {"refused", 0, 2}


def test_what_one_call_inserts_is_there_after_a_crash_or_not_at_all(tmp_path):
    path = tmp_path / "events"
    with LiveStore(journal=path) as store:
        store.insert(rows(1))
    content = path.read_bytes()
    counts = set()
    for cut in range(16, len(content) + 1, 3):
        path.write_bytes(content[:cut])
        counts.add(replayed(path))
    assert counts == {0, 2}


def test_kept_ends_do_not_replace_each_other(tmp_path):
    path = tmp_path / "events"
    ends = journal(path)
    content = path.read_bytes()
    for cut in (ends[0] + 5, ends[0] + 9):
        path.write_bytes(content[:cut])
        assert replayed(path) == 2
    beside = sorted(each for each in tmp_path.iterdir() if each != path)
    assert [each.read_bytes() for each in beside] == [
        content[ends[0] : ends[0] + 5],
        content[ends[0] : ends[0] + 9],
    ]


def test_files_of_version_1_and_dumps_are_written_anew_when_a_journal_takes_them_up(tmp_path):
    path = tmp_path / "events"
    for write in (version_1, dump):
        write(path)
        with LiveStore(journal=path) as store:
            store.insert(rows(9))
        assert path.read_bytes()[:12] == b"TSLEVT\x02\x00" + bytes(4)
        assert loaded(path) == EVENTS + 2
        with FileSink(path) as sink:
            sink.insert(LiveStore().batches())
        assert loaded(path) == EVENTS + 2


@pytest.mark.parametrize("fails", ["write", "fsync", "both"])
def test_an_append_that_fails_leaves_no_half_frame_behind(fails, tmp_path, monkeypatch):
    path = tmp_path / "events"
    write, truncate = os.write, os.ftruncate

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) < 200:
            raise OSError(28, "no space left on device")
        return write(descriptor, data[:100])

    def refuse(*_: object) -> None:
        raise OSError(5, "input/output error")

    with LiveStore(journal=path, durable="power") as store:
        store.insert(rows(1))
        with monkeypatch.context() as patch:
            if fails != "fsync":
                patch.setattr(os, "write", half)
            if fails == "fsync":
                patch.setattr(os, "fsync", refuse)
            if fails == "both":
                patch.setattr(os, "ftruncate", refuse)
            expected = DiskFullError if fails == "write" else StoreError
            with pytest.raises(expected, match=r"written: (no space|input/output)"):
                store.insert(rows(2))
            with pytest.raises(StoreError, match=r"written: (no space|input/output)"):
                store.drop_after("f", 0)
        assert os.ftruncate is truncate
        assert len(store) == 2
        store.insert(rows(3))
    assert replayed(path) == 4
    assert os.listdir(tmp_path) == ["events"]


def test_a_journal_that_was_replaced_while_it_was_opened_is_opened_anew(tmp_path, monkeypatch):
    """Whoever held the lock may have written the file anew: the old one has no name any more."""
    path, other = tmp_path / "events", tmp_path / "other"
    journal(path)
    dump(other)
    lock = fcntl.flock
    moves: list[Callable[[], object]] = [lambda: other.replace(path)]

    def moving(descriptor: int, how: int) -> None:
        while moves:
            moves.pop()()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", moving)
    with LiveStore(journal=path) as store:
        store.insert(rows(9))
    assert replayed(path) == EVENTS + 2


@pytest.mark.timeout(60)
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path):
    path = tmp_path / "events"
    os.mkfifo(path)
    for ask in (loaded, replayed, FileSink):
        with pytest.raises(NotAStoreError, match="no regular file"):
            ask(path)


def test_golden_files_flipped_and_cut_off_lose_nothing_in_silence(tmp_path):
    """Frames as an earlier release wrote them, with lengths that are doubted."""
    path = tmp_path / making.EVENTS
    with tarfile.open(making.FOLDER / "1.tar.xz") as archive:
        archive.extract(making.EVENTS, tmp_path, filter="data")
    content = path.read_bytes()
    at, lengths = 8, []
    while at < len(content):
        lengths.append(at)
        at += 8 + int.from_bytes(content[at : at + 4], "little")
    for place in lengths:
        for bit in range(32):
            damaged = bytearray(content)
            damaged[place + bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            with pytest.raises(CorruptStoreError, match=f"at byte {place}"):
                loaded(path)
    descriptor = os.open(path, os.O_RDONLY)
    assert not EventFile(descriptor, path).is_current
    os.close(descriptor)
