"""What is kept is what was used last, also under threads."""

from __future__ import annotations

import random
import threading

from tessel.store.kept import Kept


def test_what_was_not_used_for_longest_goes_first() -> None:
    kept: Kept[int, str] = Kept(2)
    kept.keep(1, "one")
    kept.keep(2, "two")
    assert kept.get(1) == "one"
    kept.keep(3, "three")
    assert (kept.get(1), kept.get(2), kept.get(3), len(kept)) == ("one", None, "three", 2)


def test_what_is_not_there_is_made() -> None:
    made: list[int] = []
    kept: Kept[int, int] = Kept(2)

    def get(key: int) -> int:
        return kept.made(key, lambda: made.append(key) or -key)  # type: ignore[func-returns-value]

    assert [get(key) for key in (1, 2, 1, 2, 3, 3, 1)] == [-1, -2, -1, -2, -3, -3, -1]
    assert made == [1, 2, 3, 1]


def test_threads_never_get_another_value() -> None:
    kept: Kept[int, int] = Kept(8)
    failures: list[object] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(20_000):
                key = rng.randrange(16)
                found = kept.get(key)
                if found is None:
                    kept.keep(key, key * 10)
                elif found != key * 10:
                    failures.append((key, found))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(kept) <= 8
