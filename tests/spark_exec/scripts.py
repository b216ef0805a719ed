"""Running a piece of Python in a process of its own, for what a test process cannot show."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
LAUNCHER_TOOLS = ("bash", "sh", "env", "dirname", "ps", "head", "uname")


def run_script(
    source: str,
    *,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: int = 300,
) -> subprocess.CompletedProcess[str]:
    """Run ``source`` with this interpreter; ``environment`` replaces the variables."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(source))
    working = folder / "working"
    working.mkdir(exist_ok=True)
    variables = dict(os.environ if environment is None else environment)
    variables["PYTHONPATH"] = str(CHECKOUT)
    return subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=working,
        env=variables,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )


def path_without_java(folder: Path) -> str:
    """Return a PATH that has the tools of Spark's launcher and nothing else."""
    tools = folder / "tools"
    tools.mkdir()
    for tool in LAUNCHER_TOOLS:
        found = shutil.which(tool)
        assert found is not None, tool
        (tools / tool).symlink_to(found)
    return str(tools)
