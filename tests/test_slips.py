"""Each slip of a new user ends in the text that is written down, and in an error of ours."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.slips import SLIPS, blocks

# In a process of its own: texts name clauses that are there, and other tests register theirs.
_ANSWERS = """
import json
from tests.slips import SLIPS, answer, names
known = names()
print(json.dumps({slip: answer(slip, known) for slip in SLIPS.strip().splitlines()}))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    done = subprocess.run([sys.executable, "-c", _ANSWERS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_all_slips_are_written_down() -> None:
    assert [slip for slip, _ in blocks()] == SLIPS.strip().splitlines()


@pytest.mark.parametrize(("slip", "text"), blocks(), ids=[slip for slip, _ in blocks()])
def test_slip(answers: dict[str, str], slip: str, text: str) -> None:
    assert answers[slip] == text, "write it anew: python -m tests.slips"
    assert text.startswith("["), "an error of ours, with a kind"
    assert "\n  " in text, "with a hint"
