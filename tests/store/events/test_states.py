"""States at many times: those of one question after another, and what is refused."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from tessel.errors import ColumnNotFoundError, InvalidInputError, NameNotFoundError
from tessel.store.events import LiveStore, Recorder

NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def live() -> LiveStore:
    store = LiveStore()
    random = np.random.default_rng(5)
    with Recorder(store, max_rows=37) as recorder:
        for at in random.permutation(200).tolist():
            recorder.log(
                "a/b",
                {"x": float(at), "y": [at] * (at % 4)},
                frame=at // 2,
                t=NOON + dt.timedelta(0, at),
            )
            if at % 50 == 7:
                recorder.clear("a", recursive=True, frame=at // 2)
    return store


@pytest.mark.parametrize("dtype", [np.int64, np.int16, np.uint64, object])
def test_many_states_are_those_of_single_questions(live, dtype):
    times = np.random.default_rng(6).integers(0, 110, 300).astype(dtype)
    for component in ("x", "y"):
        table = live.latest_at_many("frame", times, "a/b", component)
        assert table.column_names == [
            "frame", component, f"{component}.frame", "event_id", "num_instances",
        ]  # fmt: skip
        for time, values, at, event_id, count in zip(
            *(column.to_pylist() for column in table.columns), strict=True
        ):
            found = live.latest_at("frame", time, "a/b").get(component)
            if found is None:
                assert (values, at, event_id, count) == (None, None, None, None)
            else:
                assert values == found.cell.to_list()
                assert (at, event_id, count) == (found.time, found.event_id, found.num_instances)


def test_times_are_of_the_kind_of_the_timeline(live):
    times = [NOON - dt.timedelta(1), np.datetime64("2024-01-01T12:00:03.5"), NOON]
    table = live.latest_at_many("t", times, "a/b", "x")
    assert table.column("x").to_pylist() == [None, [3.0], [0.0]]
    assert table.column("x.t").to_pylist() == [None, NOON + dt.timedelta(0, 3), NOON]
    assert live.latest_at_many("frame", [], "a/b", "x").num_rows == 0


def test_what_is_not_there_is_refused_by_name(live):
    with pytest.raises(NameNotFoundError, match="frames"):
        live.latest_at_many("frames", [1], "a/b", "x", strict=True)
    with pytest.raises(NameNotFoundError, match="a/c"):
        live.latest_at_many("frame", [1], "a/c", "x", strict=True)
    with pytest.raises(ColumnNotFoundError, match="'z'"):
        live.latest_at_many("frame", [1], "a/b", "z", strict=True)
    with pytest.raises(InvalidInputError, match="counts sequence"):
        live.latest_at_many("frame", [dt.timedelta(1)], "a/b", "x")
    with pytest.raises(InvalidInputError, match="past what 64 bits"):
        live.latest_at_many("frame", np.array([2**63], np.uint64), "a/b", "x")
    with pytest.raises(InvalidInputError, match="is no time"):
        live.latest_at_many("frame", np.array([1.5]), "a/b", "x")
