"""The reasons for which tests of ArcticDB fail: the list, its search, and its page."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.arcticdb_suite.reasons import Pattern, patterns, reason_of, unused

PAGE = Path(__file__).parents[2] / "docs" / "compat.md"


def test_each_pattern_is_one_and_stands_once() -> None:
    known = patterns()
    for each in known:
        re.compile(each.text)
    assert len({(each.field, each.text) for each in known}) == len(known)


def test_the_page_has_the_reasons_of_the_list() -> None:
    shown = re.findall(r"^\| \d+ \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(shown) == sorted({each.reason for each in patterns()})


def test_the_first_pattern_counts_and_what_none_is_found_for_is_told() -> None:
    known = [
        Pattern("one", "errors", "pickled"),
        Pattern("two", "tests", "test_a"),
        Pattern("two", "errors", "never"),
    ]
    assert reason_of("tests/test_a.py::test_x", "is pickled", known) == known[0]
    assert reason_of("tests/test_a.py::test_x", "never", known) == known[1]
    assert reason_of("tests/test_b.py::test_x", "other", known) is None
    assert unused([("tests/test_a.py::test_x", "pickled")], known) == known[1:]
