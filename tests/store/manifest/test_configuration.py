"""Manifest configurations: defaults, plain data both ways, and the path of whatever is wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tessel.display import render_text
from tessel.errors import NameNotFoundError, OptionError
from tessel.store.manifest.packing import ManifestConfiguration, ManifestRule, ManifestSet, Preload
from tessel.store.manifest.packing.validation import LARGEST_MANIFEST_BYTES


def test_the_usual_configuration() -> None:
    usual = ManifestConfiguration()
    small, default = usual.sets
    assert (small.name, small.max_segments, small.cardinality) == ("small", 256, None)
    assert small.overflow_to == "default"
    assert (default.name, default.max_segments, default.cardinality) == ("default", 1_000_000, None)
    assert default.overflow_to is None
    assert usual.rules == (ManifestRule("small", segments=(None, 5_000)),)
    assert usual.preload == Preload((".*",), 50_000, 1)
    assert usual == ManifestConfiguration.from_json({})
    assert usual.usual
    assert ManifestConfiguration(preload=Preload(("a",))).usual
    assert ManifestConfiguration.from_json(usual.to_json()).usual
    assert not ManifestConfiguration((ManifestSet("default"),)).usual


def test_small_symbols_of_the_usual_configuration_are_packed_by_leaf() -> None:
    usual = ManifestConfiguration()
    small, default = usual.sets
    assert usual.leaf_set("s", 256, 10_000) == small
    assert usual.leaf_set("s", 257, 10_000) is None
    assert usual.leaf_set("s", 1, small.byte_limit + 1) is None
    assert (usual.by_leaf(small), usual.by_leaf(default)) == (True, False)
    own = ManifestConfiguration((ManifestSet("small", 256, cardinality=None),))
    assert own.leaf_set("s", 1, 1) is None
    assert not own.by_leaf(own.sets[0])


def test_sets_of_users_have_their_own_defaults_and_default_is_added() -> None:
    made = ManifestConfiguration.from_json({"sets": [{"name": "mine"}]})
    mine, default = made.sets
    assert (mine.max_segments, mine.cardinality, mine.overflow_to) == (None, 1, "default")
    assert default == ManifestSet("default")
    assert made.rules == ()


def test_null_is_unlimited_and_not_the_same_as_left_out() -> None:
    made = ManifestConfiguration.from_json(
        {
            "sets": [
                {"name": "mine", "cardinality": None, "max_bytes": None},
                {"name": "default", "max_segments": None},
            ]
        }
    )
    assert made.sets[0].cardinality is None
    assert made.sets[0].byte_limit == LARGEST_MANIFEST_BYTES
    assert made.sets[1].max_segments is None


def test_a_default_set_that_counts_symbols_has_no_other_measure() -> None:
    made = ManifestSet("default", symbols_per_manifest=3)
    assert made.max_segments is None
    assert ManifestConfiguration((made,)).sets == (made,)


def test_plain_data_and_back() -> None:
    made = ManifestConfiguration(
        sets=(
            ManifestSet("first", 10, cardinality=2, overflow_to="second"),
            ManifestSet("second", symbols_per_manifest=4, cardinality=None, max_bytes=None),
        ),
        rules=(ManifestRule("first", "axis/.*", (0, 500)), ManifestRule("second", "x")),
        preload=Preload(("a", "b"), None, None),
    )
    stored = json.loads(json.dumps(made.to_json()))
    again = ManifestConfiguration.from_json(stored)
    assert again == made
    assert hash(again) == hash(made)
    assert again.to_json() == stored
    assert again != ManifestConfiguration()


def test_lists_are_taken_for_tuples() -> None:
    made = ManifestConfiguration(
        sets=[ManifestSet("a")],  # type: ignore[arg-type]
        rules=[ManifestRule("a", segments=[1, 2])],  # type: ignore[arg-type]
    )
    assert made == ManifestConfiguration((ManifestSet("a"),), (ManifestRule("a", segments=(1, 2)),))
    assert isinstance(hash(made), int)


@dataclass(frozen=True)
class Refused:
    """A document, the path of what is wrong with it, and words of the message."""

    id: str
    document: Any
    path: str
    words: str


def _sets(*sets: Any) -> dict[str, Any]:
    return {"sets": list(sets)}


def _rules(*rules: Any) -> dict[str, Any]:
    return {"sets": [{"name": "a"}], "rules": list(rules)}


REFUSED = [
    Refused("no object", [], "(all)", "by name"),
    Refused("unknown part", {"set": []}, "set", "did you mean 'sets'"),
    Refused("sets no list", {"sets": {"a": 1}}, "sets", "takes a list"),
    Refused("sets text", {"sets": "abc"}, "sets", "takes a list"),
    Refused("sets null", {"sets": None}, "sets", "takes a list"),
    Refused("too many sets", _sets(*({"name": f"s{i}"} for i in range(1001))), "sets", "1001"),
    Refused("set no object", _sets({"name": "a"}, 3), "sets[1]", "by name"),
    Refused("set without name", _sets({"max_segments": 3}), "sets[0].name", "missing"),
    Refused("name no text", _sets({"name": 3}), "sets[0].name", "cannot name"),
    Refused("name empty", _sets({"name": ""}), "sets[0].name", "cannot name"),
    Refused("name long", _sets({"name": "a" * 65}), "sets[0].name", "cannot name"),
    Refused("name twice", _sets({"name": "a"}, {"name": "a"}), "sets[1].name", "two sets 'a'"),
    Refused(
        "unknown option",
        _sets({"name": "a"}, {"name": "b", "max_segmets": 3}),
        "sets[1].max_segmets",
        "did you mean 'max_segments'",
    ),
    Refused("text", _sets({"name": "a", "max_segments": "9"}), "sets[0].max_segments", "whole"),
    Refused("truth", _sets({"name": "a", "cardinality": True}), "sets[0].cardinality", "whole"),
    Refused("fraction", _sets({"name": "a", "max_segments": 1.5}), "sets[0].max_segments", "whole"),
    Refused("zero", _sets({"name": "a", "max_segments": 0}), "sets[0].max_segments", "between"),
    Refused("huge", _sets({"name": "a", "max_segments": 10**30}), "sets[0].max_segments", "betwe"),
    Refused("none", _sets({"name": "a", "cardinality": 0}), "sets[0].cardinality", "between"),
    Refused(
        "no symbols",
        _sets({"name": "a", "symbols_per_manifest": 0}),
        "sets[0].symbols_per_manifest",
        "between",
    ),
    Refused("bytes low", _sets({"name": "a", "max_bytes": 1000}), "sets[0].max_bytes", "between"),
    Refused("bytes high", _sets({"name": "a", "max_bytes": 2**40}), "sets[0].max_bytes", "between"),
    Refused(
        "two measures",
        _sets({"name": "a"}, {"name": "b", "max_segments": 3, "symbols_per_manifest": 2}),
        "sets[1].symbols_per_manifest",
        "excludes max_segments",
    ),
    Refused(
        "overflow unknown",
        _sets({"name": "a"}, {"name": "b"}, {"name": "c", "overflow_to": "deflaut"}),
        "sets[2].overflow_to",
        "did you mean 'default'",
    ),
    Refused(
        "overflow no text", _sets({"name": "a", "overflow_to": 3}), "sets[0].overflow_to", "name of"
    ),
    Refused(
        "overflow to itself",
        _sets({"name": "a", "overflow_to": "a"}),
        "sets[0].overflow_to",
        "loop",
    ),
    Refused(
        "overflow loop",
        _sets(
            {"name": "in", "overflow_to": "b"},
            {"name": "b", "overflow_to": "c"},
            {"name": "c", "overflow_to": "d"},
            {"name": "d", "overflow_to": "b"},
        ),
        "sets[1].overflow_to",
        "b → c → d → b",
    ),
    Refused(
        "default cardinality",
        _sets({"name": "default", "cardinality": 1}),
        "sets[0].cardinality",
        "none",
    ),
    Refused(
        "default overflow",
        _sets({"name": "a"}, {"name": "default", "overflow_to": "a"}),
        "sets[1].overflow_to",
        "nothing overflows",
    ),
    Refused("rules no list", {"rules": 3}, "rules", "takes a list"),
    Refused("rule no object", _rules("a"), "rules[0]", "by name"),
    Refused("rule without target", _rules({"symbols": "x"}), "rules[0].target", "missing"),
    Refused("target unknown", _rules({"target": "aa"}), "rules[0].target", "sets: a, default"),
    Refused("target no text", _rules({"target": None}), "rules[0].target", "name of a set"),
    Refused(
        "bad regex",
        _rules({"target": "a"}, {"target": "a", "symbols": "(x"}),
        "rules[1].symbols",
        "(",
    ),
    Refused("regex no text", _rules({"target": "a", "symbols": 3}), "rules[0].symbols", "regular"),
    Refused(
        "regex long", _rules({"target": "a", "symbols": "x" * 1001}), "rules[0].symbols", "1001"
    ),
    Refused(
        "range inverted",
        _rules({"target": "a", "segments": [5, 4]}),
        "rules[0].segments",
        "at least 5",
    ),
    Refused("range of one", _rules({"target": "a", "segments": [5]}), "rules[0].segments", "least"),
    Refused("range no list", _rules({"target": "a", "segments": 5}), "rules[0].segments", "least"),
    Refused(
        "range of text",
        _rules({"target": "a", "segments": ["0", 1]}),
        "rules[0].segments[0]",
        "whole",
    ),
    Refused(
        "range below zero",
        _rules({"target": "a", "segments": [0, -1]}),
        "rules[0].segments[1]",
        "betw",
    ),
    Refused("preload no object", {"preload": []}, "preload", "by name"),
    Refused("preload unknown", {"preload": {"symbol": []}}, "preload.symbol", "'symbols'"),
    Refused("preload text", {"preload": {"symbols": "x"}}, "preload.symbols", "takes a list"),
    Refused(
        "preload regex", {"preload": {"symbols": ["x", "["]}}, "preload.symbols[1]", "expression"
    ),
    Refused("preload size", {"preload": {"max_segments": -1}}, "preload.max_segments", "between"),
    Refused("preload many", {"preload": {"max_manifests": "1"}}, "preload.max_manifests", "whole"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_every_refusal_names_the_path(case: Refused) -> None:
    before = repr(case.document)
    with pytest.raises(OptionError) as caught:
        ManifestConfiguration.from_json(case.document)
    assert caught.value.attributes["option"] == case.path
    assert case.path in caught.value.message
    assert case.words in str(caught.value)
    assert repr(case.document) == before


def test_configurations_made_in_python_are_checked_alike() -> None:
    with pytest.raises(OptionError) as caught:
        ManifestConfiguration(
            (ManifestSet("a", overflow_to="b"), ManifestSet("b", overflow_to="a"))
        )
    assert caught.value.attributes["option"] == "sets[0].overflow_to"
    with pytest.raises(OptionError) as caught:
        ManifestConfiguration(sets=("a",))  # type: ignore[arg-type]
    assert caught.value.attributes["option"] == "sets[0]"
    with pytest.raises(OptionError) as caught:
        ManifestConfiguration(rules=({"target": "small"},))  # type: ignore[arg-type]
    assert caught.value.attributes["option"] == "rules[0]"
    with pytest.raises(OptionError) as caught:
        ManifestConfiguration(preload=3)  # type: ignore[arg-type]
    assert caught.value.attributes["option"] == "preload"


@pytest.mark.parametrize(
    "pattern",
    ["(x)\\1", "(?=x)", "(?<!x)y", "x{1001}", "(x{500}){500}", "a)|(b", "\\Qx", "x\\", "*"],
)
def test_what_cannot_run_in_linear_time_or_is_unsound_is_refused(pattern: str) -> None:
    with pytest.raises(OptionError) as caught:
        ManifestConfiguration(rules=(ManifestRule("small", pattern),))
    assert caught.value.attributes["option"] == "rules[0].symbols"


def test_a_pattern_that_would_make_others_backtrack_for_ever_is_answered() -> None:
    made = ManifestConfiguration(rules=(ManifestRule("small", "(a+)+(a*)*(a|aa)+"),))
    assert made.targets(["a" * 1024, "a" * 1023 + "!"], [1, 1]) == ["small", "default"]


def test_the_first_rule_that_matches_decides_and_conditions_are_anded() -> None:
    made = ManifestConfiguration(
        (ManifestSet("a"), ManifestSet("b"), ManifestSet("c")),
        (
            ManifestRule("a", "x.*", (10, 20)),
            ManifestRule("b", "xy"),
            ManifestRule("c", segments=(15, None)),
            ManifestRule("a", "never|é+"),
        ),
    )
    names = ["x1", "xy", "xy", "y", "y", "éé"]
    assert made.targets(names, [10, 21, 20, 15, 14, 0]) == ["a", "b", "a", "c", "default", "a"]
    assert made.targets([], []) == []


def test_sets_are_packed_before_the_one_they_overflow_to_otherwise_in_order() -> None:
    made = ManifestConfiguration(
        (
            ManifestSet("default"),
            ManifestSet("d", overflow_to="b"),
            ManifestSet("c"),
            ManifestSet("b", overflow_to="a"),
            ManifestSet("a"),
        )
    )
    assert [each.name for each in made.packing_order] == ["d", "c", "b", "a", "default"]


def test_an_unknown_set_is_named_with_the_nearest() -> None:
    with pytest.raises(NameNotFoundError, match="did you mean 'small'"):
        ManifestConfiguration().set_named("smal")


def test_the_configuration_as_tables() -> None:
    shown = render_text(ManifestConfiguration().describe())
    for words in ("max_segments", "50000", "small", "default", "5000", ".*"):
        assert words in shown
