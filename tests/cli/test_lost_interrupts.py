"""Ctrl-C that could be lost: to Arrow's own handler, of which one in ten was, and to Python's.

While a CSV file is read, and as an object is freed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import tessel

_READS = """
import os, random, signal, sys, threading, time
from tessel.store.files import Files
from pathlib import Path

# What is imported while it reads is imported whole.
Files([Path(sys.argv[1])]).take(list)
heard = 0
for seed in range(100):
    wait = random.Random(seed).random() / 50
    sender = threading.Timer(wait, os.kill, [os.getpid(), signal.SIGINT])
    try:
        sender.start()
        until = time.monotonic() + 5
        while time.monotonic() < until:
            Files([Path(sys.argv[1])]).take(list)
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


def test_csv_is_read_under_the_handler_of_python() -> None:
    texts = [path.read_text() for path in Path(tessel.__file__).parent.rglob("*.py")]
    reading = [text for text in texts if "csv.read_csv(" in text or "csv.open_csv(" in text]
    assert reading
    assert all("pa.enable_signal_handlers(False)" in text for text in reading)


_FREES = """
import signal, sys, time
from tessel.cli.app import app, run

class Freed:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@app.command()
def waits():
    Freed()
    time.sleep(60)

sys.argv[1:] = ["waits"]
run()
"""


def test_an_interrupt_as_an_object_is_freed_ends_the_command() -> None:
    outcome = subprocess.run([sys.executable, "-c", _FREES], capture_output=True, text=True)
    assert outcome.returncode == 130, outcome.stderr
