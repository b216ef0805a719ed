"""The harness that compares versions: equal ones are equal, and what differs is noticed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.against_old.__main__ import Version, compare


class _Otherwise(Version):
    """A version whose answers have one row more."""

    def answer(self) -> dict[str, object]:
        found = super().answer()
        return {**found, "rows": -1} if "rows" in found else found


def test_a_version_is_equal_to_itself_and_not_to_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, same, other = (
        kind(sys.executable, isolated=False) for kind in (Version, Version, _Otherwise)
    )
    try:
        assert compare(one, same, 3, 8, tmp_path) == 0
        assert compare(one, other, 3, 4, tmp_path) == 4
    finally:
        for version in (one, same, other):
            version.end()
    assert "differed: {" in capsys.readouterr().out
