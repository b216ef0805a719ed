"""A live store against a list of all events, over random histories."""

from __future__ import annotations

import pytest

from tests.store.events.histories import History


def run(seed: int, steps: int) -> None:
    history = History(seed)
    done = []
    try:
        for _ in range(steps):
            done.append(history.step())
            history.compare()
    except AssertionError as error:
        raise AssertionError(f"history {seed} after {done}: {error}") from error
    assert history.compared > steps, "states that are there were compared"


@pytest.mark.parametrize("seed", range(20))
def test_histories(seed):
    run(seed, 10)


@pytest.mark.slow
def test_thousands_of_histories():
    for seed in range(1000, 4000):
        run(seed, 25)
