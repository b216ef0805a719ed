"""A stream through Spark whose process is killed at random moments: each row is there once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import tessel as ts
from tests.spark_exec.scripts import CHECKOUT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_KILLS = 20
_ROWS_A_COMMIT = 50

_STREAM = """
    import os, signal, sys
    from tessel.spark_exec import spark_session
    from tessel.spark_exec.source.registration import TesselSource
    from tessel.spark_exec.source.streams import StreamWriter

    store, checkpoint, dies = sys.argv[1:]

    group = os.getpgid(0)  # that of the driver and the JVM; workers have one of their own

    class Dying(StreamWriter):
        def commit(self, messages, batch):
            super().commit(messages, batch)
            # The rows have landed, and the checkpoint does not know it.
            os.killpg(group, signal.SIGKILL)

    class Source(TesselSource):
        def streamWriter(self, schema, overwrite):
            writer = super().streamWriter(schema, overwrite)
            if dies == "between":
                writer.__class__ = Dying
            return writer

    spark = spark_session("local[2]")
    spark.dataSource.register(Source)
    incoming = spark.readStream.format("tessel").options(
        store=store, symbol="x", max_versions_per_trigger=2, max_bytes_per_trigger=2_000
    ).load()
    query = (
        incoming.writeStream.format("tessel")
        .options(store=store, symbol="y", stream_id="copy", index="t")
        .option("checkpointLocation", checkpoint)
    )
    if dies == "not":
        query = query.trigger(availableNow=True)
    print("begun", flush=True)
    query.start().awaitTermination()
"""


def test_each_row_is_there_once(tmp_path: Path) -> None:
    script = tmp_path / "stream.py"
    script.write_text(textwrap.dedent(_STREAM))
    store = ts.open(str(tmp_path / "store"))
    total = 0

    def append() -> None:
        nonlocal total
        rows = {"t": list(range(total, total + _ROWS_A_COMMIT))}
        if total:
            store.append("x", rows)
        else:
            store.write("x", rows, index="t")
        total += _ROWS_A_COMMIT

    def begin(dies: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(script), store.uri, str(tmp_path / "checkpoint"), dies],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a group of its own, which is killed as a whole
        )

    def batches() -> int:
        """Return how many batches Spark has begun, also those that it runs again."""
        offsets = tmp_path / "checkpoint" / "offsets"
        return sum(each.name.isdigit() for each in offsets.iterdir()) if offsets.exists() else 0

    dice = random.Random(1)
    with ts.options(segment_rows=20):
        append()
        for kill in range(_KILLS):
            dies = "between" if kill % 3 == 0 else "at some time"
            begun = batches()
            with begin(dies) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "begun\n"
                append()
                if dies != "between":
                    # Some batches later, within one or behind it; a third is killed as it begins.
                    wanted = begun + dice.randrange(3)
                    while batches() < wanted:
                        assert process.poll() is None
                        time.sleep(0.05)
                        if dice.random() < 0.03:
                            append()
                    time.sleep(dice.random())
                    os.killpg(process.pid, signal.SIGKILL)
                assert process.wait() == -signal.SIGKILL
    with begin("not") as last:
        assert last.wait() == 0
    assert store.read("y").to_arrow()["t"].to_pylist() == list(range(total))
    assert store.read("y").to_arrow().equals(store.read("x").to_arrow())
