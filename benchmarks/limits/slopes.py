"""How the cost of something grows with its size: two ways to count it, and the slope.

Processor time is what people pay; it is noisy, and small at small sizes. Calls of functions are
counted exactly, on sizes that take milliseconds: what is quadratic in calls is seen there first.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tessel.clauses.spill.file import give_back

__all__ = ["Case", "Measured", "calls", "calls_slope", "measured", "slope"]

Work = Callable[[], object]

_ENOUGH_SECONDS = 0.15
_TOO_LONG_SECONDS = 1.0
"""No size is doubled past this."""
_AGAIN = 3
_DOUBLINGS = 2
"""The slope is taken over so many last doublings: constants hide it at smaller sizes."""
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of mallopt(3)
_LEAST_SECONDS = 20e-3
"""Where the largest size takes less nobody waits, and page faults decide what a doubling adds.

Then the slope is that of calls, at smaller sizes; what C does in one call stays below this."""


@dataclass(frozen=True)
class Case:
    """Something whose cost may grow with a size, and no faster than it.

    Attributes
    ----------
    name
        What is done, and what is counted.
    make
        Prepares the work for a size; neither is used twice, since much is kept.
    start, most
        The smallest size and the largest.
    few
        The size that is doubled four times where calls are counted.
    """

    name: str
    make: Callable[[int], Work]
    start: int = 64
    most: int = 1 << 17
    few: int = 16


@dataclass(frozen=True)
class Measured:
    """Sizes, the seconds of processor time that each took, and the slope of the last ones.

    Attributes
    ----------
    sizes, seconds
        As they were measured.
    of_calls
        The slope of calls, where the time of the largest size is too short for one.
    """

    sizes: list[int]
    seconds: list[float]
    of_calls: float | None = None

    @property
    def slope(self) -> float:
        """The exponent with which the cost grows over the last doublings; 1 is linear."""
        return slope(self.sizes, self.seconds) if self.of_calls is None else self.of_calls

    def add(self, size: int, seconds: float) -> None:
        """Add a size and what it took."""
        self.sizes.append(size)
        self.seconds.append(seconds)


def slope(sizes: list[int], costs: list[float]) -> float:
    """Return the exponent between the last size and the one some doublings before it."""
    first = max(0, len(sizes) - 1 - _DOUBLINGS)
    if first == len(sizes) - 1:
        return 0.0
    grown = math.log(costs[-1] / max(costs[first], 1e-9))
    return grown / math.log(sizes[-1] / sizes[first])


@contextlib.contextmanager
def _freed_memory_kept() -> Iterator[None]:
    """Let the allocator keep what is freed, for as long as the block lasts; where it is glibc's.

    A block above its threshold is got from the system as fresh pages each time, whose faults take
    as long as the work on them, or longer: a step that looks like a slope.
    """
    try:
        option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        yield
        return
    option(_MMAP_MAX, 0)
    option(_TRIM_THRESHOLD, (1 << 31) - 1)
    try:
        yield
    finally:
        option(_MMAP_MAX, 1 << 16)
        option(_TRIM_THRESHOLD, 1 << 17)
        give_back()


def measured(case: Case, allowed: float) -> Measured:
    """Double the size until it takes long enough, and measure the last sizes until it is sure.

    What the process holds already is frozen, so that collections before each run do not walk it.
    Noise only adds time: of several runs the least counts. Where the slope is above what is
    allowed, all sizes that decide it are run again and the next one is added, up to so many times:
    a step is left behind so, a steep slope stays.
    """
    with _freed_memory_kept():
        return _measured(case, allowed)


def _measured(case: Case, allowed: float) -> Measured:
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    doubled = _doubled(case)
    found = Measured([], [])
    for size in doubled:
        found.add(size, _seconds(case, size))
        if found.seconds[-1] > _ENOUGH_SECONDS and len(found.sizes) > _DOUBLINGS:
            break
    for _ in range(_AGAIN):
        if found.slope <= allowed or found.seconds[-1] < _LEAST_SECONDS:
            break
        for at in range(max(0, len(found.sizes) - 1 - _DOUBLINGS), len(found.sizes)):
            found.seconds[at] = min(found.seconds[at], _seconds(case, found.sizes[at]))
        if found.slope > allowed and found.seconds[-1] < _TOO_LONG_SECONDS:
            for size in itertools.islice(doubled, 1):
                found.add(size, _seconds(case, size))
    gc.unfreeze()
    if found.seconds[-1] < _LEAST_SECONDS:
        return Measured(found.sizes, found.seconds, max(0.0, calls_slope(case)))
    return found


def _doubled(case: Case) -> Iterator[int]:
    size = case.start
    while size <= case.most:
        yield size
        size *= 2


def _seconds(case: Case, size: int) -> float:
    best = math.inf
    for _ in range(2):
        best = min(best, _run(case.make(size)))
        if best > _ENOUGH_SECONDS:
            break
    return best


def _run(work: Work) -> float:
    """Return the seconds of processor time of one run, as ``timeit`` does without collections.

    A full collection walks all that the process holds, whatever the size: from some size on it is
    added as a step.
    """
    gc.collect()
    gc.disable()
    start = time.process_time()
    try:
        work()
        return time.process_time() - start
    finally:
        gc.enable()


def calls_slope(case: Case) -> float:
    """Return the exponent with which the number of calls grows, without clocks.

    Least squares fit a line to the logarithms of what each of four doublings adds. The difference
    of two sizes holds no constant cost, so a constant neither hides growth nor looks like it.
    """
    for once in (1, 17):  # imports, and what is made once a process, also for a larger size
        case.make(case.few * once)()
    counts = [calls(case.make(case.few * times)) for times in (1, 2, 4, 8, 16)]
    return fitted_slope([max(1, after - before) for before, after in itertools.pairwise(counts)])


def fitted_slope(costs: Sequence[float]) -> float:
    """Return the exponent that fits best the costs of sizes each of which is twice the one before.

    Raises
    ------
    ValueError
        For fewer than three costs: of two, one that is off decides.
    """
    if len(costs) < 3:
        raise ValueError(f"a slope is fitted to three costs or more, not to {len(costs)}")
    return statistics.linear_regression(range(len(costs)), list(map(math.log2, costs))).slope


def calls(work: Work) -> int:
    """Return how many functions are called, of Python and of C, in this thread."""
    count = 0

    def seen(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    gc.disable()  # what a collection calls depends on what ran before
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count
