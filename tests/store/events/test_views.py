"""A question sees all of an insert, a collection or a drop, or nothing: at every line of either."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tessel
from tessel.errors import ColumnNotFoundError, InvalidInputError, NameNotFoundError
from tessel.store.events import Cell, LiveStore, Row, Table, id_bytes

FOLDER = str(Path(tessel.__file__).parent / "store" / "events")


def rows(start: int) -> list[Row]:
    """Events of one entity in three shapes, and one of another; the first clears."""

    def row(number: int, entity: str, *names: str) -> Row:
        cells = [Cell.from_values(name, [float(start)]) for name in names]
        return Row(id_bytes(1, start + number), entity, {"f": start + number}, cells=cells)

    clear = Row.clear(id_bytes(1, start), "a", {"f": start})
    return [clear, row(1, "a", "x"), row(2, "a", "y"), row(3, "a", "x", "z"), row(4, "b", "x")]


def grown() -> LiveStore:
    live = LiveStore()
    for start in (0, 10, 20):
        live.insert(Table.from_rows(rows(start)))
    return live


CHANGES: dict[str, Callable[[LiveStore], object]] = {
    "insert": lambda live: live.insert(Table.from_rows(rows(30))),
    "collect": lambda live: live.collect(fraction=0.6),
    "collect to bytes": lambda live: live.collect(keep_bytes=live.nbytes // 2),
    "drop": lambda live: live.drop_range("f", 12, 23),
    "compact": lambda live: live.compact(),
}
QUESTIONS: dict[str, Callable[[LiveStore], object]] = {
    "state": lambda live: {
        name: found.event_id for name, found in live.latest_at("f", 99, "a").items()
    },
    "range": lambda live: live.range("f", 0, 99, "a").to_pydict(),
    "table": lambda live: live.table("f", "a", fill="latest_at").to_pydict(),
    "many": lambda live: live.latest_at_many("f", [5, 25, 99], "a", "x").to_pydict(),
    "contents": lambda live: live.contents().to_pydict(),
    "count": len,
    "batches": lambda live: sorted(
        tuple(pair) for b in live.batches() for pair in b.chunk.ids(range(len(b))).tolist()
    ),
}


def at_lines(run: Callable[[], object], meet: Callable[[int], None]) -> int:
    """Run something, and call ``meet`` before each line of it in the package of events."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        if event == "line":
            meet(count)
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_question_at_any_line_of_a_change_sees_all_of_it_or_nothing(change, question):
    live, ask = grown(), QUESTIONS[question]
    answers = [ask(live)]

    def meet(at: int) -> None:
        if at % 3 == 0 or change == "insert":
            found = ask(live)
            if found != answers[-1]:
                answers.append(found)

    assert at_lines(lambda: CHANGES[change](live), meet) > 30
    if ask(live) != answers[-1]:
        answers.append(ask(live))
    assert len(answers) <= 2


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_at_whose_any_line_a_change_happens_keeps_its_view(question):
    ask = QUESTIONS[question]
    live = grown()
    lines = at_lines(lambda: ask(live), lambda _: None)
    for change in ("insert", "drop"):
        for line in range(0, lines, max(1, lines // 40)):
            live = grown()
            before, found = ask(live), []

            def meet(at: int, live: LiveStore = live, line: int = line, how: str = change) -> None:
                if at == line:
                    CHANGES[how](live)

            at_lines(lambda live=live, found=found: found.append(ask(live)), meet)
            assert found[0] in (before, ask(live)), (change, line)


# --- names that are not known ---------------------------------------------------------------------


def timeless() -> LiveStore:
    live = LiveStore()
    cell = Cell.from_values("size", [2.0])
    live.insert(Row(id_bytes(1, 1), "robot/arm", cells=[cell]))
    return live


def test_a_store_of_timeless_data_alone_is_asked_like_any_other():
    live = timeless()
    assert live.latest_at("frame", 5, "robot/arm")["size"].cell.to_list() == [2.0]
    many = live.latest_at_many("frame", [1, 2], "robot/arm", "size")
    assert many.select(["frame", "size"]).to_pydict() == {"frame": [1, 2], "size": [[2.0], [2.0]]}
    filled = live.table("frame", "robot/arm", at=[3], fill="latest_at")
    assert filled.to_pydict() == {"frame": [3], "size": [[2.0]]}
    assert live.table("frame", "robot/arm").num_rows == 0
    assert live.range("frame", 0, 9, "robot/arm").num_rows == 0
    found = live.range("frame", 0, 9, "robot/arm", include_timeless=True, event_times=True)
    assert found.select(["frame", "size"]).to_pydict() == {"frame": [None], "size": [[2.0]]}
    live.insert(Row(id_bytes(1, 2), "robot/arm", {"frame": 3}, cells=[Cell.from_values("n", [1])]))
    found = live.range("frame", 0, 9, "robot/arm", include_timeless=True)
    assert found.column("frame").to_pylist() == [None, 3]


def test_what_nobody_has_used_answers_empty_and_says_what_is_near():
    live = timeless()
    assert live.latest_at("frame", 1, "robot/amr") == {}
    assert "did you mean 'robot/arm'?" in repr(live.latest_at("frame", 1, "robot/amr"))
    assert "did you mean 'size'?" in repr(live.latest_at("frame", 1, "robot/arm", ["siz"]))
    for table in (
        live.range("frame", 0, 9, "robot/arm", ["siz"]),
        live.table("frame", "robot/arm", ["siz"], at=[1], fill="latest_at", event_times=True),
        live.latest_at_many("frame", [1], "robot/arm", "siz", convert={"siz": "degrees"}),
    ):
        assert b"did you mean 'size'?" in table.schema.metadata[b"tessel.unknown"]
        assert set(table.column("siz").to_pylist()) <= {None}
    assert live.components("robot/amr") == []
    assert repr(live.latest_at("frame", 1, "robot/amr", []))
    known = live.latest_at("frame", 1, "robot/arm")
    assert "no timeline 'frame'" in repr(known)
    with pytest.raises(NameNotFoundError, match="no timeline 'frame'"):
        live.latest_at("frame", 1, "robot/arm", strict=True)
    live.insert(Row(id_bytes(1, 2), "b", {"frame": 3}, cells=[Cell.from_values("n", [1])]))
    with pytest.raises(NameNotFoundError, match="no entity 'robot/amr'"):
        live.range("frame", 1, 2, "robot/amr", strict=True)
    with pytest.raises(ColumnNotFoundError, match="'siz'"):
        live.table("frame", "robot/arm", ["siz"], strict=True)
    assert live.latest_at("frame", 1, "robot/arm", strict=True)
    with pytest.raises(NameNotFoundError, match="frames"):
        live.drop_after("frames", 1)


def test_ends_that_are_exchanged_are_an_error_and_equal_ones_are_not():
    live = grown()
    for ask in (live.drop_range, lambda *ends: live.range(*ends, "a")):
        with pytest.raises(InvalidInputError, match="ends before it begins"):
            ask("f", 9, 8)
    assert live.range("f", 11, 11, "a").num_rows == 1
    assert live.drop_after("f", 2**63 - 1) == 0


def test_timeless_events_that_others_overwrote_are_collected_whatever_the_target():
    live = LiveStore()
    for number in range(1000):
        cell = Cell.from_values("size", [float(number)])
        live.insert(Row(id_bytes(1, number), "a", cells=[cell]))
    before = live.nbytes
    done = live.collect(before=id_bytes(0, 1))
    assert done.events == 999
    assert len(live) == 1
    assert live.nbytes < before / 100
    assert live.latest_at("f", 0, "a")["size"].cell.to_list() == [999.0]
    live.check()
