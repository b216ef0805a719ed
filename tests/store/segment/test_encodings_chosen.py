"""Which encoding data of a known kind gets, and what it then costs: read from the page records."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tessel.errors import InvalidInputError, NameNotFoundError
from tessel.store.encodings.base import COMPACT, FAST
from tessel.store.encodings.codes import Codec, EncodingCode
from tessel.store.segment.file_writer import WriteOptions
from tests.store.reference.decoder import ReferenceSegment, read_segment
from tests.store.segment.helpers import PROFILES, plain, scanned, with_ids, written

ROWS = 100_000
"""Two pages."""

AT = np.arange(ROWS)
RANDOM = np.random.default_rng(7)
NOTHING, ALL_MISSING, CONSTANT, FLAT, LINEAR, DELTA, SCALED, DICTIONARY, RUN_END, VARIABLE = (
    EncodingCode
)
SYMBOLS = pa.array(["AAPL", "MSFT", "GOOG", "AMZN", "TSLA"])


@dataclass(frozen=True)
class Case:
    """What is expected of all pages of a column.

    Attributes
    ----------
    id
        For test ids.
    make
        Makes the column.
    encoding, inner
        Of its pages.
    most_bytes
        Stored bytes of all its pages and its dictionary, in bytes a row.
    profile
        Name of a profile.
    """

    id: str
    make: Callable[[], pa.Array]
    encoding: EncodingCode
    most_bytes: float
    inner: EncodingCode | None = None
    profile: str = "fast"


def _every_minute() -> pa.Array:
    return pa.array(1_700_000_000_000_000_000 + 60_000_000_000 * AT, pa.timestamp("ns", "UTC"))


def _ticks() -> pa.Array:
    gaps = 10_000_000 + RANDOM.integers(0, 200, ROWS)
    return pa.array(1_700_000_000_000_000_000 + 10_000_100 * AT + gaps, pa.timestamp("ns"))


def _prices(digits: int = 2) -> np.ndarray[Any, Any]:
    return np.round(100 + np.cumsum(RANDOM.integers(-5, 6, ROWS)) / 100, digits)


def _prices_with_gaps() -> pa.Array:
    prices = _prices()
    prices[::1000] = np.nan
    return pa.array(prices, mask=AT % 997 == 0)


def _trade_times() -> pa.Array:
    """Instants about 2.3 ms apart, give or take 17 s: what is left of a mean step has 34 bits."""
    off = RANDOM.integers(0, 1 << 34, ROWS)
    return pa.array(1_700_000_000_000_000_000 + 2_340_000 * AT + off, pa.timestamp("ns"))


def _levels(bits: int) -> np.ndarray[Any, Any]:
    return RANDOM.integers(0, 1 << bits, ROWS) / 100


def _texts(distinct: int) -> pa.Array:
    return pa.array([f"key-{number:06}" for number in RANDOM.integers(0, distinct, ROWS).tolist()])


def _decimals() -> pa.Array:
    cents = RANDOM.integers(0, 10_000, ROWS)
    return pa.array([decimal.Decimal(int(n)).scaleb(-2) for n in cents], pa.decimal128(18, 2))


def _long_runs() -> pa.Array:
    return pa.array(RANDOM.integers(-(2**62), 2**62, 100).repeat(1000))


def _uneven() -> np.ndarray[Any, Any]:
    """Numbers that climb with steps of very different size, none twice in a row."""
    return np.cumsum(RANDOM.integers(1, 50, ROWS) * (1 + AT // 100))


CASES = (
    Case("regular timestamps", _every_minute, LINEAR, 0.0),
    Case("row numbers", lambda: pa.array(AT), LINEAR, 0.0),
    Case("dates backwards", lambda: pa.array((20_000 - AT).astype("i4"), pa.date32()), LINEAR, 0.0),
    Case("one integer", lambda: pa.array(np.full(ROWS, -7)), CONSTANT, 0.0),
    Case("one float", lambda: pa.array(np.full(ROWS, 0.1)), CONSTANT, 0.0),
    Case("one NaN", lambda: pa.array(np.full(ROWS, np.nan)), CONSTANT, 0.0),
    Case("one boolean", lambda: pa.array(np.full(ROWS, True)), CONSTANT, 0.0),
    Case("one text", lambda: pa.array(["some text"] * ROWS), DICTIONARY, 0.01, CONSTANT),
    Case(
        "one value, some missing", lambda: pa.array(np.ones(ROWS), mask=AT % 3 == 0), CONSTANT, 0.13
    ),
    Case("all missing", lambda: pa.nulls(ROWS, pa.float64()), ALL_MISSING, 0.0),
    Case("missing text", lambda: pa.nulls(ROWS, pa.string()), ALL_MISSING, 0.0),
    Case("null type", lambda: pa.nulls(ROWS), NOTHING, 0.0),
    Case("nearly regular timestamps", _ticks, LINEAR, 1.01),
    Case("small integers", lambda: pa.array(RANDOM.integers(0, 200, ROWS)), LINEAR, 1.01),
    Case(
        "integers around a base",
        lambda: pa.array(10**12 + RANDOM.integers(0, 60_000, ROWS)),
        LINEAR,
        2.01,
    ),
    Case("wide integers", lambda: pa.array(RANDOM.integers(-(2**62), 2**62, ROWS)), FLAT, 8.01),
    Case("prices", lambda: pa.array(_prices()), SCALED, 2.01, LINEAR),
    Case("float32 prices", lambda: pa.array(_prices(), pa.float32()), SCALED, 2.01, LINEAR),
    Case("prices with NaN and null", _prices_with_gaps, SCALED, 2.2, LINEAR),
    Case(
        "whole floats", lambda: pa.array(RANDOM.integers(0, 250, ROWS) * 1.0), SCALED, 1.01, LINEAR
    ),
    Case("any floats", lambda: pa.array(RANDOM.random(ROWS)), FLAT, 8.01),
    Case(
        "few odd floats", lambda: pa.array(np.sqrt(2.0 + AT * 7919 % 90)), DICTIONARY, 1.02, LINEAR
    ),
    Case(
        "symbols",
        lambda: SYMBOLS.take(pa.array(RANDOM.integers(0, 5, ROWS))),
        DICTIONARY,
        1.01,
        LINEAR,
    ),
    Case(
        "categories",
        lambda: SYMBOLS.take(pa.array(RANDOM.integers(0, 5, ROWS))).dictionary_encode(),
        DICTIONARY,
        1.01,
        LINEAR,
    ),
    Case(
        "sorted symbols", lambda: SYMBOLS.take(pa.array(AT * 5 // ROWS)), DICTIONARY, 1.01, LINEAR
    ),
    Case(
        "sorted symbols, compact",
        lambda: SYMBOLS.take(pa.array(AT * 5 // ROWS)),
        DICTIONARY,
        0.01,
        RUN_END,
        "compact",
    ),
    Case("texts that most of a sample has once", lambda: _texts(8_000), DICTIONARY, 3.3, LINEAR),
    Case("texts that occur a few times", lambda: _texts(90_000), VARIABLE, 14.01),
    Case("runs", _long_runs, DICTIONARY, 1.02, LINEAR),
    Case("runs, compact", _long_runs, DICTIONARY, 0.02, RUN_END, "compact"),
    Case(
        "runs of narrow integers, compact",
        lambda: pa.array((AT // 1000 * 7919 % 30_000).astype("i2")),
        RUN_END,
        0.02,
        profile="compact",
    ),
    Case(
        "ids",
        lambda: pa.array([f"order-{at * 7919 % ROWS:06d}" for at in AT.tolist()]),
        VARIABLE,
        12.1,
    ),
    Case(
        "fixed bytes",
        lambda: pa.array([at.to_bytes(6, "big") for at in AT.tolist()], pa.binary(6)),
        FLAT,
        6.01,
    ),
    Case("random booleans", lambda: pa.array(RANDOM.integers(0, 2, ROWS) == 1), FLAT, 0.13),
    Case("small decimals", _decimals, LINEAR, 2.01),
    Case("uneven steps", lambda: pa.array(_uneven()), DELTA, 2.2, profile="compact"),
    Case("uneven steps, fast", lambda: pa.array(_uneven()), LINEAR, 4.01),
    Case("irregular timestamps", _trade_times, LINEAR, 5.01),
    Case("prices of 18 bits", lambda: pa.array(_levels(18)), SCALED, 3.01, LINEAR),
    Case(
        "prices of 18 bits, compact", lambda: pa.array(_levels(18)), SCALED, 2.26, profile="compact"
    ),
    Case("integers of 12 bits", lambda: pa.array(RANDOM.integers(0, 1 << 12, ROWS)), LINEAR, 2.01),
    Case("integers of 42 bits", lambda: pa.array(RANDOM.integers(0, 1 << 42, ROWS)), LINEAR, 6.01),
)


def _segment(
    column: pa.Array, profile: str = "fast", encoding: str | None = None
) -> ReferenceSegment:
    table = with_ids(pa.table({"c": column}))
    forced = {} if encoding is None else {"7": encoding}
    stored = written(table, WriteOptions(PROFILES[profile], forced))
    assert plain(scanned(stored)) == plain(table)
    return read_segment(stored)


def _stored_bytes(segment: ReferenceSegment, node: int = 0) -> int:
    dictionary = segment.dictionaries[node]
    held = sum(page.length for page in segment.pages[node])
    return held + (dictionary.length if dictionary is not None else 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_encoding_chosen(case: Case) -> None:
    segment = _segment(case.make(), case.profile)
    assert [EncodingCode(page.encoding) for page in segment.pages[0]] == [case.encoding] * 2
    if case.inner is not None:
        assert [EncodingCode(page.inner) for page in segment.pages[0]] == [case.inner] * 2
    assert _stored_bytes(segment) <= case.most_bytes * ROWS + 64 * (len(segment.pages[0]) + 1) * (
        case.most_bytes > 0
    )


@pytest.mark.parametrize(
    ("make", "fast", "compact"),
    [(_trade_times, {40}, {34, 35}), (lambda: pa.array(_levels(18)), {24}, {18})],
    ids=["times", "prices"],
)
def test_the_fast_profile_packs_to_the_byte_and_compact_to_the_bit(
    make: Callable[[], pa.Array], fast: set[int], compact: set[int]
) -> None:
    # Without the codec, which would take words in place of packed integers.
    packed = WriteOptions(replace(COMPACT, codec=Codec.NONE))
    for options, widths in [(WriteOptions(FAST), fast), (packed, compact)]:
        stored = written(with_ids(pa.table({"c": make()})), options)
        assert {page.bit_width for page in read_segment(stored).pages[0]} <= widths


def test_lists_of_one_length_have_offsets_without_bytes() -> None:
    items = pa.array(AT[:30_000])
    offsets = pa.array(np.arange(0, 30_001, 3), pa.int32())
    segment = _segment(pa.ListArray.from_arrays(offsets, items))
    assert segment.pages[0][0].encoding == LINEAR
    assert _stored_bytes(segment, 0) == _stored_bytes(segment, 1) == 0


def test_structs_and_fixed_lists_have_no_bytes_of_their_own() -> None:
    points = pa.StructArray.from_arrays(
        [pa.array(AT), pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * ROWS)), 2)],
        names=["at", "pair"],
    )
    segment = _segment(points)
    assert [_stored_bytes(segment, node) for node in range(4)] == [0, 0, 0, 0]


def test_pages_are_chosen_one_by_one() -> None:
    values = np.concatenate([np.arange(65_536), RANDOM.integers(-(2**62), 2**62, 30_000)])
    segment = _segment(pa.array(values))
    assert [page.encoding for page in segment.pages[0]] == [LINEAR, FLAT]


def test_the_compact_profile_is_never_larger() -> None:
    for case in CASES:
        column = case.make()
        fast, compact = (_stored_bytes(_segment(column, name)) for name in ("fast", "compact"))
        assert compact <= fast + 64, case.id


def test_compact_text_goes_through_the_codec() -> None:
    column = pa.array([f"a sentence about order {at}, which is long" for at in range(20_000)])
    fast, compact = _segment(column), _segment(column, "compact")
    assert [page.codec for page in fast.pages[0]] == [Codec.NONE]
    assert [page.codec for page in compact.pages[0]] == [Codec.ZSTD]
    assert 4 * _stored_bytes(compact) < _stored_bytes(fast)


@pytest.mark.parametrize("name", ["flat", "linear", "delta", "run-end", "dictionary"])
def test_an_encoding_can_be_asked_for(name: str) -> None:
    segment = _segment(pa.array(AT * 7919 % 1000), encoding=name)
    codes = {"flat": FLAT, "linear": LINEAR, "delta": DELTA, "run-end": RUN_END}
    expected = codes.get(name, DICTIONARY)
    assert [page.encoding for page in segment.pages[0]] == [expected] * 2


def test_an_encoding_of_another_type_is_refused_with_those_that_fit() -> None:
    table = with_ids(pa.table({"c": pa.array(["a", "b"])}))
    with pytest.raises(InvalidInputError, match=r"cannot be encoded as 'scaled'") as caught:
        written(table, WriteOptions(encodings={"7": "scaled"}))
    assert "variable" in str(caught.value)
    with pytest.raises(NameNotFoundError, match="linaer"):
        written(table, WriteOptions(encodings={"7": "linaer"}))


def test_an_encoding_that_cannot_hold_a_page_gives_way() -> None:
    segment = _segment(pa.array(AT * 0.1 + 1e-9), encoding="constant")
    assert all(page.encoding != CONSTANT for page in segment.pages[0])
