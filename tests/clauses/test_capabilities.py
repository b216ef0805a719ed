"""Which clauses have a capability, by their class."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

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
