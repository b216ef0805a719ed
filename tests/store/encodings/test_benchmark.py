"""The benchmark of the encodings runs and tells its figures as text and as JSON."""

from __future__ import annotations

import json

from benchmarks.encodings import cases, main


def test_the_smoke_run_prints_a_table_and_json(capsys) -> None:
    lines = main(["--smoke"])
    printed = capsys.readouterr().out.splitlines()
    told = json.loads(printed[-1])
    assert [line["name"] for line in told["lines"]] == [case.name for case in cases(10)]
    assert len(printed) == len(lines) + 3
    assert all(line.take_100_us > 0 for line in lines)
