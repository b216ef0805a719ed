"""Blocks of arrays that are used again: never while somebody has a view of one."""

from __future__ import annotations

import gc
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tessel import memory
from tessel.memory import recycled

_ROWS = 20_000


def _address(values: Any) -> int:
    return int(values.ctypes.data)


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [0, 3, _ROWS, np.int64(_ROWS), (2, _ROWS), (_ROWS, 0), 1 << 21])
def test_arrays_are_as_numpy_makes_them(shape: Any, dtype: Any) -> None:
    for fill in (0, 1):
        found, wanted = recycled(shape, dtype, fill=fill), np.full(shape, fill, dtype)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert found.flags.writeable
        assert found.flags.c_contiguous
        assert np.array_equal(found, wanted)
    assert recycled(shape, dtype).shape == wanted.shape


def test_a_block_is_used_again_once_the_last_view_is_gone() -> None:
    first = recycled((2, _ROWS), np.int64, fill=7)
    place, view = _address(first), first[1][5:]
    del first
    assert _address(recycled((2, _ROWS), np.int64)) != place
    held = pa.array(view)
    values = memoryview(view)
    del view
    assert _address(recycled((2, _ROWS), np.int64)) != place
    assert held[0].as_py() == values[0] == 7
    del held, values
    gc.collect()
    assert _address(recycled((2, _ROWS), np.int64)) == place


def test_what_is_kept_is_bounded() -> None:
    free = memory._Lent.free
    for power in range(16, 24):
        held = [recycled(1 << power, np.uint8) for _ in range(100)]
        del held
        assert sum(len(each.block) for own in free.values() for each in own) <= 1 << 25
    assert all(len(own) == own.maxlen for own in free.values())


def test_an_interrupt_before_a_loan_has_its_block_is_survived() -> None:
    loan: Any = memory._Loan
    memory._Lent.free[16].append(loan(test_what_is_kept_is_bounded))
    assert (recycled(1 << 16, np.uint8, fill=7) == 7).all()


def test_no_interrupt_is_lost_where_an_array_ends() -> None:
    """Python ignores what ``__del__`` or a callback raises: none of ours may run there."""
    entered: list[str] = []
    held: Any = [recycled(_ROWS, np.int64) for _ in range(3)]

    def profile(frame: Any, event: str, found: Any) -> None:
        if event == "call":
            entered.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        held = None
    finally:
        sys.setprofile(None)
    assert held is None
    assert entered == []


def test_threads_share_no_block_at_a_time() -> None:
    def work(seed: int) -> bool:
        draw, held = random.Random(seed), []
        for _ in range(300):
            rows = draw.choice([9_000, 9_100, 40_000, 100_000])
            number = draw.getrandbits(40)
            held.append((number, recycled(rows, np.int64, fill=number)))
            if len(held) > 4:
                number, values = held.pop(draw.randrange(len(held)))
                if not (values == number).all():
                    return False
        return all((values == number).all() for number, values in held)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(8)))
