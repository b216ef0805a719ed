"""Ctrl-C while a CSV file is read: Arrow's own handler of interrupts lost one in ten."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from pathlib import Path

import tessel

_READS = """
import os, random, signal, sys, threading, time
from tessel.cli.files import read_files
from pathlib import Path

heard = 0
for seed in range(100):
    wait = random.Random(seed).random() / 50
    sender = threading.Timer(wait, os.kill, [os.getpid(), signal.SIGINT])
    try:
        sender.start()
        until = time.monotonic() + 5
        while time.monotonic() < until:
            read_files([Path(sys.argv[1])])
    except KeyboardInterrupt:
        heard += 1
    sender.join()
print(heard)
"""


def test_no_interrupt_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n" + "".join(f"{at},{at / 2}\n" for at in range(3000)))
    outcome = subprocess.run(
        [sys.executable, "-c", _READS, str(file)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert outcome.stdout.split() == ["100"], outcome.stderr


def test_files_are_read_in_one_place() -> None:
    places = {
        path.name
        for path in Path(tessel.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "csv.read_csv"
    }
    assert places == {"files.py"}
