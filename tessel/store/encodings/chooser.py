"""Which encoding a page gets: every applicable one says what it would cost, the cheapest encodes.

The file writer enters here. A column gets a dictionary or none (:func:`column_dictionary`), then
each of its pages the encoding that suits it (:func:`choose`). Numbers are judged by looking at the
whole page, dictionaries by looking at blocks of neighbouring rows from all over the column: a
sample of every n-th row would miss repetition that lies close together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, numpy_array
from tessel.errors import InvalidInputError
from tessel.expression.text_bytes import texts_of
from tessel.kernels.group_rows import group_texts, group_words
from tessel.kernels.word_numbers import expected_distinct
from tessel.store.encodings.base import (
    COMPACT,
    FAST,
    EncodedPage,
    PageEncoding,
    PageSummary,
    Profile,
)
from tessel.store.encodings.codes import BYTE_KINDS, NUMBER_KINDS, EncodingCode, ValueKind
from tessel.store.encodings.fields import FieldNode, PhysicalColumn, physical_values
from tessel.store.encodings.linear import least_delta_bytes
from tessel.store.encodings.registry import ENCODINGS, encoding_by_code, encoding_by_name
from tessel.store.encodings.values import INTEGER_ENCODINGS, PhysicalValues, native_dtype

Candidate = tuple[PageEncoding, PhysicalValues, PageSummary]

PROFILES: Final = {profile.name: profile for profile in (FAST, COMPACT)}
"""The profiles by name."""

_BLOCKS = 24
_BLOCK_ROWS = 256
_MOST_DISTINCT = 0.5
"""Above this fraction of distinct values in the sample, a dictionary of numbers is not tried."""
_MOST_DISTINCT_TEXTS = 0.98
"""Above this one, none is: so few repeat that they do not tell how many there are.

Of 6,144 values 123 repeat then, which tells the number of distinct ones within 9 % (one standard
deviation).
"""
_SPARE = 1.25
"""Values that are rare hide from a sample, and chance has its share."""

_LARGEST_DICTIONARY = 1 << 20
_IN_SEQUENCE = frozenset({EncodingCode.DELTA, EncodingCode.RUN_END})
"""A value of these is not found by arithmetic: the rest of its page is needed."""

_ROWS_OF_BYTES = frozenset({ValueKind.DECIMAL, ValueKind.FIXED})
_FOR_PRESENT: Final = tuple(
    code for code in EncodingCode if code not in (EncodingCode.NOTHING, EncodingCode.ALL_MISSING)
)


# --- one page -------------------------------------------------------------------------------------


def summarise_values(values: PhysicalValues, *, constant: bool | None = None) -> PageSummary:
    """Look at a page once, for all encodings.

    Parameters
    ----------
    constant
        Whether all values are the same, where the caller knows; only asked for kinds that are
        looked at through their bounds (text, binary, fixed bytes).
    """
    held = values.data if values.codes is None else values.codes
    total = values.length * values.width
    if values.offsets is not None:
        total = int(values.offsets[-1] - values.offsets[0])
    if values.codes is None and values.kind in BYTE_KINDS:
        return PageSummary(1 if constant else values.length, None, None, total)
    bits = held.view(f"<u{held.dtype.itemsize}") if held.dtype.kind == "f" else held
    changed = bits[1:] != bits[:-1]
    runs = 1 + int(np.count_nonzero(changed.any(axis=1) if changed.ndim == 2 else changed))
    if held.dtype.kind == "f" or held.ndim == 2:
        return PageSummary(runs, None, None, total)
    return PageSummary(runs, int(held.min()), int(held.max()), total)


def choose(
    values: PhysicalValues, summary: PageSummary, profile: Profile, forced: str | None = None
) -> EncodedPage:
    """Encode a page that has at least one value which is not null.

    Parameters
    ----------
    forced
        The name of an encoding that is used wherever it can hold the page.
    """
    candidates = _candidates(values, summary)
    if forced is not None:
        code = encoding_by_name(forced).code
        candidates.sort(key=lambda candidate: candidate[0].code != code)
        encoding, held, _ = candidates[0]
        encoded = encoding.encode(held, profile) if encoding.code == code else None
        if encoded is not None:
            return encoded
    for skipping in (True, False):
        for _, _, encoding, held in _by_cost(candidates, profile, skipping=skipping):
            encoded = encoding.encode(held, profile)
            if encoded is not None:
                return encoded
    raise AssertionError(f"no encoding holds values of {values.kind.name}")


def _by_cost(
    candidates: Sequence[Candidate], profile: Profile, *, skipping: bool
) -> list[tuple[float, int, PageEncoding, PhysicalValues]]:
    """Return what may hold a page, the cheapest first.

    ``skipping`` leaves out what costs more than another before a byte is stored, unseen. Where all
    others turn out not to hold the page, such a one may still.
    """
    weighed: list[tuple[float, bool, PageEncoding, PhysicalValues, PageSummary]] = []
    for encoding, held, known in candidates:
        penalty = profile.decode_penalty * held.length if encoding.code in _IN_SEQUENCE else 0.0
        # What takes many bytes as a rule stands behind what may make its estimate superfluous.
        weighed.append((penalty, encoding.code == EncodingCode.VARIABLE, encoding, held, known))
    costs: list[tuple[float, int, PageEncoding, PhysicalValues]] = []
    least = math.inf
    for penalty, writes_all, encoding, held, known in sorted(weighed, key=itemgetter(0, 1)):
        if skipping and penalty >= least:
            break
        if skipping and costs:  # some estimates look at the whole page
            floor = known.total_bytes if writes_all else 0
            if encoding.code == EncodingCode.DELTA:
                floor = least_delta_bytes(held.data, profile)
            if penalty + floor > least:
                continue
        size = encoding.estimate(held, known, profile)
        if size is not None:
            costs.append((size + penalty, encoding.code, encoding, held))
            least = min(least, size + penalty)
    return sorted(costs, key=itemgetter(0, 1))


def _candidates(values: PhysicalValues, summary: PageSummary) -> list[Candidate]:
    if values.codes is not None and not len(values.data):
        return [(encoding_by_code(EncodingCode.DICTIONARY), values, summary)]
    found: list[Candidate] = [
        (ENCODINGS[code], values, summary)
        for code in _FOR_PRESENT
        if values.kind in ENCODINGS[code].kinds
        and (code != EncodingCode.DICTIONARY or values.codes is not None)
    ]
    narrow = narrow_decimals(values) if values.kind == ValueKind.DECIMAL else None
    if narrow is not None:
        known = summarise_values(narrow)
        found += [(ENCODINGS[code], narrow, known) for code in sorted(INTEGER_ENCODINGS)]
    return found


def encode_as(values: PhysicalValues, code: EncodingCode, profile: Profile) -> EncodedPage | None:
    """Encode a page with one encoding, or return None where that cannot hold it."""
    if values.kind == ValueKind.DECIMAL and code in INTEGER_ENCODINGS:
        narrow = narrow_decimals(values)
        return None if narrow is None else ENCODINGS[code].encode(narrow, profile)
    if code in (EncodingCode.NOTHING, EncodingCode.ALL_MISSING):
        return None
    return ENCODINGS[code].encode(values, profile)


def narrow_decimals(values: PhysicalValues) -> PhysicalValues | None:
    """Return decimals as 64-bit integers where all of them fit, else None."""
    low, high = values.data[:, 0], values.data[:, 1]
    if not np.array_equal(high, low >> 63):
        return None
    return PhysicalValues(ValueKind.SIGNED, 8, values.length, np.ascontiguousarray(low))


def check_override(name: str, node: FieldNode) -> None:
    """Refuse an encoding that cannot hold values of a column.

    Raises NameNotFoundError for a name that is none; InvalidInputError for an encoding of other
    types; lists those that would do.
    """
    encoding_by_name(name)
    fitting = sorted(
        encoding.name
        for encoding in ENCODINGS.values()
        if encoding.code in _FOR_PRESENT and _holds(encoding, node)
    )
    if name not in fitting:
        raise InvalidInputError(
            f"column {node.path!r} ({node.type}) cannot be encoded as {name!r}",
            hint=f"encodings for it: {', '.join(fitting)}" if fitting else "its type has no choice",
            column=node.path,
            encoding=name,
        )


def _holds(encoding: PageEncoding, node: FieldNode) -> bool:
    if node.is_dictionary:
        return encoding.code == EncodingCode.DICTIONARY
    if node.kind == ValueKind.DECIMAL and ValueKind.SIGNED in encoding.kinds:
        return True
    return node.kind != ValueKind.NONE and node.kind in encoding.kinds


# --- one column -----------------------------------------------------------------------------------


def column_dictionary(
    column: PhysicalColumn, profile: Profile, forced: str | None = None
) -> tuple[npt.NDArray[Any], PhysicalValues] | None:
    """Return codes for all rows of a column and the values they stand for, where that saves bytes.

    Codes are unsigned, of the narrowest dtype that the dictionary needs; values stand in the order
    of their first row. Null rows have a code of some value.
    """
    values = column.values
    wanted = forced == "dictionary"
    if values.length == 0 or (forced is not None and not wanted):
        return None
    if not wanted and not _promising(values, profile):
        return None
    array = _arrow(values, column.validity)
    array = array.drop_null() if array.null_count else array
    if pa.types.is_integer(array.type):
        numbers, first = group_words(numpy_array(array).astype(np.int64))
    else:
        numbers, first = group_texts([texts_of(array)])
    if not len(first) or (not wanted and not _pays(values, len(first))):
        return None
    size = len(first)
    dtype = np.dtype(np.uint8 if size <= 1 << 8 else "<u2" if size <= 1 << 16 else "<u4")
    if column.validity is None:
        codes = numbers.astype(dtype)
    else:
        codes = np.zeros(values.length, dtype)
        codes[column.validity] = numbers
    return codes, _like(physical_values(array.take(arrow_array(first))), values)


def _promising(values: PhysicalValues, profile: Profile) -> bool:
    if values.kind not in BYTE_KINDS and (
        values.kind not in NUMBER_KINDS or values.width < 4 or _numbers_are_narrow(values, profile)
    ):
        return False
    distinct = rows = 0
    parts = []
    for start, stop in _sample(values.length):
        parts.append(_arrow(_part(values, start, stop), None))
        rows += stop - start
    distinct = int(pc.count_distinct(pa.chunked_array(parts), mode="all").as_py())
    if distinct <= rows * _MOST_DISTINCT:
        return True
    if values.kind not in BYTE_KINDS or distinct > rows * _MOST_DISTINCT_TEXTS:
        return False
    # A column may be so much longer than the sample that values repeat often all the same.
    expected = expected_distinct(rows, distinct, values.length)
    return _pays(values, math.ceil(expected * _SPARE))


def _numbers_are_narrow(values: PhysicalValues, profile: Profile) -> bool:
    """Whether another encoding already makes numbers about as small as codes would be."""
    start, stop = _sample(values.length)[0][0], _sample(values.length)[-1][1]
    part = _part(values, start, min(stop, start + (1 << 16)))
    summary = summarise_values(part)
    sizes = [
        ENCODINGS[code].estimate(part, summary, profile)
        for code in (EncodingCode.CONSTANT, EncodingCode.LINEAR, EncodingCode.SCALED)
        if values.kind in ENCODINGS[code].kinds
    ]
    return any(size is not None and size <= 3 * part.length for size in sizes)


def _pays(values: PhysicalValues, distinct: int) -> bool:
    if distinct > _LARGEST_DICTIONARY:
        return False
    total = values.length * values.width
    if values.offsets is not None:
        total = int(values.offsets[-1] - values.offsets[0]) + 4 * values.length
    code_bytes = 1 if distinct <= 1 << 8 else 2 if distinct <= 1 << 16 else 4
    mean = total / values.length
    return code_bytes * values.length + distinct * mean * 1.1 < 0.8 * total


def _sample(rows: int) -> list[tuple[int, int]]:
    """Return row ranges from all over the column; always the same for the same number of rows."""
    if rows <= _BLOCKS * _BLOCK_ROWS:
        return [(0, rows)]
    random = np.random.default_rng(rows)
    starts = np.sort(random.integers(0, rows - _BLOCK_ROWS, _BLOCKS))
    return [(int(start), int(start) + _BLOCK_ROWS) for start in starts]


def _part(values: PhysicalValues, start: int, stop: int) -> PhysicalValues:
    data, offsets = values.data, values.offsets
    if offsets is None:
        data = data[start:stop]
    else:
        offsets = offsets[start : stop + 1]
    return PhysicalValues(values.kind, values.width, stop - start, data, offsets)


def _arrow(values: PhysicalValues, validity: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Return values as bytes, or numbers as integers of the same bits: equal means equal bits."""
    bitmap = None
    if validity is not None:
        bitmap = pa.py_buffer(np.packbits(validity, bitorder="little"))
    nulls = 0 if bitmap is None else -1
    buffers: Sequence[pa.Buffer | None]
    if values.offsets is not None:
        type_, held = pa.binary(), [values.offsets, values.data]
    elif values.kind in _ROWS_OF_BYTES:
        type_, held = pa.binary(values.width), [values.data]
    else:
        type_, held = pa.from_numpy_dtype(np.dtype(f"<u{values.width}")), [values.data]
    buffers = [bitmap, *(pa.py_buffer(np.ascontiguousarray(part)) for part in held)]
    return pa.Array.from_buffers(type_, values.length, buffers, nulls)


def _like(found: PhysicalValues, values: PhysicalValues) -> PhysicalValues:
    data = found.data
    if values.kind in NUMBER_KINDS or values.kind == ValueKind.DECIMAL:
        data = data.view(native_dtype(values.kind, values.width))
    return PhysicalValues(values.kind, values.width, found.length, data, found.offsets)
