"""The property that is computed once: what it keeps, where, and that nobody waits for it."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading

import pytest

from tessel.cached import cached, copied


@dataclasses.dataclass(frozen=True)
class Square:
    side: int

    @cached
    def area(self) -> list[int]:
        """Return the area, in a list of its own."""
        return [self.side**2]

    @cached
    def root(self) -> float:
        """Fail for sides below nought."""
        if self.side < 0:
            raise ValueError("no root")
        return float(self.side**0.5)


class Cube(Square):
    @cached
    def area(self) -> list[int]:
        """Return six of the square's."""
        return [6 * side for side in super().area]


def test_each_object_computes_once_and_keeps_its_own():
    one, two = Square(2), Square(3)
    assert one.__dict__ == {"side": 2}
    assert one.area is one.area
    assert (one.area, two.area) == ([4], [9])
    assert one.__dict__ == {"side": 2, "area": [4]}


def test_a_frozen_dataclass_is_equal_whether_it_has_been_asked_or_not():
    one = Square(2)
    assert one.area == [4]
    assert one == Square(2)
    assert hash(one) == hash(Square(2))
    assert repr(one) == "Square(side=2)"


def test_what_is_deleted_is_computed_anew():
    one = Square(2)
    before = one.area
    object.__delattr__(one, "area")  # as ``del`` does where the class is not frozen
    assert one.area == before
    assert one.area is not before


def test_an_error_is_not_kept():
    one = Square(-1)
    for _ in range(2):
        with pytest.raises(ValueError, match="no root"):
            _ = one.root
    assert "root" not in one.__dict__


def test_the_class_gives_the_property_with_its_text():
    assert isinstance(Square.area, cached)
    assert Square.area.__doc__ == "Return the area, in a list of its own."


def test_a_class_may_override_it():
    assert Cube(2).area == [24]


def test_what_was_computed_goes_along_with_copies():
    one = Square(2)
    assert one.area == [4]
    assert copy.copy(one).area is one.area
    assert pickle.loads(pickle.dumps(one)).__dict__ == one.__dict__
    assert dataclasses.replace(one, side=3).area == [9]


def test_two_threads_that_ask_at_once_both_compute_and_one_answer_is_kept():
    both = threading.Barrier(2, timeout=60)

    class Meeting:
        @cached
        def room(self) -> object:
            """Return once two threads are in here."""
            both.wait()
            return object()

    meeting = Meeting()
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(meeting.room)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert any(meeting.room is one for one in found)
    assert meeting.room is meeting.room


def test_threads_that_ask_other_objects_do_not_wait():
    go_on = threading.Event()

    class Slow:
        @cached
        def answer(self) -> int:
            """Wait, in all threads but the main one."""
            if threading.current_thread() is not threading.main_thread():
                go_on.wait()
            return 42

    other = Slow()
    thread = threading.Thread(target=lambda: other.answer)
    thread.start()
    assert Slow().answer == 42
    assert "answer" not in other.__dict__
    go_on.set()
    thread.join()
    assert other.answer == 42


def test_a_copy_has_what_was_computed_and_goes_its_own_way():
    one = Square(2)
    assert one.area == [4]
    other = copied(one)
    assert type(other) is Square
    assert other == one
    assert other.area is one.area
    other.__dict__["side"] = 3
    assert one.side == 2
