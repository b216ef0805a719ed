"""The component types: values, order, and that they cannot be changed."""

from __future__ import annotations

import dataclasses

import pytest

from tessel.ecs import (
    ColRange,
    FetchCount,
    RowRange,
    SegmentKey,
    TimeRange,
)

COMPONENTS = [
    RowRange(3, 9),
    ColRange(0, 2),
    SegmentKey("pack", 4096, 100, 0xFFFF),
    TimeRange(-5, 5),
    FetchCount(2, 1),
]


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda c: type(c).__name__)
def test_components_are_values(component):
    names = type(component).__match_args__
    twin = type(component)(*[getattr(component, name) for name in names])
    assert twin == component
    assert hash(twin) == hash(component)
    assert not hasattr(component, "__dict__")
    is_named_tuple = isinstance(component, tuple)
    refused = AttributeError if is_named_tuple else dataclasses.FrozenInstanceError
    with pytest.raises(refused):
        setattr(component, names[0], 0)


def test_row_ranges_count_their_rows_and_sort_by_place():
    assert len(RowRange(3, 9)) == 6
    assert sorted([RowRange(4, 5), RowRange(0, 9), RowRange(0, 4)]) == [
        RowRange(0, 4),
        RowRange(0, 9),
        RowRange(4, 5),
    ]
    assert sorted([ColRange(2, 3), ColRange(0, 2)]) == [ColRange(0, 2), ColRange(2, 3)]
