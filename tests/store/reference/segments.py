"""Random columns of every type that segments hold, of every shape that an encoding looks for.

For property tests of anything that writes or reads segments. A column is made by numpy from a few
drawn choices, so one of 65,537 rows is drawn as quickly as one of three, and shrinks::

    @given(column=segment_types().flatmap(lambda kind: segment_columns(kind, 65_537)))
    def test_mine(column):
        assert plain_values(written_and_read(column)) == plain_values(column)
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat
from hypothesis import strategies as st

from tests.store.reference.value_shapes import SHAPES, Words, float_words
from tests.strategies.tables import PLAIN_TYPES

__all__ = [
    "LEAF_TYPES",
    "PAGE_EDGE_SIZES",
    "plain_values",
    "row_indices",
    "row_masks",
    "row_ranges",
    "segment_columns",
    "segment_sizes",
    "segment_tables",
    "segment_types",
]

PAGE_EDGE_SIZES = (0, 1, 65_535, 65_536, 65_537)
"""Row counts where a page is absent, full, or one row short or long."""

_MORE_TYPES: tuple[pa.DataType, ...] = (
    pa.timestamp("ms"),
    pa.timestamp("ns", "Asia/Kolkata"),
    pa.time32("s"),
    pa.time64("us"),
    pa.duration("s"),
    pa.duration("ns"),
    pa.decimal128(18, 6),
    pa.binary(16),
)
LEAF_TYPES: tuple[pa.DataType, ...] = PLAIN_TYPES + _MORE_TYPES
"""Stored types without children, at least one of each kind."""

_DICTIONARY_VALUES = (
    pa.string(),
    pa.binary(),
    pa.binary(2),
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.timestamp("ns", "UTC"),
    pa.decimal128(20, 3),
)
_CODE_TYPES = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())


# --- types and sizes ------------------------------------------------------------------------------


def _dictionaries(codes: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.builds(
        lambda code, value, ordered: pa.dictionary(code, value, ordered=ordered),
        codes,
        st.sampled_from(_DICTIONARY_VALUES),
        st.booleans(),
    )


def segment_types(*, nested: bool = True) -> st.SearchStrategy[pa.DataType]:
    """Draw a stored type: a leaf, a dictionary, or (unless not ``nested``) a tree of them."""
    leaves = st.sampled_from(LEAF_TYPES)
    flat = leaves | _dictionaries(st.just(pa.int32()))
    if not nested:
        return flat
    trees = st.recursive(
        leaves | _dictionaries(st.sampled_from(_CODE_TYPES)),
        lambda inner: (
            inner.map(pa.list_)
            | st.builds(pa.list_, inner, st.integers(1, 3))
            | st.lists(inner, max_size=3).map(
                lambda kinds: pa.struct([(f"f{at}", kind) for at, kind in enumerate(kinds)])
            )
        ),
        max_leaves=4,
    ).filter(lambda kind: not pat.is_dictionary(kind))
    return flat | trees


def segment_sizes(*, largest: int = 300) -> st.SearchStrategy[int]:
    """Draw a small number of rows; ``PAGE_EDGE_SIZES`` are for tests that name them."""
    return st.sampled_from([0, 1, 2, 7, 8, 9, 63, 64, 65]) | st.integers(0, largest)


# --- arrays ---------------------------------------------------------------------------------------


@st.composite
def segment_columns(draw: st.DrawFn, kind: pa.DataType, rows: int) -> pa.Array:
    """Draw a column of a stored type: of some shape, with some pattern of missing values.

    What stands in null slots is arbitrary, and the array may be a slice of a longer one.
    """
    offset = draw(st.sampled_from([0, 0, 1, 9]))
    array = _array(draw, kind, rows + offset)
    return array.slice(offset)


@st.composite
def segment_tables(
    draw: st.DrawFn,
    rows: int,
    *,
    kinds: st.SearchStrategy[pa.DataType] | None = None,
    max_columns: int = 4,
) -> pa.Table:
    """Draw a table of ``rows`` rows with one column at least, named ``c0`` and so on."""
    types = draw(
        st.lists(segment_types() if kinds is None else kinds, min_size=1, max_size=max_columns)
    )
    arrays = [draw(segment_columns(kind, rows)) for kind in types]
    return pa.table(arrays, names=[f"c{at}" for at in range(len(arrays))])


def _array(draw: st.DrawFn, kind: pa.DataType, rows: int) -> pa.Array:
    if pat.is_null(kind):
        return pa.nulls(rows)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bitmap = _validity(draw, rng, rows)
    if pat.is_struct(kind):
        children = [_array(draw, field.type, rows) for field in kind]
        return pa.Array.from_buffers(kind, rows, [bitmap], children=children)
    if pat.is_fixed_size_list(kind):
        items = _array(draw, kind.value_type, rows * kind.list_size)
        return pa.Array.from_buffers(kind, rows, [bitmap], children=[items])
    if pat.is_list(kind):
        lengths = rng.integers(0, draw(st.sampled_from([1, 2, 4])), rows)
        if rows and draw(st.booleans()):
            lengths[int(rng.integers(rows))] += draw(st.sampled_from([1, 20, 300]))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        items = _array(draw, kind.value_type, int(offsets[-1]))
        buffers = [bitmap, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, rows, buffers, children=[items])
    if pat.is_dictionary(kind):
        return _dictionary(draw, rng, kind, rows, bitmap)
    return _leaf(draw, rng, kind, rows, bitmap)


def _validity(draw: st.DrawFn, rng: np.random.Generator, rows: int) -> pa.Buffer | None:
    pattern = draw(st.sampled_from(["none", "none", "some", "most", "one", "tail", "all"]))
    if pattern == "none":
        return None
    present = np.ones(rows, np.bool_)
    if pattern == "all":
        present[:] = False
    elif pattern == "tail":
        present[rows // 2 :] = False
    elif pattern == "one" and rows:
        present[int(rng.integers(rows))] = False
    elif pattern in ("some", "most"):
        present = rng.random(rows) < (0.9 if pattern == "some" else 0.1)
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def _dictionary(
    draw: st.DrawFn, rng: np.random.Generator, kind: pa.DataType, rows: int, bitmap: pa.Buffer
) -> pa.Array:
    most = min(rows, np.iinfo(kind.index_type.to_pandas_dtype()).max)
    wanted = draw(st.sampled_from([1, 5, 200, 70_000]))
    values = _leaf(draw, rng, kind.value_type, min(wanted, most) if rows else 0, None)
    values = values.unique()
    words = SHAPES[draw(st.sampled_from(sorted(SHAPES)))](rng, rows)
    codes = (words % np.uint64(max(len(values), 1))).astype(kind.index_type.to_pandas_dtype())
    indices = pa.Array.from_buffers(kind.index_type, rows, [bitmap, pa.py_buffer(codes)])
    return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)


def _leaf(
    draw: st.DrawFn,
    rng: np.random.Generator,
    kind: pa.DataType,
    rows: int,
    bitmap: pa.Buffer | None,
) -> pa.Array:
    shape = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]
    if pat.is_string(kind) or pat.is_binary(kind) or pat.is_fixed_size_binary(kind):
        made = _bytes(draw, rng, kind, shape(rng, rows))
        return pa.Array.from_buffers(kind, rows, [bitmap, *made.buffers()[1:]])
    if pat.is_floating(kind):
        style = draw(st.sampled_from(["decimal", "mixed", "special", "bits"]))
        words = float_words(rng, rows, style, shape)
        if kind.bit_width == 32 and style != "bits":
            with np.errstate(over="ignore", invalid="ignore"):
                words = words.view(np.float64).astype(np.float32).view(np.uint32).astype(np.uint64)
        return _fixed_width(kind, rows, bitmap, words)
    words = shape(rng, rows)
    if pat.is_boolean(kind):
        bits = np.packbits((words & np.uint64(1)).astype(np.bool_), bitorder="little")
        return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(bits)])
    if pat.is_decimal(kind):
        return _decimals(draw, kind, rows, bitmap, words)
    return _fixed_width(kind, rows, bitmap, _within(kind, words))


def _within(kind: pa.DataType, words: Words) -> Words:
    """Bring words into the range where the type has values."""
    if pat.is_date64(kind):
        days = (words % np.uint64(1 << 20)).astype(np.int64) - (1 << 19)
        return (days * 86_400_000).view(np.uint64)
    if pat.is_time(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return words % np.uint64(86_400 * per_second)
    return words


def _fixed_width(kind: pa.DataType, rows: int, bitmap: pa.Buffer | None, words: Words) -> pa.Array:
    data = words.astype(f"<u{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(data)])


def _decimals(
    draw: st.DrawFn, kind: pa.DataType, rows: int, bitmap: pa.Buffer | None, words: Words
) -> pa.Array:
    wide = kind.precision > 18 and draw(st.booleans())
    limit = np.int64(10 ** min(kind.precision, 18) - 1)
    low = words.view(np.int64) % limit
    if draw(st.booleans()):
        low = -low
    high = low >> 63
    if wide:  # past 64 bits: any low word, and a high word that the precision allows
        high = words.view(np.int64) % np.int64(10 ** (kind.precision - 19) // 2)
        low = words.view(np.int64)
    data = np.stack([low, high], axis=1)
    return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(np.ascontiguousarray(data))])


_WORDS = ("", "a", "é" * 40, "z" * 70, "\U0010ffff" * 3, "AAPL", "MSFT", "\0", "a\0", "naïve")


def _bytes(draw: st.DrawFn, rng: np.random.Generator, kind: pa.DataType, words: Words) -> pa.Array:
    if pat.is_fixed_size_binary(kind):
        width = kind.byte_width
        cells = np.zeros((len(words), width), np.uint8)
        raw = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), 8)
        cells[:, : min(width, 8)] = raw[:, : min(width, 8)]
        return pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(cells)])
    style = draw(st.sampled_from(["words", "numbers", "prefixed", "lengths", "high bytes"]))
    pool: list[Any] = {
        "words": lambda: list(_WORDS[: int(rng.integers(1, len(_WORDS) + 1))]),
        "numbers": lambda: [str(word) for word in words.tolist()] or [""],
        "prefixed": lambda: [f"order-{word:020d}" for word in words.tolist()] or [""],
        "lengths": lambda: ["x" * length for length in range(40)],
        "high bytes": lambda: ["\U0010ffff" * length for length in range(12)],
    }[style]()
    distinct = style not in ("numbers", "prefixed")
    places = words % np.uint64(len(pool)) if distinct else np.arange(len(words), dtype=np.uint64)
    made = pa.array(pool, pa.string()).take(pa.array(places))
    if pat.is_string(kind):
        return made
    if draw(st.booleans()):
        made = pa.array([b"\xff" * (len(text) % 80) for text in made.to_pylist()], pa.binary())
    return made.cast(pa.binary())


# --- what is asked of a column --------------------------------------------------------------------


def row_ranges(rows: int) -> st.SearchStrategy[tuple[int, int]]:
    """Draw a row range [start, end), empty ones and the edges of pages among them."""
    edges = sorted({0, rows, *(at for at in (1, 65_535, 65_536) if at <= rows), max(rows - 1, 0)})
    place = st.sampled_from(edges) | st.integers(0, rows)
    return st.tuples(place, place).map(lambda pair: (min(pair), max(pair)))


def row_indices(rows: int, *, most: int = 200) -> st.SearchStrategy[list[int]]:
    """Draw row numbers in any order, some repeated; none where there is no row."""
    if rows == 0:
        return st.just([])
    place = st.integers(0, rows - 1) | st.sampled_from([0, rows - 1])
    return st.lists(place, max_size=most)


def row_masks(rows: int) -> st.SearchStrategy[npt.NDArray[np.bool_]]:
    """Draw a filter: none, all, few or half of the rows, or one run of them."""

    def made(style: str, seed: int) -> npt.NDArray[np.bool_]:
        rng = np.random.default_rng(seed)
        share = {"none": 0.0, "all": 1.0, "few": 0.01, "half": 0.5, "run": 0.0}[style]
        mask = rng.random(rows) < share
        if style == "run" and rows:
            start = int(rng.integers(rows))
            mask[start : start + 1 + rows // 3] = True
        return mask

    styles = st.sampled_from(["none", "all", "few", "half", "run"])
    return st.builds(made, styles, st.integers(0, 2**32 - 1))


# --- comparing ------------------------------------------------------------------------------------


def plain_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as the reference decoder does, floats as their bits.

    Two columns of one type hold the same values exactly when these lists are equal.
    """
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in plain_values(chunk)]
    values = _unmasked(column)
    if column.null_count == 0:
        return values
    present = column.is_valid().to_pylist()
    return [value if there else None for value, there in zip(values, present, strict=True)]


def _unmasked(array: pa.Array) -> list[Any]:
    """Return the values of an array, any in null slots."""
    kind = array.type
    if pat.is_null(kind):
        return [None] * len(array)
    if pat.is_dictionary(kind):
        held = plain_values(array.dictionary)
        return [None if code is None else held[code] for code in array.indices.to_pylist()]
    if pat.is_struct(kind):
        children = [plain_values(array.field(at)) for at in range(kind.num_fields)]
        return [tuple(child[row] for child in children) for row in range(len(array))]
    if pat.is_list(kind):
        bounds = array.offsets.to_pylist()
        items = plain_values(array.values) if len(array) else []
        return [items[start:end] for start, end in itertools.pairwise(bounds)]
    if pat.is_fixed_size_list(kind):
        size = kind.list_size
        items = plain_values(array.values.slice(array.offset * size, len(array) * size))
        return [items[at : at + size] for at in range(0, len(items), size)]
    if pat.is_decimal(kind):
        data = array.buffers()[1].to_pybytes()[16 * array.offset :] if len(array) else b""
        places = range(0, 16 * len(array), 16)
        return [int.from_bytes(data[at : at + 16], "little", signed=True) for at in places]
    if pat.is_string(kind):
        return array.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]
    if pat.is_floating(kind):
        return array.view(pa.uint32() if kind.bit_width == 32 else pa.uint64()).to_pylist()  # type: ignore[no-any-return]
    if pat.is_temporal(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()  # type: ignore[no-any-return]
    values: list[Any] = array.to_pylist()
    return values
