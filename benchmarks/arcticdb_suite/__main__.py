"""``python -m benchmarks.arcticdb_suite --tests ArcticDB/python --wheel folder`` runs the tests.

``folder`` is where ``pip install --target folder arcticdb`` put the wheel and the pandas it wants,
with what their tests import: psutil, trustme, mock, retrying, boto3, pymongo, azure-storage-blob,
azure-identity, requests, werkzeug.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

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


def run(tests: Path, wheel: Path, files: list[str], timeout_s: int) -> list[dict[str, str]]:
    """Run files of tests in a process of their own, and return the outcome of each test."""
    with tempfile.TemporaryDirectory() as folder:
        settings, report = Path(folder, "pytest.ini"), Path(folder, "report.jsonl")
        settings.write_text("[pytest]\n")
        command = [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "--noconftest",
            "-p",
            "tessel_for_arcticdb",
        ]
        command += ["--import-mode=append", "-p", "no:cacheprovider", "-c", str(settings)]
        command += ["--rootdir", str(tests), "-q", "--no-header", "--tb=no", "-W", "ignore"]
        command += ["--continue-on-collection-errors", f"--timeout={timeout_s}", *files]
        paths = [HERE, wheel, tests, ROOT]
        environment = {
            **os.environ,
            "ARCTICDB_TESTS": str(tests),
            "ARCTICDB_REPORT": str(report),
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
        }
        subprocess.run(command, cwd=tests, env=environment, check=False, stdout=sys.stderr)
        return [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]


def summary(found: list[dict[str, str]], most: int) -> str:
    """Return counts of outcomes, and the reasons of what failed, the most frequent first."""
    counts = Counter(each["outcome"] for each in found)
    reasons = Counter(
        re.sub(r"'[^']*'|\d+|0x\w+", "_", each["why"])[:100]
        for each in found
        if each["outcome"] == "failed"
    )
    lines = [f"{outcome}: {count}" for outcome, count in sorted(counts.items())]
    lines += [f"{count:6} {reason}" for reason, count in reasons.most_common(most)]
    return "\n".join(lines)


def main() -> None:
    """Run the groups and print what passed, and why the others did not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=Path, required=True, help="the folder python/ of ArcticDB")
    parser.add_argument("--wheel", type=Path, required=True, help="where the wheel was installed")
    parser.add_argument("--group", choices=[*GROUPS, "all"], default="all")
    parser.add_argument("--file", action="append", help="one file of tests, in place of a group")
    parser.add_argument("--timeout-s", type=int, default=60, help="of each test, seconds")
    parser.add_argument("--reasons", type=int, default=40, help="how many reasons are shown")
    parser.add_argument(
        "--to", type=Path, help="where the outcome of each test goes, as JSON lines"
    )
    given = parser.parse_args()
    groups = {"files": given.file} if given.file else GROUPS
    everything = []
    for name, files in groups.items():
        if given.group not in ("all", name) and not given.file:
            continue
        found = run(given.tests.resolve(), given.wheel.resolve(), files, given.timeout_s)
        everything += found
        print(f"{name}\n{summary(found, given.reasons)}")
    if given.to is not None:
        given.to.write_text("\n".join(json.dumps(each) for each in everything), encoding="utf-8")


if __name__ == "__main__":
    main()
