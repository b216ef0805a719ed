from __future__ import annotations

from collections.abc import Iterator

import pytest

from tessel import errors
from tessel.cli import exit_codes
from tessel.cli.exit_codes import exit_code
from tessel.errors import TesselError


def _tree(cls: type[TesselError]) -> Iterator[type[TesselError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _tree(child)


@pytest.mark.parametrize("cls", list(_tree(TesselError)), ids=lambda cls: cls.kind)
def test_every_error_has_a_documented_code(cls: type[TesselError]) -> None:
    code = exit_code(cls("x"))
    assert f"\n{code:<5}" in (exit_codes.__doc__ or "")
    assert code not in (0, 2, exit_codes.ANSWERS_DIFFER)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ColumnNotFoundError("x"), 3),
        (errors.StoreNotFoundError("x"), 3),
        (errors.UnsortedIndexError("x"), 4),
        (errors.ExpressionSyntaxError("x"), 4),
        (errors.CorruptSegmentError("x"), 5),
        (errors.ReadOnlyStoreError("x"), 5),
        (errors.ClauseFailedError("x"), 6),
        (errors.IntegerOverflowError("x"), 6),
        (errors.MissingDependencyError("x"), 7),
        (errors.JavaNotFoundError("x"), 8),
        (TesselError("x"), 1),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_code(error: BaseException, code: int) -> None:
    assert exit_code(error) == code
