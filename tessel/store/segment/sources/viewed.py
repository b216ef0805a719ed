"""What sources share that see whole objects: ranges checked all at once, then sliced.

The mapped and the memory source enter here.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tessel.arrays import different
from tessel.errors import TesselError
from tessel.store.objects.base import short_object
from tessel.store.segment.sources.base import ByteRanges, ReadAnswer

__all__ = ["answers_from_views"]

_EMPTY = pa.py_buffer(b"")


def answers_from_views(ranges: ByteRanges, view: Callable[[str], pa.Buffer]) -> list[ReadAnswer]:
    """Return the slice of an object for each range, an error where there is none.

    Parameters
    ----------
    ranges
        Untrusted.
    view
        Returns all bytes of an object.
    """
    views: list[pa.Buffer] = [_EMPTY] * len(ranges.names)
    errors: dict[int, TesselError] = {}
    for at in different(ranges.object).tolist() if len(ranges.names) > 1 else [0]:
        try:
            views[at] = view(ranges.names[at])
        except TesselError as error:
            errors[at] = error
    outside = ranges.outside([whole.size for whole in views])
    lengths = (ranges.end - ranges.start).tolist()
    starts, objects = ranges.start.tolist(), ranges.object.tolist()
    if not errors and not outside.any():
        if len(views) == 1:
            slice_of = views[0].slice
            return [slice_of(start, length) for start, length in zip(starts, lengths, strict=True)]
        return [
            views[at].slice(start, length)
            for at, start, length in zip(objects, starts, lengths, strict=True)
        ]
    answers: list[ReadAnswer] = []
    for at, start, length, wrong in zip(objects, starts, lengths, outside.tolist(), strict=True):
        if at in errors:
            answers.append(errors[at])
        elif wrong:
            name, size = ranges.names[at], views[at].size
            answers.append(short_object(name, start, length, size))
        else:
            answers.append(views[at].slice(start, length))
    return answers
