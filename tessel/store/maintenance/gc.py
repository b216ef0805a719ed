"""Collection: objects that no kept version refers to are deleted, once they are old enough.

The order of things is what makes it safe beside writers and readers:

1. Everything that kept versions refer to is marked, and the rest listed. Whatever cannot be read,
   is unknown, or of a newer format, ends it here.
2. The collection is announced by an entry of the log, with the instant before which objects are
   condemned. A writer that had not landed by then lands after it, and checks its objects first.
3. Leases are read (again), and what has landed meanwhile is marked too.
4. What is still not referred to, and condemned, is deleted. Log entries go last, the oldest first.

It can be killed at any point: nothing that is kept refers to anything that is deleted, and the
next collection finds what was left.

The repository enters here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import field
from datetime import timedelta
from typing import Any, Final

from tessel.cancelling import ThreadPool
from tessel.errors import FormatVersionError, InvalidInputError, TesselError
from tessel.expression.scalars import time_span_of
from tessel.lazy import dataclass
from tessel.store.history.committer import ENTRY_AGE
from tessel.store.history.history import History
from tessel.store.maintenance import MINIMUM_AGE
from tessel.store.maintenance.leases import LeaseRecord, all_leases, inventory_of, put_lease
from tessel.store.maintenance.marking import Marker
from tessel.store.names import object_kind
from tessel.store.objects.base import (
    ObjectFacts,
    ObjectStore,
    ParallelPuts,
    SupportsLeftovers,
    freeing,
)
from tessel.telemetry import emit

_DELETES_IN_FLIGHT: Final = 4
_MICROSECOND: Final = timedelta(microseconds=1)


KINDS: Final[Mapping[str, str]] = {
    "store": "identity",
    "log": "log entries",
    "refs": "branches and tags",
    "leaf": "symbol index",
    "man": "manifests",
    "seg": "segments",
    "lease": "leases",
    "temporary": "temporary files",
}
"""Kinds of objects, as names begin, and what people call them."""


@dataclass(slots=True)
class Tally:
    """How many objects, and their bytes."""

    objects: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one more."""
        self.objects += 1
        self.bytes += size


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """What a collection found, and took.

    Attributes
    ----------
    dry_run
        Whether nothing was to be deleted.
    live
        What kept versions refer to, by kind (see :data:`KINDS`).
    dead
        What nothing refers to, and that is old enough: deleted, unless ``dry_run``.
    young
        What nothing refers to yet, and may belong to a writer that is at work.
    leased
        What is kept for leases alone.
    deleted
        What was deleted.
    """

    dry_run: bool
    live: dict[str, Tally] = field(default_factory=dict)
    dead: dict[str, Tally] = field(default_factory=dict)
    young: dict[str, Tally] = field(default_factory=dict)
    leased: dict[str, Tally] = field(default_factory=dict)
    deleted: Tally = field(default_factory=Tally)

    @property
    def dead_bytes(self) -> int:
        """Bytes that are dead."""
        return sum(tally.bytes for tally in self.dead.values())

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row for each kind of object that there is."""
        states = {"live": self.live, "dead": self.dead, "young": self.young, "leased": self.leased}
        for kind, name in KINDS.items():
            if any(kind in tallies for tallies in states.values()):
                row: dict[str, Any] = {"kind": name}
                for state, tallies in states.items():
                    tally = tallies.get(kind, Tally())
                    row |= {state: tally.objects, f"{state}_bytes": tally.bytes}
                yield row

    def __str__(self) -> str:
        dead = sum(tally.objects for tally in self.dead.values())
        if self.dry_run:
            return f"{dead} objects, {self.dead_bytes:,} bytes would be deleted"
        return f"{self.deleted.objects} objects, {self.deleted.bytes:,} bytes deleted"


def collect(
    objects: ObjectStore,
    history: History,
    *,
    minimum_age: timedelta = MINIMUM_AGE,
    dry_run: bool = True,
) -> CollectionReport:
    """Delete what no kept version refers to, and say what that is.

    Raises InvalidInputError for an age that is none, and for a place that does not know how old its
    objects are; StoreError in one of its kinds, naming the object, when something cannot be read or
    is not known. Nothing was deleted.

    Parameters
    ----------
    minimum_age
        Younger objects are left alone: they may belong to a commit that has not landed yet. Log
        entries are left alone for six hours at least.
    dry_run
        Only look; then the age of objects is counted by the clock of this machine.
    """
    age = time_span_of(minimum_age)
    if age is None or age < timedelta(0):
        raise InvalidInputError(
            f"minimum_age={minimum_age!r} is no age",
            hint="give a timedelta: gc(minimum_age=timedelta(hours=24))",
        )
    collection = _Collection(objects, history, age // _MICROSECOND, dry_run=dry_run)
    with nullcontext() if dry_run else freeing(objects):
        try:
            collection.look()
            if not dry_run and (collection.dead or collection.leftovers):
                collection.announce()
        except TesselError as error:
            error.with_context(collection="nothing was deleted")
            raise
        if not dry_run:
            collection.delete()
    return collection.report


class _Collection:
    """One collection; its steps are called in order."""

    def __init__(
        self, objects: ObjectStore, history: History, minimum_us: int, *, dry_run: bool
    ) -> None:
        self._objects = objects
        self._history = history
        self._minimum_us = minimum_us
        self._retained = Marker(objects)
        self._leased = Marker(objects, beyond=self._retained)
        self._dry_run = dry_run
        self._now_us = self._condemned_us = 0
        self.report = CollectionReport(dry_run)
        self.dead: list[ObjectFacts] = []
        self.leftovers: list[ObjectFacts] = []

    # --- looking ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Mark, and tell the live from the dead."""
        place = inventory_of(self._objects)
        self._history.head()  # raises for a store that is gone, where a lease must not be put
        self._now_us = now_us = time.time_ns() // 1000 if self._dry_run else self._place_us()
        leases = list(all_leases(self._objects))
        self._condemned_us = self._mark(leases)
        held = {lease.name for lease in leases if lease.until_us > now_us}
        for facts in place.inventory():
            kind = object_kind(facts.name)
            if kind is None:
                raise FormatVersionError(
                    f"object {facts.name!r} is of no kind that this release knows",
                    hint="a newer release may have written it: collect with that; if it is no "
                    "part of the store, move it elsewhere",
                    object=facts.name,
                )
            self._sort(kind, facts, facts.name in held)
        if isinstance(self._objects, SupportsLeftovers):
            for facts in self._objects.leftovers():
                old = not self._is_young("temporary", facts)
                _count(self.report.dead if old else self.report.young, "temporary", facts)
                if old:
                    self.leftovers.append(facts)

    def _sort(self, kind: str, facts: ObjectFacts, held: bool) -> None:
        report = self.report
        if self._retained.holds(facts.name):
            tallies = report.live
        elif held or self._leased.holds(facts.name):
            tallies = report.leased
        elif self._is_young(kind, facts):
            tallies = report.young
        elif facts.modified_us >= self._condemned_us:
            tallies = report.leased
        else:
            tallies = report.dead
            self.dead.append(facts)
        _count(tallies, kind, facts)

    def _is_young(self, kind: str, facts: ObjectFacts) -> bool:
        """Whether an object may belong to a session that is at work."""
        least_us = ENTRY_AGE // _MICROSECOND if kind == "log" else 0
        return facts.modified_us >= self._now_us - max(self._minimum_us, least_us)

    def _mark(self, leases: Iterable[LeaseRecord]) -> int:
        """Mark what is needed; return from when on objects may be those of a leased session."""
        self._retained.mark_retained()
        bounds = [self._now_us - self._minimum_us]
        for lease in leases:
            if lease.until_us > self._now_us:
                self._leased.mark_present(number for number in lease.versions if number)
                bounds += [] if lease.since_us is None else [lease.since_us]
        return max(0, min(bounds))

    def _place_us(self) -> int:
        """Return what the clock of the place shows."""
        name = put_lease(self._objects, lasting_seconds=0)
        try:
            return inventory_of(self._objects).modified_us(name)
        finally:
            self._objects.delete(name)

    # --- taking -----------------------------------------------------------------------------------

    def announce(self) -> None:
        """Say in the log what is condemned, and let go of whatever was needed after all."""
        self._history.announce_collection(self._condemned_us)
        self._condemned_us = min(self._condemned_us, self._mark(list(all_leases(self._objects))))
        self.dead = [
            facts
            for facts in self.dead
            if not self._retained.holds(facts.name)
            and not self._leased.holds(facts.name)
            and facts.modified_us < self._condemned_us
        ]

    def delete(self) -> None:
        """Delete what is dead."""
        entries = [facts for facts in self.dead if object_kind(facts.name) == "log"]
        others = [facts for facts in self.dead if object_kind(facts.name) != "log"]
        objects = self._objects
        most = objects.puts_in_flight if isinstance(objects, ParallelPuts) else _DELETES_IN_FLIGHT
        with ThreadPool(most, "tessel-gc") as pool:
            for facts in pool.map(self._deleted, others):
                self.report.deleted.add(facts.size)
        # Names count down, so that the oldest entry is the last by name.
        for facts in sorted(entries, key=lambda facts: facts.name, reverse=True):
            self.report.deleted.add(self._deleted(facts).size)
        if isinstance(objects, SupportsLeftovers):
            for facts in self.leftovers:
                objects.remove_leftover(facts.name)
                self.report.deleted.add(facts.size)

    def _deleted(self, facts: ObjectFacts) -> ObjectFacts:
        self._objects.delete(facts.name)
        emit("gc.delete", object=facts.name, bytes=facts.size, total=len(self.dead))
        return facts


def _count(tallies: dict[str, Tally], kind: str, facts: ObjectFacts) -> None:
    tallies.setdefault(kind, Tally()).add(facts.size)
