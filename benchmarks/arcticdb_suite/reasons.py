"""Why tests of ArcticDB fail here: ``reasons.toml``, and what of it holds for the outcomes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

REASONS = Path(__file__).with_name("reasons.toml")


class Pattern(NamedTuple):
    """A regular expression that a reason is found by: in the test's name or in its error."""

    reason: str
    field: str
    text: str


def patterns(path: Path = REASONS) -> list[Pattern]:
    """Return the patterns of all reasons, in their order."""
    with path.open("rb") as file:
        listed = tomllib.load(file)["reason"]
    return [
        Pattern(each["reason"], field, text)
        for each in listed
        for field in ("tests", "errors")
        for text in each.get(field, ())
    ]


def reason_of(test: str, why: str, known: list[Pattern]) -> Pattern | None:
    """Return the first pattern that is found for a failed test; None for a failure without one."""
    fields = {"tests": test.rpartition("tests/")[2], "errors": why}
    return next((each for each in known if re.search(each.text, fields[each.field])), None)


def unused(failed: Iterable[tuple[str, str]], known: list[Pattern]) -> list[Pattern]:
    """Return the patterns that no failure has: what they tell of passes, or an earlier one tells.

    ``failed`` are tests with their errors.
    """
    found = {reason_of(test, why, known) for test, why in failed}
    return [each for each in known if each not in found]
