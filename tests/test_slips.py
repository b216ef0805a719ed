"""Each slip of a new user ends in the text that is written down, and in an error of ours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.slips import SLIPS, answer, blocks, names


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    return names()


def test_all_slips_are_written_down() -> None:
    assert [slip for slip, _ in blocks()] == SLIPS.strip().splitlines()


@pytest.mark.parametrize(("slip", "text"), blocks(), ids=[slip for slip, _ in blocks()])
def test_slip(known: dict[str, Any], slip: str, text: str) -> None:
    assert answer(slip, known) == text, "write it anew: python -m tests.slips"
    assert text.startswith("["), "an error of ours, with a kind"
    assert "\n  " in text, "with a hint"
