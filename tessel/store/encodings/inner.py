"""Integers inside another encoding: codes of a dictionary page, integers of a scaled page.

Such a page keeps its integers in slots 1 and 2 under the ``inner`` encoding of its record: an
:class:`~tessel.store.encodings.base.IntegerEncoding`; a new one joins :data:`INNER`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tessel.store.encodings.base import EncodedPage, IntegerEncoding, PageSummary, Profile
from tessel.store.encodings.codes import EncodingCode
from tessel.store.encodings.constant import Constant
from tessel.store.encodings.linear import Delta, Linear, RunEnd, least_delta_bytes
from tessel.store.encodings.values import Integers, Page

_STORES: Final[tuple[IntegerEncoding, ...]] = (Constant(), Linear(), Delta(), RunEnd())

INNER: Final[Mapping[int, IntegerEncoding]] = MappingProxyType(
    {int(store.code): store for store in _STORES}
)
"""What may be an inner encoding, by its code."""

_ADDRESSABLE: Final = frozenset({EncodingCode.CONSTANT, EncodingCode.LINEAR})

IS_ADDRESSABLE: Final = np.isin(np.arange(256), sorted(_ADDRESSABLE))
"""Whether one integer of an inner encoding is found by arithmetic; indexed by its code."""


def inner_of(page: Page) -> IntegerEncoding:
    """Return what holds the integers of a validated page."""
    return INNER[page.inner]


def _summarise(integers: npt.NDArray[Any]) -> PageSummary:
    """Return what the inner encodings want to know; at least one integer."""
    runs = 1 + int(np.count_nonzero(integers[1:] != integers[:-1]))
    return PageSummary(runs, int(integers.min()), int(integers.max()), integers.nbytes)


def best_estimate(
    integers: npt.NDArray[Any], summary: PageSummary, profile: Profile
) -> tuple[float, IntegerEncoding]:
    """Return the least cost in bytes, and the inner encoding that has it.

    What is not addressable costs more than its bytes, by the profile.
    """
    best: tuple[float, IntegerEncoding] | None = None
    for store in _STORES:
        if store.code == EncodingCode.DELTA and best is not None:
            least = least_delta_bytes(integers, profile) + profile.decode_penalty * len(integers)
            if least >= best[0]:
                continue
        size = store.integer_estimate(integers, summary, profile)
        if size is None:
            continue
        cost = float(size)
        if store.code not in _ADDRESSABLE:
            cost += profile.decode_penalty * len(integers)
        if best is None or cost < best[0]:
            best = cost, store
        if not cost:
            break
    if best is None:
        raise AssertionError("linear holds any integers")
    return best


def encode_inner(integers: npt.NDArray[Any], profile: Profile) -> EncodedPage:
    """Return integers in the inner encoding that takes the fewest bytes; at least one."""
    _, store = best_estimate(integers, _summarise(integers), profile)
    encoded = store.encode_integers(integers, profile)
    if encoded is None:
        raise AssertionError(f"{store.code.name} estimated integers that it does not hold")
    return encoded


def inner_bytes(records: npt.NDArray[np.void], lengths: Integers) -> Integers:
    """Return the bytes that slots 1 and 2 of records need; -1 for an illegal inner encoding."""
    codes = set(records["inner"].tolist())
    if len(codes) == 1 and codes <= INNER.keys():
        return INNER[codes.pop()].integer_bytes(records, lengths)
    sizes = np.full((len(records), 2), -1, np.int64)
    for code, store in INNER.items():
        chosen = records["inner"] == code
        if chosen.any():
            sizes[chosen] = store.integer_bytes(records[chosen], lengths[chosen])
    return sizes
