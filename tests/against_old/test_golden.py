"""The kept queries give what they gave, however their tables are cut."""

from __future__ import annotations

import pytest

from tests.against_old.golden import kept, told
from tests.against_old.worker import answered
from tests.clauses.helpers import SETTINGS

PAIRS = list(kept())


def test_two_thousand_are_kept() -> None:
    assert sum(len(pair.lines) for pair in PAIRS) == 2_000
    found = [line["found"] for pair in PAIRS for line in pair.lines]
    assert len({each["digest"] for each in found if "digest" in each}) > 600, "they differ"


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_they_give_what_they_gave(number: int) -> None:
    pair = PAIRS[number]
    store = pair.store(rows=[3, 1 << 20][number % 2])
    setting = SETTINGS[number % len(SETTINGS)]
    for line in pair.lines:
        assert told(answered(store, line["query"], setting)) == line["found"], line["query"]
