"""Which symbols share manifests: sets, the rules that fill them, and what is fetched at open.

A configuration is checked as a whole when it is made, since only there the place of an option is
known; after that, the packing assumes. It is plain data both ways and stored with the store.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tessel.cached import cached
from tessel.errors import NameNotFoundError
from tessel.lazy import dataclass
from tessel.store.manifest.packing.validation import (
    DEFAULT_SET,
    EVERYTHING,
    LARGEST_MANIFEST_BYTES,
    check,
    check_keys,
    entries_of,
    full_matches,
)

if TYPE_CHECKING:
    from tessel.display.documents import Document

_DEFAULT_SEGMENTS = 1_000_000
_SMALL_SET = "small"
_SMALL_SET_SEGMENTS = 256
_PRELOADED_SEGMENTS = 50_000
_SMALL_SYMBOL_SEGMENTS = 5_000
_MANIFEST_BYTES = 64 * 1024 * 1024


class _Omitted:
    """Stands for an option that was not given, where None is a value of its own."""

    def __repr__(self) -> str:
        return "<omitted>"


_OMITTED: Any = _Omitted()


def _fixed(value: Any) -> Any:
    """Return a list, which is what JSON has, as a tuple; whatever else it is, for the checks."""
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class ManifestSet:
    """Manifests that are packed by one measure.

    Attributes
    ----------
    name
        What rules and other sets call it. ``"default"`` is the set where all overflow ends.
    max_segments
        The most segments of one manifest, which holds one row slice at least; None for no limit.
        Omitted: 1,000,000 for ``default`` unless it counts symbols, no limit for others.
    symbols_per_manifest
        Pack this many symbols in each manifest instead, the biggest with the smallest.
    cardinality
        The most manifests of the set in one snapshot; None for no limit. Omitted: 1, and no limit
        for ``default``, which takes none.
    overflow_to
        The set that takes what finds no place. Omitted or None: ``default``, and nothing for
        ``default`` itself.
    max_bytes
        The most bytes of one manifest, whatever the other limits allow; None for the most that
        any manifest may have.
    """

    name: str
    max_segments: int | None = _OMITTED
    symbols_per_manifest: int | None = None
    cardinality: int | None = _OMITTED
    overflow_to: str | None = None
    max_bytes: int | None = _MANIFEST_BYTES

    def __post_init__(self) -> None:
        default = self.name == DEFAULT_SET
        if self.max_segments is _OMITTED:
            counted = not default or self.symbols_per_manifest is not None
            object.__setattr__(self, "max_segments", None if counted else _DEFAULT_SEGMENTS)
        if self.cardinality is _OMITTED:
            object.__setattr__(self, "cardinality", None if default else 1)
        if self.overflow_to is None and not default:
            object.__setattr__(self, "overflow_to", DEFAULT_SET)

    @property
    def byte_limit(self) -> int:
        """The most bytes of one manifest."""
        return LARGEST_MANIFEST_BYTES if self.max_bytes is None else self.max_bytes

    def fits(self, segments: int, size: int) -> bool:
        """Return whether so many segments, of ``size`` bytes in all, fit into one manifest."""
        return size <= self.byte_limit and (
            self.max_segments is None or segments <= self.max_segments
        )


@dataclass(frozen=True, slots=True)
class ManifestRule:
    """Which symbols go to a set: all conditions hold, and each may be left out.

    Attributes
    ----------
    symbols
        A regular expression (RE2's) that the whole name of the symbol matches; None for any name.
    segments
        The least and the most segments of the symbol, both included; None for an open end.
    """

    target: str
    symbols: str | None = None
    segments: tuple[int | None, int | None] = (None, None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", _fixed(self.segments))


@dataclass(frozen=True, slots=True)
class Preload:
    """Which manifests are fetched in the background when a session starts.

    Attributes
    ----------
    symbols
        Regular expressions; a manifest is wanted for the symbols whose whole name matches one.
        Earlier expressions come first.
    max_segments
        The most segments of a manifest that is fetched; None for no limit.
    max_manifests
        How many are fetched; None for no limit, 0 for none at all.
    """

    symbols: tuple[str, ...] = (EVERYTHING,)
    max_segments: int | None = _PRELOADED_SEGMENTS
    max_manifests: int | None = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", _fixed(self.symbols))


_SETS = (
    ManifestSet(_SMALL_SET, max_segments=_SMALL_SET_SEGMENTS, cardinality=None),
    ManifestSet(DEFAULT_SET),
)
_RULES = (ManifestRule(_SMALL_SET, segments=(None, _SMALL_SYMBOL_SEGMENTS)),)


@dataclass(frozen=True)
class ManifestConfiguration:
    """How the symbols of a store are packed into manifests.

    Made without sets, it has the usual two: symbols of one leaf of the symbol index share manifests
    of set ``small`` (256 segments), and what is larger has manifests of its own in ``default``
    (1,000,000 segments). Sets of your own are packed by closure.

    Attributes
    ----------
    sets
        In order; ``default`` is added at the end where it is missing.
    rules
        In order; the first that matches decides, and ``default`` takes what matches none.
        Omitted together with the sets: the usual rule; omitted beside sets of your own: none.
    preload
        What is fetched at open.

    Raises
    ------
    OptionError
        For an option that cannot be; the message and ``attributes["option"]`` name its path, such
        as ``sets[2].overflow_to``.
    """

    sets: tuple[ManifestSet, ...] = _OMITTED
    rules: tuple[ManifestRule, ...] = _OMITTED
    preload: Preload = Preload()

    def __post_init__(self) -> None:
        usual = self.sets is _OMITTED
        sets = _SETS if usual else entries_of(self.sets, "sets")
        if self.rules is _OMITTED:
            rules = _RULES if usual else ()
        else:
            rules = entries_of(self.rules, "rules")
        if not any(getattr(each, "name", None) == DEFAULT_SET for each in sets):
            sets = (*sets, ManifestSet(DEFAULT_SET))
        object.__setattr__(self, "sets", sets)
        object.__setattr__(self, "rules", rules)
        check(self)

    @cached
    def packing_order(self) -> tuple[ManifestSet, ...]:
        """All sets, each before the one it overflows to; otherwise in the order given."""
        left, order = list(self.sets), list[ManifestSet]()
        while left:
            targets = {each.overflow_to for each in left}  # of which none is in a loop
            order.append(next(each for each in left if each.name not in targets))
            left.remove(order[-1])
        return tuple(order)

    def set_named(self, name: str) -> ManifestSet:
        """Return a set; raises ``NameNotFoundError`` for an unknown one."""
        for each in self.sets:
            if each.name == name:
                return each
        raise NameNotFoundError.for_name("manifest set", name, [each.name for each in self.sets])

    @cached
    def usual(self) -> bool:
        """Whether sets and rules are the usual ones: then no symbol moves because another does.

        The symbols of a leaf share manifests of ``small``, those of ``default`` share none, and a
        symbol leaves its manifest when it is written. All other sets are packed by closure.
        """
        return self.sets == _SETS and self.rules == _RULES

    def by_leaf(self, target: ManifestSet) -> bool:
        """Return whether the manifests of a set are those of one leaf of the symbol index each."""
        return self.usual and target.name == _SMALL_SET

    def leaf_set(self, name: str, segments: int, size: int) -> ManifestSet | None:
        """Return the set in which a symbol is packed with others of its leaf, if it is.

        Parameters
        ----------
        name
            Of the symbol.
        segments, size
            How many it has, and about how many bytes of a manifest they take.
        """
        if not self.usual or self.targets([name], [segments]) != [_SMALL_SET]:
            return None
        found = self.set_named(_SMALL_SET)
        return found if found.fits(segments, size) else None

    def targets(self, names: Sequence[str], segments: Sequence[int]) -> list[str]:
        """Return the set that the rules choose for each symbol, by its name and its segments."""
        counts = np.array(segments, dtype=np.int64)
        chosen = [DEFAULT_SET] * len(names)
        left = np.arange(len(names))
        for rule in self.rules:
            low, high = rule.segments
            matches = np.ones(len(left), dtype=bool)
            if low is not None:
                matches &= counts[left] >= low
            if high is not None:
                matches &= counts[left] <= high
            if rule.symbols is not None:
                inside = np.flatnonzero(matches)
                matches[inside] = full_matches(rule.symbols, [names[at] for at in left[inside]])
            for at in left[matches].tolist():
                chosen[at] = rule.target
            left = left[~matches]
        return chosen

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as plain data, every option written out."""
        return {
            "sets": [asdict(each) for each in self.sets],
            "rules": [{**asdict(each), "segments": list(each.segments)} for each in self.rules],
            "preload": {**asdict(self.preload), "symbols": list(self.preload.symbols)},
        }

    @classmethod
    def from_json(cls, document: Any) -> ManifestConfiguration:
        """Return the configuration that plain data describe; options may be left out.

        Raises
        ------
        OptionError
            For data that are no configuration; ``attributes["option"]`` is the path of the option.
        """
        check_keys(document, "", cls)
        given: dict[str, Any] = dict(document)
        for key, kind in {"sets": ManifestSet, "rules": ManifestRule}.items():
            if key in given:
                given[key] = _read(given[key], key, kind)
        if "preload" in given:
            check_keys(given["preload"], "preload", Preload)
            given["preload"] = Preload(**given["preload"])
        return cls(**given)

    def describe(self) -> Document:
        """Return the configuration as tables for people; null is no limit."""
        from tessel.display.documents import Document, Table

        columns = ("set", *(option.name for option in fields(ManifestSet)[1:]))
        sets = Table("sets", columns, tuple(tuple(asdict(each).values()) for each in self.sets))
        rules = Table(
            "rules",
            ("symbols", "least segments", "most segments", "target"),
            tuple((each.symbols, *each.segments, each.target) for each in self.rules),
            notes=(f"the first that matches decides; the others go to {DEFAULT_SET!r}",),
        )
        symbols, *most = asdict(self.preload).values()
        names = tuple(option.name for option in fields(Preload))
        preload = Table("preload", names, tuple((each, *most) for each in symbols))
        return Document("manifest sets", (sets, rules, preload))


def _read(items: Any, path: str, kind: type[Any]) -> Iterable[Any]:
    entries = entries_of(items, path)
    for at, item in enumerate(entries):
        check_keys(item, f"{path}[{at}]", kind)
    return tuple(kind(**item) for item in entries)


@functools.cache
def usual_configuration() -> ManifestConfiguration:
    """Return the configuration of stores that have none of their own."""
    return ManifestConfiguration()
