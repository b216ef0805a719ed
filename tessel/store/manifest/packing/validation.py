"""What makes a manifest configuration sound; every refusal names the path of the option.

A configuration comes from a user's hand or from a store that somebody else wrote, so types and
sizes are checked before anything is believed. Regular expressions are RE2's, as pyarrow has it: no
expression can make it backtrack, whatever the name, and what RE2 cannot do in linear time
(back-references, looking around) it refuses to compile. So a configuration that a stranger wrote
into a store costs no more than its length.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, numpy_array
from tessel.errors import OptionError, nearest

if TYPE_CHECKING:
    from tessel.store.manifest.packing.configuration import (
        ManifestConfiguration,
        ManifestRule,
        ManifestSet,
        Preload,
    )

EVERYTHING = ".*"
"""The pattern of every name."""

PATTERN_LENGTH = 1_000
"""Characters of the longest pattern."""


def fault_of(pattern: object) -> str | None:
    """Return why ``pattern`` is no regular expression, or None where it is one."""
    if not isinstance(pattern, str):
        return f"it is a {type(pattern).__name__}, not text"
    if len(pattern) > PATTERN_LENGTH:
        return f"it has {len(pattern)} characters; {PATTERN_LENGTH} are the most"
    # Alone as well as anchored: "a)|(b" is sound only between the anchors, where it would no
    # longer be anchored.
    for form in (pattern, _anchored(pattern)):
        try:
            pc.match_substring_regex(arrow_array([""], pa.string()), form)
        except (pa.ArrowInvalid, UnicodeEncodeError) as error:
            return str(error).splitlines()[0]
    return None


def full_matches(pattern: str, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return for each name whether all of it matches; bool, shape ``(len(names),)``."""
    if pattern == EVERYTHING:
        return np.ones(len(names), dtype=bool)
    found = pc.match_substring_regex(arrow_array(names, pa.string()), _anchored(pattern))
    matches: npt.NDArray[np.bool_] = numpy_array(found)
    return matches


def _anchored(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


DEFAULT_SET = "default"
"""The set that takes what no other does."""

LARGEST_MANIFEST_BYTES = 1024 * 1024 * 1024
"""No manifest has more bytes, whatever the configuration allows."""

LEAST_MANIFEST_BYTES = 1024 * 1024
"""The least ``max_bytes`` of a set, so that the rows of any one segment fit."""

_LARGEST_COUNT = 2**53
_MOST_ENTRIES = 1_000
_SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def refuse(path: str, problem: str, hint: str | None = None) -> NoReturn:
    """Raise the error for the option at ``path``."""
    raise OptionError(f"manifest option {path}: {problem}", hint=hint, option=path)


def check_keys(document: Any, path: str, kind: type[Any]) -> None:
    """Check that plain data have the options of a dataclass: no other, and those it needs."""
    if not isinstance(document, Mapping):
        refuse(path or "(all)", f"takes options by name, not {_shown(document)}")
    fields = dataclasses.fields(kind)
    names = [field.name for field in fields]
    for key in document:
        if key not in names:
            match = nearest(key, names) if isinstance(key, str) else None
            refuse(
                f"{path}.{key}" if path else f"{key}",
                "there is no such option",
                (f"did you mean {match!r}?   " if match else "") + f"options: {', '.join(names)}",
            )
    for field in fields:
        if field.default is dataclasses.MISSING and field.name not in document:
            refuse(f"{path}.{field.name}", "is missing")


def entries_of(items: Any, path: str) -> tuple[Any, ...]:
    """Return the items of a list of options."""
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        refuse(path, f"takes a list, not {_shown(items)}")
    found = tuple(items)
    if len(found) > _MOST_ENTRIES:
        refuse(path, f"has {len(found)} entries; {_MOST_ENTRIES} are the most")
    return found


def check(configuration: ManifestConfiguration) -> None:
    """Check a whole configuration.

    Raises OptionError for the first option that cannot be.
    """
    from tessel.store.manifest.packing.configuration import ManifestRule, ManifestSet, Preload

    for at, each in enumerate(configuration.sets):
        _check_type(each, f"sets[{at}]", ManifestSet)
        _check_set(each, f"sets[{at}]")
    names = [each.name for each in configuration.sets]
    for at, name in enumerate(names):
        if name in names[:at]:
            refuse(f"sets[{at}].name", f"there are two sets {name!r}")
    for at, each in enumerate(configuration.sets):
        if each.overflow_to is not None:
            _check_target(each.overflow_to, f"sets[{at}].overflow_to", names)
    _check_loops(configuration.sets)
    for at, rule in enumerate(configuration.rules):
        _check_type(rule, f"rules[{at}]", ManifestRule)
        _check_rule(rule, f"rules[{at}]", names)
    _check_type(configuration.preload, "preload", Preload)
    _check_preload(configuration.preload)


def _check_type(value: object, path: str, kind: type[Any]) -> None:
    if not isinstance(value, kind):
        refuse(path, f"takes a {kind.__name__}, not {_shown(value)}")


def _check_set(each: ManifestSet, path: str) -> None:
    if not isinstance(each.name, str) or not _SET_NAME.fullmatch(each.name):
        refuse(
            f"{path}.name",
            f"{_shown(each.name)} cannot name a set",
            "a name has 1 to 64 letters, digits, dots, dashes and underscores",
        )
    for option in ("max_segments", "symbols_per_manifest", "cardinality"):
        _check_count(getattr(each, option), f"{path}.{option}", least=1)
    limits = {"least": LEAST_MANIFEST_BYTES, "most": LARGEST_MANIFEST_BYTES}
    _check_count(each.max_bytes, f"{path}.max_bytes", **limits)
    if each.max_segments is not None and each.symbols_per_manifest is not None:
        refuse(
            f"{path}.symbols_per_manifest",
            "excludes max_segments: a set is packed by one measure",
            "leave one of the two out",
        )
    if each.name == DEFAULT_SET:
        if each.cardinality is not None:
            refuse(
                f"{path}.cardinality",
                f"set {DEFAULT_SET!r} has none: it takes whatever the others do not",
                "leave it out, or limit a set of your own",
            )
        if each.overflow_to is not None:
            refuse(f"{path}.overflow_to", f"nothing overflows from set {DEFAULT_SET!r}")


def _check_rule(rule: ManifestRule, path: str, names: Sequence[str]) -> None:
    _check_target(rule.target, f"{path}.target", names)
    if rule.symbols is not None:
        _check_pattern(rule.symbols, f"{path}.symbols")
    if not isinstance(rule.segments, tuple) or len(rule.segments) != 2:
        refuse(
            f"{path}.segments",
            f"takes the least and the most segments, not {_shown(rule.segments)}",
            "for instance [null, 5000]; both ends belong to it",
        )
    low, high = rule.segments
    _check_count(low, f"{path}.segments[0]", least=0)
    _check_count(high, f"{path}.segments[1]", least=0)
    if low is not None and high is not None and low > high:
        refuse(f"{path}.segments", f"no number is at least {low} and at most {high}")


def _check_preload(preload: Preload) -> None:
    for at, pattern in enumerate(entries_of(preload.symbols, "preload.symbols")):
        _check_pattern(pattern, f"preload.symbols[{at}]")
    if not isinstance(preload.symbols, tuple):
        refuse("preload.symbols", f"takes a list, not {_shown(preload.symbols)}")
    _check_count(preload.max_segments, "preload.max_segments", least=0)
    _check_count(preload.max_manifests, "preload.max_manifests", least=0)


def _check_count(value: object, path: str, *, least: int, most: int = _LARGEST_COUNT) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        refuse(path, f"takes a whole number, or none for no limit, not {_shown(value)}")
    if not least <= value <= most:
        refuse(path, f"is {value}; it lies between {least} and {most}")


def _check_pattern(pattern: object, path: str) -> None:
    if not isinstance(pattern, str):
        refuse(path, f"takes a regular expression, not {_shown(pattern)}")
    fault = fault_of(pattern)
    if fault is not None:
        refuse(
            path,
            f"{_shown(pattern)} is no regular expression: {fault}",
            "the syntax is RE2's: no back-references, no looking ahead or behind",
        )


def _check_target(target: object, path: str, names: Sequence[str]) -> None:
    if not isinstance(target, str):
        refuse(path, f"takes the name of a set, not {_shown(target)}")
    if target not in names:
        match = nearest(target, names)
        refuse(
            path,
            f"there is no set {_shown(target)}",
            (f"did you mean {match!r}?   " if match else "") + f"sets: {', '.join(names)}",
        )


def _check_loops(sets: Sequence[ManifestSet]) -> None:
    overflow = {each.name: each.overflow_to for each in sets}
    for at, each in enumerate(sets):
        way = [each.name]
        after = each.overflow_to
        while after is not None and after not in way:
            way.append(after)
            after = overflow[after]
        if after == each.name:
            refuse(
                f"sets[{at}].overflow_to",
                f"overflow goes round in a loop: {' → '.join([*way, after])}",
                f"let one of them overflow to {DEFAULT_SET!r}",
            )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
