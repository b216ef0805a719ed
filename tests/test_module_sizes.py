"""No module of the package has more than 400 lines, besides those here, which only get shorter.

Examples of docstrings do not count: they are there for readers of the reference.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "tessel"
MOST_LINES = 400
_SLACK = 20
"""By so much a module may be shorter before its figure must be written anew."""
_EXAMPLES = re.compile(r'\n\n +Examples\n +-+\n(?:(?! *"""| +\w+\n +-+\n).*\n)*')

LONGER = {
    "api.py": 591,
    "ecs/unit.py": 485,
    "expression/block_columns.py": 454,
    "pipeline/executor.py": 428,
    "pipeline/plan.py": 428,
    "pipeline/stage.py": 442,
    "spark_exec/flows.py": 433,
    "store/events/live_store.py": 440,
    "store/manifest/selected_rows.py": 457,
    "store/manifest/table.py": 444,
    "store/objects/cloud.py": 473,
    "testing/conformance.py": 439,
}
"""By how much: every figure may only go down."""


def lines_of(path: Path) -> int:
    """Return how many lines a module has without the examples of its docstrings."""
    return len(_EXAMPLES.sub("\n", path.read_text(encoding="utf-8")).splitlines())


def test_no_module_is_long_and_those_that_are_do_not_grow() -> None:
    found = {str(path.relative_to(ROOT)): lines_of(path) for path in ROOT.rglob("*.py")}
    long = {name: lines for name, lines in sorted(found.items()) if lines > MOST_LINES}
    grown = {name: lines for name, lines in long.items() if lines > LONGER.get(name, MOST_LINES)}
    assert grown == {}, "split it by what its parts are about; the list below is no place for it"
    stale = {
        name: long.get(name, 0)
        for name, lines in LONGER.items()
        if name not in long or long[name] < lines - _SLACK
    }
    assert stale == {}, "shorter than it was: write the new figure, or take it off the list"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('def f():\n    """Do.\n\n    Examples\n    --------\n    >>> f()\n    """\n', 3),
        ('def f():\n    """Do."""\n    return 1\n', 3),
        (
            'def f():\n    """Do.\n\n    Examples\n    --------\n    >>> f()\n    1\n\n    Notes\n'
            '    -----\n    No.\n    """\n    return 1\n',
            7,
        ),
    ],
)
def test_examples_do_not_count(tmp_path: Path, text: str, lines: int) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert lines_of(path) == lines
