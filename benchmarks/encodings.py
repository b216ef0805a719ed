"""Measure each page encoding: encoding, decoding, single rows.

    python -m benchmarks.encodings            # pages of 65,536 rows
    python -m benchmarks.encodings --smoke    # small pages, only to show that it works

One page that lies in the cache; the CPU time of one thread, so that busy neighbours count less.
GB/s are of decoded bytes: values times their width, or the bytes of text and its offsets. ``take``
is 100 random rows. What is read in place has no decoding to speak of ("view"). Wanted, on a machine
like the one the format was designed on: linear 11 to 28 GB/s, unpacked residuals about 4 GB/s.
Prints a table and one line of JSON; values are compared with the source first.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.store.encodings.base import COMPACT, FAST, EncodedPage, PageEncoding, Profile
from tessel.store.encodings.codes import PAGE_RECORD, EncodingCode, ValueKind, aligned
from tessel.store.encodings.registry import encoding_by_code
from tessel.store.encodings.values import Page, PhysicalValues, native_dtype, page_from_record

PAGE_ROWS = 65_536
SMOKE_ROWS = 1_000
TAKEN = 100
REPEATS = 7
SECONDS_A_REPEAT = 0.03


@dataclasses.dataclass(frozen=True)
class Case:
    """One kind of page to measure."""

    name: str
    code: EncodingCode
    profile: Profile
    values: PhysicalValues
    dictionary: PhysicalValues | None = None


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the result: rates in GB/s of decoded bytes, times in microseconds."""

    name: str
    stored_bytes_a_value: float
    encode: float
    check: float
    decode: float | None
    decode_into: float | None
    codes: str
    take_100_us: float


def numbers(kind: ValueKind, data: Any) -> PhysicalValues:
    return PhysicalValues(kind, data.dtype.itemsize, len(data), data)


def texts(values: list[str]) -> PhysicalValues:
    array = pa.array(values, pa.binary())
    offsets = np.frombuffer(array.buffers()[1], np.int32)[: len(values) + 1]
    return PhysicalValues(
        ValueKind.TEXT, 0, len(values), np.frombuffer(array.buffers()[2], np.uint8), offsets
    )


def cases(rows: int) -> list[Case]:
    random = np.random.default_rng(2013)
    places = np.arange(rows)
    signed = ValueKind.SIGNED
    times = 1_357_000_000_000_000_000 + places * 60_000_000_000
    names = [f"SYM{place:04d}" for place in range(500)]
    codes = random.integers(0, 500, rows)
    held = texts(names)
    coded = PhysicalValues(
        ValueKind.TEXT, 0, rows, np.empty(0, np.uint8), codes=codes.astype(np.uint16)
    )
    decimals = numbers(ValueKind.FLOAT, random.integers(0, 20_000, rows) / 100)
    prices = numbers(ValueKind.FLOAT, random.integers(0, 1 << 18, rows) / 100)
    odd = decimals.data.copy()
    odd[random.random(rows) < 0.01] = np.nan
    small = numbers(ValueKind.FLOAT, random.random(500))
    coded_floats = PhysicalValues(
        ValueKind.FLOAT, 8, rows, np.empty(0), codes=codes.astype(np.uint16)
    )
    free = texts([f"row {place} of {rows % (place + 1)}" for place in range(rows)])
    fractions = numbers(ValueKind.FLOAT, random.random(rows))
    made = [
        Case("flat float64", EncodingCode.FLAT, FAST, fractions),
        Case("constant int64", EncodingCode.CONSTANT, FAST, numbers(signed, np.full(rows, 7))),
        Case("linear: sequence", EncodingCode.LINEAR, FAST, numbers(signed, times)),
        Case("linear: near-regular", EncodingCode.LINEAR, FAST,
             numbers(signed, times + random.integers(0, 200, rows))),
        Case("linear: irregular, 34 bits", EncodingCode.LINEAR, FAST,
             numbers(signed, times + random.integers(0, 1 << 34, rows))),
    ]  # fmt: skip
    made += [
        Case(
            f"linear: frame of {bits} bits",
            EncodingCode.LINEAR,
            FAST if bits % 8 == 0 else COMPACT,
            numbers(signed, random.integers(0, 1 << bits, rows) + (1 << 50)),
        )
        for bits in (3, 8, 9, 13, 16, 21, 24, 32, 40)
    ]
    walk = np.cumsum(random.integers(0, 1000, rows))
    runs = np.repeat(random.integers(0, 1 << 20, rows), 20)[:rows]
    return [
        *made,
        Case("delta 10 bits", EncodingCode.DELTA, COMPACT, numbers(signed, walk)),
        Case("run-end, runs of 20", EncodingCode.RUN_END, FAST, numbers(signed, runs)),
        Case("scaled, 16 bits", EncodingCode.SCALED, FAST, decimals),
        Case("scaled, 15 bits", EncodingCode.SCALED, COMPACT, decimals),
        Case("scaled, 18 bits to 24", EncodingCode.SCALED, FAST, prices),
        Case("scaled, 18 bits", EncodingCode.SCALED, COMPACT, prices),
        Case("scaled, 1 % NaN", EncodingCode.SCALED, FAST, numbers(ValueKind.FLOAT, odd)),
        Case("dictionary of text", EncodingCode.DICTIONARY, FAST, coded, held),
        Case("dictionary, packed", EncodingCode.DICTIONARY, COMPACT, coded, held),
        Case("dictionary of float64", EncodingCode.DICTIONARY, FAST, coded_floats, small),
        Case("text, whole offsets", EncodingCode.VARIABLE, FAST, free),
        Case("text, packed offsets", EncodingCode.VARIABLE, COMPACT, free),
    ]


@dataclasses.dataclass(frozen=True)
class Clock:
    """Times calls: the median over repeats that last long enough to be measured."""

    repeats: int
    seconds_a_repeat: float

    def seconds(self, work: Callable[[], object]) -> float:
        """Return the time of one call."""
        start = time.thread_time()
        work()
        once = max(time.thread_time() - start, 1e-7)
        calls = max(1, int(self.seconds_a_repeat / once))
        taken = []
        for _ in range(self.repeats):
            start = time.thread_time()
            for _ in range(calls):
                work()
            taken.append(max(time.thread_time() - start, 1e-9) / calls)
        return statistics.median(taken)


def stored(case: Case, encoded: EncodedPage) -> tuple[Any, Any]:
    """Return the record of a page and its bytes, as a segment has them."""
    record = np.zeros(1, PAGE_RECORD)
    starts, place = [], 0
    for buffer in encoded.buffers:
        starts.append(place)
        place += aligned(buffer.nbytes)
    payload = np.zeros(place, np.uint8)
    for start, buffer in zip(starts, encoded.buffers, strict=True):
        payload[start : start + buffer.nbytes] = np.ascontiguousarray(buffer).view(np.uint8)
    for field in ("encoding", "inner", "bit_width", "inner_width", "count", "exceptions"):
        record[field] = getattr(encoded, field)
    record["exponent"], record["row_count"] = encoded.exponent, case.values.length
    record["base"], record["step"] = encoded.base % (1 << 64), encoded.step % (1 << 64)
    record["length"] = record["payload_length"] = place
    record["starts"][0] = starts + [place] * (4 - len(starts))
    return record, payload


def decoded_bytes(values: PhysicalValues) -> int:
    return int(values.data.nbytes + (0 if values.offsets is None else values.offsets.nbytes))


def check_equal(case: Case, found: PhysicalValues) -> None:
    """Raise where a page does not give back what went in."""
    if case.values.codes is not None:
        assert found.codes is not None
        assert (found.codes == case.values.codes).all()
    elif found.offsets is not None and case.values.offsets is not None:
        assert (found.offsets == case.values.offsets).all()
        assert found.data.tobytes()[: found.offsets[-1]] == case.values.data.tobytes()
    else:
        assert found.data.tobytes() == case.values.data.tobytes()


def measure(case: Case, clock: Clock) -> Line:
    encoding = encoding_by_code(case.code)
    encoded = encoding.encode(case.values, case.profile)
    assert encoded is not None, case.name
    record, payload = stored(case, encoded)
    values = case.values
    page = page_from_record(
        record[0], payload, values.kind, values.width, dictionary=case.dictionary
    )
    encoding.check(page)
    found = encoding.decode(page, 0, values.length)
    check_equal(case, found)
    size = decoded_bytes(found)
    rows = np.random.default_rng(1).integers(0, values.length, TAKEN)
    in_place = np.shares_memory(found.data, payload)
    return Line(
        case.name,
        encoded.nbytes / values.length,
        size / clock.seconds(lambda: encoding.encode(values, case.profile)) / 1e9,
        size / clock.seconds(lambda: encoding.check(page)) / 1e9,
        None
        if in_place
        else size / clock.seconds(lambda: encoding.decode(page, 0, values.length)) / 1e9,
        decode_into(encoding, page, size, clock),
        codes(encoding, page, clock),
        clock.seconds(lambda: encoding.take(page, rows)) * 1e6,
    )


def decode_into(encoding: PageEncoding, page: Page, size: int, clock: Clock) -> float | None:
    if page.kind in (ValueKind.TEXT, ValueKind.BINARY):
        return None
    out = np.empty(page.length, native_dtype(page.kind, page.width))
    return size / clock.seconds(lambda: encoding.decode_into(page, 0, page.length, out)) / 1e9


def codes(encoding: PageEncoding, page: Page, clock: Clock) -> str:
    if encoding.code != EncodingCode.DICTIONARY:
        return ""
    found = encoding.codes(page, 0, page.length)
    spent = clock.seconds(lambda: encoding.codes(page, 0, page.length)) * 1e6
    kind = "view" if np.shares_memory(found, page.payload) else "unpacked"
    return f"{kind} {spent:.1f} µs"


def table(lines: list[Line]) -> str:
    head = ("page", "bytes/value", "encode", "check", "decode", "into", "codes", "take")

    def number(value: float | None, form: str = ".2f") -> str:
        return "view" if value is None else format(value, form)

    rows = [
        (
            line.name,
            number(line.stored_bytes_a_value, ".3f"),
            number(line.encode),
            number(line.check, ".1f"),
            number(line.decode),
            "-" if line.decode_into is None else number(line.decode_into),
            line.codes or "-",
            number(line.take_100_us, ".1f"),
        )
        for line in lines
    ]
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    written = []
    for row in [head, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = row[0].ljust(widths[0])
        written.append("  ".join(cells))
    return "\n".join(written)


def main(arguments: list[str] | None = None) -> list[Line]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="small pages, for the answers only")
    smoke = parser.parse_args(arguments).smoke
    clock = Clock(1, 0.0) if smoke else Clock(REPEATS, SECONDS_A_REPEAT)
    lines = [measure(case, clock) for case in cases(SMOKE_ROWS if smoke else PAGE_ROWS)]
    print("encode, check, decode and into in GB/s; take and gather of 100 rows in µs")
    print(table(lines))
    versions = {"numpy": np.__version__, "pyarrow": pa.__version__, "machine": platform.machine()}
    print(json.dumps({"lines": [dataclasses.asdict(line) for line in lines], **versions}))
    return lines


if __name__ == "__main__":
    main()
