"""The stream of events: who gets them, what they hold, and that it never fails a query."""

from __future__ import annotations

import logging
import threading

import pytest

from tessel.telemetry import Event, emit, follow, span, subscribe


def test_every_subscriber_gets_every_event_while_its_block_runs():
    outer: list[Event] = []
    inner: list[Event] = []
    emit("before")
    with subscribe(outer.append):
        emit("one", rows=3)
        with subscribe(inner.append):
            emit("two")
        emit("three")
    emit("after")
    assert [event.name for event in outer] == ["one", "two", "three"]
    assert [event.name for event in inner] == ["two"]
    assert outer[0].attributes == {"rows": 3}
    assert outer[0].duration_ns == 0
    assert outer[0].thread == threading.get_ident()
    assert outer[0].at_ns <= outer[1].at_ns <= outer[2].at_ns
    assert outer[1] is inner[0]


def test_one_subscriber_twice_hears_twice_and_leaves_once_a_block():
    seen: list[Event] = []
    hear = seen.append
    with subscribe(hear):
        with subscribe(hear):
            emit("twice")
        emit("once")
    emit("never")
    assert [event.name for event in seen] == ["twice", "twice", "once"]


def test_subscribing_ends_with_an_error():
    seen: list[Event] = []
    with pytest.raises(ZeroDivisionError), subscribe(seen.append):
        raise ZeroDivisionError
    emit("after")
    assert seen == []


def test_a_span_holds_its_time_and_what_was_learnt_inside():
    seen: list[Event] = []
    with subscribe(seen.append), span("outer", unit=1) as facts:
        with span("inner"):
            pass
        facts["rows"] = 5
    inner, outer = seen
    assert (outer.name, outer.attributes) == ("outer", {"unit": 1, "rows": 5})
    assert outer.duration_ns >= inner.duration_ns >= 0
    assert outer.at_ns - outer.duration_ns <= inner.at_ns - inner.duration_ns


def test_a_span_that_fails_is_told_and_the_error_goes_on():
    seen: list[Event] = []
    with subscribe(seen.append), pytest.raises(ZeroDivisionError), span("broken"):
        raise ZeroDivisionError
    assert [event.name for event in seen] == ["broken"]


def test_without_subscribers_a_span_still_gives_its_dictionary():
    with span("quiet", unit=1) as facts:
        facts["rows"] = 5
    assert facts == {"unit": 1, "rows": 5}


def test_a_subscriber_that_raises_is_logged_and_dropped_and_others_go_on(caplog):
    seen: list[Event] = []
    calls: list[Event] = []

    def broken(event: Event) -> None:
        calls.append(event)
        raise ValueError("no")

    with caplog.at_level(logging.ERROR, "tessel"), subscribe(broken), subscribe(seen.append):
        emit("one")
        emit("two")
    assert [event.name for event in calls] == ["one"]
    assert [event.name for event in seen] == ["one", "two"]
    (record,) = caplog.records
    assert "dropped" in record.message
    assert record.exc_info is not None


def test_who_sums_numbers_gets_events_as_they_came(caplog):
    raw: list[Event] = []
    shown: list[Event] = []
    calls: list[Event] = []

    def broken(event: Event) -> None:
        calls.append(event)
        raise ValueError("no")

    address = "s3://bucket?secret_access_key=hidden"
    with caplog.at_level(logging.ERROR, "tessel"), follow(broken, as_it_came=True):
        with follow(raw.append, as_it_came=True), follow(shown.append):
            emit("one", rows=lambda: 3, uri=address)
            emit("two")
        emit("three")
    assert [event.name for event in raw] == [event.name for event in shown] == ["one", "two"]
    assert raw[0].attributes["rows"]() == shown[0].attributes["rows"] == 3
    assert raw[0].attributes["uri"] == address
    assert "hidden" not in shown[0].attributes["uri"]
    assert [event.name for event in calls] == ["one"]


def test_events_of_many_threads_all_arrive_with_their_thread():
    seen: list[Event] = []

    def work() -> None:
        for _ in range(200):
            emit("tick")

    with subscribe(seen.append):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 800
    assert {event.thread for event in seen} == {thread.ident for thread in threads}
