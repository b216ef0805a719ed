"""``python -m benchmarks.arcticdb_suite --tests ArcticDB/python --wheel folder`` runs the tests.

``folder`` is where ``pip install --target folder arcticdb`` put the wheel and the pandas it wants,
with what their tests import: psutil, trustme, mock, retrying, boto3, pymongo, azure-storage-blob,
azure-identity, requests, werkzeug. One process runs the tests until ``--seconds`` have passed; the
outcome of each is written at once, and the same command goes on with those that have none.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import chain
from pathlib import Path

from benchmarks.arcticdb_suite.reasons import patterns, reason_of, unused

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent

QUERIES = """
aggregation filtering projection query_builder query_builder_batch query_builder_nat
query_builder_sparse resample date_range head lazy_dataframe row_range symbol_concatenation tail
ternary filtering_hypothesis projection_hypothesis
"""
LIBRARY = """
api append bool_isolated column_type_changes deletion deletion_batch empty_writes list_versions
missing_empty normalization nullable_boolean_column_type read_index sort stage unicode update write
"""
INTEGRATION = """
arctic arctic_batch arctic_library_management finalize_staged_data in_memory name_validation
read_batch_more unicode_strings update
"""
_UNIT, _INTEGRATION = "tests/unit/arcticdb", "tests/integration/arcticdb"
GROUPS = {
    "query": [f"{_UNIT}/version_store/test_{name}.py" for name in QUERIES.split()],
    "library": [
        *(f"{_UNIT}/version_store/test_{name}.py" for name in LIBRARY.split()),
        *(f"{_UNIT}/test_{name}.py" for name in ("string", "version_store_api", "write_read")),
        *(f"{_INTEGRATION}/test_{name}.py" for name in INTEGRATION.split()),
        *(
            f"{_INTEGRATION}/version_store/test_{name}.py"
            for name in ("basic_version_store", "metadata_support", "symbol_list")
        ),
    ],
}
NO_REASON = "no reason: a defect, or not looked at"
_GRACE_S = 40  # for the test that runs when the time is over
Found = dict[str, dict[str, str]]


def run(tests: Path, wheel: Path, files: list[str], outcomes: Path, until: float) -> bool:
    """Run the tests that have no outcome, and return whether all have one by the time ``until``."""
    with tempfile.TemporaryDirectory() as folder:
        settings, current = Path(folder, "pytest.ini"), Path(folder, "current")
        settings.write_text("[pytest]\n")
        command = [sys.executable, "-P", "-m", "pytest", "--noconftest"]
        command += ["-p", "tessel_for_arcticdb", "-p", "no:cacheprovider", "-c", str(settings)]
        command += ["--import-mode=append", "--rootdir", str(tests), "-qq", "--no-header"]
        command += ["--no-summary", "--tb=no", "-W", "ignore", "--timeout=30"]
        command += ["--continue-on-collection-errors", *files]
        environment = {
            **os.environ,
            "ARCTICDB_TESTS": str(tests),
            "ARCTICDB_OUTCOMES": str(outcomes),
            "ARCTICDB_CURRENT": str(current),
            "ARCTICDB_UNTIL": str(until),
            "PYTHONPATH": os.pathsep.join(map(str, [HERE, wheel, tests, ROOT])),
        }
        while time.time() < until:
            current.write_text("")
            left = until - time.time() + _GRACE_S
            try:
                ended = subprocess.run(
                    command, cwd=tests, env=environment, stdout=subprocess.DEVNULL, timeout=left
                )
                why = f"the process ended with {ended.returncode}"
            except subprocess.TimeoutExpired:
                why = "the test did not come to its end"
            state = current.read_text(encoding="utf-8")
            if state in ("all", "stopped"):
                return state == "all"
            if not state:
                raise SystemExit(f"before the first test {why}")
            with outcomes.open("a", encoding="utf-8") as file:  # and the others are run
                file.write(json.dumps({"test": state, "outcome": "failed", "why": why}) + "\n")
        return False


def read_outcomes(path: Path, files: list[str]) -> Found:
    """Return the outcomes so far of the tests of some files, by test."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {each["test"]: each for each in lines if each["test"].partition("::")[0] in files}


def table(names: list[str], rows: dict[str, Counter[str]]) -> str:
    """Return counts by row and outcome as aligned text."""
    wide = max(map(len, rows), default=0)
    lines = ["  ".join([" " * wide, *(f"{name:>7}" for name in names)])]
    for name, counts in rows.items():
        lines.append("  ".join([f"{name:{wide}}", *(f"{counts[each]:7}" for each in names)]))
    return "\n".join(lines)


def summary(found: Found, most: int) -> str:
    """Return counts of outcomes by file, and of the failures by reason with the first tests."""
    outcomes = ["passed", "failed", "skipped"]
    rows: dict[str, Counter[str]] = {}
    reasons: dict[str, list[str]] = {}
    known = patterns()
    for test, each in found.items():
        for row in (test.partition("::")[0].removeprefix("tests/"), "all"):
            rows.setdefault(row, Counter())[each["outcome"]] += 1
        if each["outcome"] == "failed":
            pattern = reason_of(test, each["why"], known)
            reason = NO_REASON if pattern is None else pattern.reason
            reasons.setdefault(reason, []).append(f"{test.rpartition('/')[2]}: {each['why'][:150]}")
    rows["all"] = rows.pop("all", Counter())
    lines = [table(outcomes, rows), ""]
    for reason, tests in sorted(reasons.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(tests):6}  {reason}")
        lines += [f"        {each}" for each in tests[:most]]
    return "\n".join(lines)


def main() -> None:
    """Run the groups and print what passed, and why the others did not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=Path, required=True, help="the folder python/ of ArcticDB")
    parser.add_argument("--wheel", type=Path, required=True, help="where the wheel was installed")
    parser.add_argument("--group", choices=[*GROUPS, "all"], default="all")
    parser.add_argument("--file", action="append", help="one file of tests, in place of a group")
    parser.add_argument("--seconds", type=float, default=500, help="after which no test begins")
    parser.add_argument("--examples", type=int, default=0, help="tests that are shown of a reason")
    parser.add_argument("--again", help="run what failed once more: all, or a part of the reason")
    parser.add_argument(
        "--outcomes", type=Path, default=Path("arcticdb_outcomes.jsonl"), help="of each test, lines"
    )
    given = parser.parse_args()
    groups = {"files": given.file} if given.file else GROUPS
    if given.group != "all" and not given.file:
        groups = {given.group: GROUPS[given.group]}
    until, done, outcomes = time.time() + given.seconds, True, given.outcomes.resolve()
    if given.again is not None:
        _forget(outcomes, "" if given.again == "all" else given.again)
    for files in groups.values():
        tests, wheel = given.tests.resolve(), given.wheel.resolve()
        done = done and run(tests, wheel, files, outcomes, until)
    for name, files in groups.items():
        print(f"{name}\n{summary(read_outcomes(outcomes, files), given.examples)}\n")
    if not done:
        raise SystemExit("not all have run: the same command goes on")
    if groups == GROUPS:
        raise SystemExit(_unexplained(read_outcomes(outcomes, [*chain(*GROUPS.values())])))


def _unexplained(found: Found) -> str | None:
    """Return the failures without a reason, and the patterns of reasons without a failure."""
    failed = [(t, each["why"]) for t, each in found.items() if each["outcome"] == "failed"]
    known = patterns()
    lines = [
        f"without a reason: {test}: {why[:150]}"
        for test, why in failed
        if not reason_of(test, why, known)
    ]
    lines += [
        f"without a failure: {each.text!r} of {each.reason!r}" for each in unused(failed, known)
    ]
    return "\n".join(lines) or None


def _forget(path: Path, reason: str) -> None:
    """Drop the outcomes of tests that failed for a reason."""
    known = patterns()
    if path.exists():
        kept = [
            line
            for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
            if (each := json.loads(line))["outcome"] != "failed"
            or reason
            not in getattr(reason_of(each["test"], each["why"], known), "reason", NO_REASON)
        ]
        path.write_text("".join(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
