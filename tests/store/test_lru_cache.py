"""An LRU cache holds what was used last, also under threads."""

from __future__ import annotations

import random
import threading

from tessel.store.lru_cache import LruCache


def test_what_was_not_used_for_longest_is_evicted_first() -> None:
    cache: LruCache[int, str] = LruCache(2)
    cache.put(1, "one")
    cache.put(2, "two")
    assert cache.get(1) == "one"
    cache.put(3, "three")
    assert (cache.get(1), cache.get(2), cache.get(3), len(cache)) == ("one", None, "three", 2)


def test_what_is_not_there_is_made() -> None:
    made: list[int] = []
    cache: LruCache[int, int] = LruCache(2)

    def get(key: int) -> int:
        return cache.get_or_make(key, lambda: made.append(key) or -key)  # type: ignore[func-returns-value]

    assert [get(key) for key in (1, 2, 1, 2, 3, 3, 1)] == [-1, -2, -1, -2, -3, -3, -1]
    assert made == [1, 2, 3, 1]


def test_threads_never_get_another_value() -> None:
    cache: LruCache[int, int] = LruCache(8)
    failures: list[object] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(20_000):
                key = rng.randrange(16)
                found = cache.get(key)
                if found is None:
                    cache.put(key, key * 10)
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
    assert len(cache) <= 8
