"""Which clauses have a capability, by their class."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Protocol, runtime_checkable

from tessel.clauses import Clause, ClauseInfo, capabilities
from tessel.clauses.capabilities import has_capability


@runtime_checkable
class Closing(Protocol):
    def close(self) -> None: ...


class Door:
    def close(self) -> None: ...

    def process(self) -> None: ...


class Gate(Door):
    def process(self) -> None: ...


class Hatch(Gate):
    def close(self) -> None: ...


def test_a_capability_is_had_by_methods_whoever_wrote_the_class() -> None:
    assert has_capability(Door(), Closing)
    assert has_capability(Gate(), Closing)
    assert not has_capability(3, Closing)


def test_a_method_in_place_of_process_is_no_older_than_process() -> None:
    assert has_capability(Door(), Closing, "close")
    assert not has_capability(Gate(), Closing, "close")
    assert has_capability(Hatch(), Closing, "close")
    assert not has_capability(3, Closing, "close")


def test_the_docs_name_the_methods_of_capabilities_and_no_others() -> None:
    page = (Path(__file__).parents[2] / "docs" / "custom-clauses.md").read_text()
    table = page.partition("## Optional capabilities")[2].partition("###")[0]
    ways = "".join(line.split("|")[2] for line in table.splitlines() if line.startswith("| "))
    told = set(re.findall(r"`([a-z_]+)(?:\(|=|`)", ways))
    protocols = [
        kind
        for _, kind in inspect.getmembers(capabilities, inspect.isclass)
        if kind.__module__ == capabilities.__name__
    ]
    methods = {name for kind in protocols for name in vars(kind) if not name.startswith("_")}
    # What is carried has a section of its own.
    assert methods - told <= vars(capabilities.Carries).keys()
    fields = {field.name for field in dataclasses.fields(ClauseInfo)}
    assert told <= methods | fields | set(dir(Clause))
