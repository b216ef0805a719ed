"""An operator, an aggregate and a clause are each added in one place, and work at once."""

from __future__ import annotations

from tests.extensions.__main__ import run


def test_a_clone_with_extensions() -> None:
    ended = run(3_000, 0)
    assert ended.returncode == 0, ended.stderr
