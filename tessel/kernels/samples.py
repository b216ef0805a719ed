"""A sample of each room: calls that have all of its machine code made, or loaded, and check it.

A room that is new has a sample in one of the two modules beside this one. It calls the room as
clauses do, with arrays of each kind that they hand over, so that no query meets a kernel that has
yet to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tessel.kernels.coded_samples import CODED_SAMPLES, WITHOUT_TWIN
from tessel.kernels.jit import using_compiled
from tessel.kernels.stored_samples import STORED_SAMPLES

__all__ = ["ROOMS", "agrees"]


def agrees(room: str) -> bool:
    """Run the sample of a room compiled, and return whether its answer is the right one.

    That is the numpy twin's; rooms that have none here know it themselves.
    """
    sample = ROOMS[room]
    with np.errstate(over="ignore"):
        with using_compiled(True):
            found = sample()
        with using_compiled(False):
            wanted = WITHOUT_TWIN[room]() if room in WITHOUT_TWIN else sample()
    is_same: bool = _plain(found) == _plain(wanted)
    return is_same


def _plain(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        return found.tolist()
    if isinstance(found, Mapping):
        return {key: _plain(each) for key, each in found.items()}
    return [_plain(each) for each in found] if isinstance(found, Sequence) else found


ROOMS: dict[str, Callable[[], Any]] = {**CODED_SAMPLES, **STORED_SAMPLES}
"""By room, what calls all of its kernels, and gives what they answered."""
