"""The list of encodings, and what all of them have in common."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from tessel.errors import InvalidInputError, NameNotFoundError
from tessel.store.encodings.base import PageEncoding
from tessel.store.encodings.codes import PAGE_RECORD, EncodingCode, ValueKind
from tessel.store.encodings.inner import INNER
from tessel.store.encodings.registry import ENCODINGS, encoding_by_code, encoding_by_name
from tessel.store.encodings.values import PhysicalValues
from tessel.store.encodings.variable import gather_spans, repeated, take_values
from tests.store.encodings.helpers import FIXED_KINDS, plain, text


def test_every_code_has_one_encoding_and_every_name_too() -> None:
    assert sorted(ENCODINGS) == sorted(EncodingCode)
    assert len({encoding.name for encoding in ENCODINGS.values()}) == len(ENCODINGS)
    for code, encoding in ENCODINGS.items():
        assert encoding_by_code(code) is encoding
        assert encoding_by_name(encoding.name) is encoding


def test_an_unknown_name_is_told_what_there_is() -> None:
    with pytest.raises(NameNotFoundError, match="linear"):
        encoding_by_name("liner")


@pytest.mark.parametrize("code", sorted(ENCODINGS))
def test_each_has_every_method_of_the_contract(code: int) -> None:
    encoding = ENCODINGS[code]
    for name, method in inspect.getmembers(PageEncoding, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(getattr(encoding, name)).parameters.keys() == (
                inspect.signature(method).parameters.keys() - {"self"}
            )


@pytest.mark.parametrize("code", sorted(ENCODINGS))
@pytest.mark.parametrize("seed", range(20))
def test_sizes_of_any_records_are_no_nonsense(code: int, seed: int) -> None:
    """Records of random bytes: what is not refused needs bytes, and no more than 2**40."""
    raw = np.random.default_rng(seed).integers(0, 256, 500 * PAGE_RECORD.itemsize)
    records = raw.astype(np.uint8).view(PAGE_RECORD)
    if seed % 2:
        records["inner"] = seed % 10
        records["bit_width"] %= 66
        records["inner_width"] = 16
    records["encoding"] = code
    lengths = records["row_count"].astype(np.int64)
    for kind, width in (*FIXED_KINDS, (ValueKind.TEXT, 0), (ValueKind.NONE, 0)):
        sizes = ENCODINGS[code].slot_bytes(records, kind, width, lengths)
        assert sizes.shape == (500, 4)
        assert sizes.dtype == np.int64
        sound = sizes[sizes[:, 0] >= 0]
        assert (sound >= 0).all()
        assert (sound < 1 << 40).all()


def test_inner_encodings_are_encodings() -> None:
    assert set(INNER) < set(ENCODINGS)


def test_texts_are_gathered() -> None:
    values = text([b"ab", b"", b"cde", b"f" * 100], skip=2)
    for count in (0, 5, 300):
        rows = np.random.default_rng(count).integers(0, 4, count)
        found = take_values(values, rows)
        assert plain(found) == [plain(values)[row] for row in rows.tolist()]


def test_more_text_than_offsets_reach_is_refused() -> None:
    data = np.zeros(1 << 20, np.uint8)
    many = np.zeros(2048, np.int64)
    with pytest.raises(InvalidInputError, match="2 GiB"):
        gather_spans(data, many, many + len(data))
    with pytest.raises(InvalidInputError, match="2 GiB"):
        repeated(data, 2048)
    offsets = np.array([0, len(data)], np.int32)
    values = PhysicalValues(ValueKind.BINARY, 0, 1, data, offsets)
    with pytest.raises(InvalidInputError, match="2 GiB"):
        take_values(values, many)
