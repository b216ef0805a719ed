"""Wire rows: order, pieces, buckets; and one schema through a real shuffle."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.ecs.piece import RowRange
from tessel.errors import CorruptStoreError, SparkError
from tessel.spark_exec.blobs import PartFacts
from tessel.spark_exec.runtime import ignore_pandas_notice
from tessel.spark_exec.wire import (
    MAX_BLOB_BYTES,
    WIRE_DDL,
    WIRE_SCHEMA,
    WireRow,
    read_parts,
    received,
    sequence,
    wire_batch,
    wire_rows,
)
from tests.spark_exec.arrow_tables import decoded, tables, ticks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def facts(start: int, end: int) -> PartFacts:
    return PartFacts(RowRange(start, end), index="time")


def test_the_schema_is_the_agreed_one() -> None:
    assert WIRE_SCHEMA.names == ["bucket", "seq", "rows", "blob"]
    assert WIRE_SCHEMA.types == [pa.int32(), pa.int64(), pa.int64(), pa.binary()]
    assert WIRE_DDL == "bucket int, seq long, rows long, blob binary"


@given(
    st.lists(
        st.tuples(st.integers(0, 2**16 - 1), st.integers(0, 2**31 - 1)), min_size=2, max_size=9
    )
)
def test_sequence_orders_by_symbol_then_unit_and_leaves_room(pairs: list[tuple[int, int]]) -> None:
    by_sequence = sorted(set(pairs), key=lambda pair: sequence(*pair))
    assert by_sequence == sorted(set(pairs))
    places = sorted(sequence(*pair) for pair in set(pairs))
    assert all(0 <= place < 2**63 for place in places)
    assert all(after - before >= 2**16 for before, after in itertools.pairwise(places))


@pytest.mark.parametrize("pair", [(-1, 0), (2**16, 0), (0, 2**31), (0, -1)])
def test_numbers_past_the_range_are_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(SparkError, match="past what"):
        sequence(*pair)


@given(table=tables(), limit=st.integers(1, 400), seed=st.integers(0, 99))
def test_parts_survive_cutting_and_any_order_of_arrival(
    table: pa.Table, limit: int, seed: int
) -> None:
    sent: list[WireRow] = []
    for bucket in range(2):
        for unit in range(3):
            sent += wire_rows(
                table.slice(unit),
                facts(unit, unit + 12),
                seq=sequence(0, unit),
                bucket=bucket,
                max_blob_bytes=limit,
            )
    assert sum(row.rows for row in sent) == 2 * sum(table.slice(n).num_rows for n in range(3))
    random.Random(seed).shuffle(sent)
    halves = [wire_batch(sent[: len(sent) // 2]), wire_batch(sent[len(sent) // 2 :])]
    parts = list(read_parts(received(halves)))
    assert [(part.bucket, part.seq) for part in parts] == [
        (bucket, sequence(0, unit)) for bucket in range(2) for unit in range(3)
    ]
    for part in parts:
        unit = part.facts.row_range.start
        assert part.seq == sequence(0, unit)
        assert part.table.schema.equals(table.schema, check_metadata=True)
        assert decoded(part.table).equals(decoded(table.slice(unit)))


def test_a_large_part_becomes_several_bounded_pieces() -> None:
    table = ticks(60_000, seed=1)
    limit = 256 * 1024
    rows = wire_rows(table, facts(0, 60_000), seq=sequence(0, 1), max_blob_bytes=limit)
    assert len(rows) > 4
    assert [row.seq for row in rows] == [sequence(0, 1) + number for number in range(len(rows))]
    assert max(len(row.blob) for row in rows) <= limit
    (part,) = read_parts(reversed(rows))
    assert part.table.equals(table)


def test_one_huge_row_still_travels() -> None:
    table = pa.table({"x": pa.array([b"a", b"b" * (MAX_BLOB_BYTES + 10), b"c"])})
    rows = wire_rows(table, facts(0, 3), seq=0)
    (part,) = read_parts(rows)
    assert part.table.equals(table)
    assert len(rows) >= 2


def test_a_dictionary_is_cut_to_the_values_in_use() -> None:
    values = pa.array([f"value {number}" for number in range(50_000)])
    codes = pa.array([7, None, 49_999, 7], pa.int32())
    column = pa.DictionaryArray.from_arrays(codes, values, ordered=True)
    table = pa.table({"x": column, "y": [1, 2, 3, 4]})
    (row,) = wire_rows(table, facts(0, 4), seq=0)
    assert len(row.blob) < 4_000
    (part,) = read_parts([row])
    assert part.table.schema == table.schema
    assert part.table.to_pylist() == table.to_pylist()
    assert part.table.column("x").chunk(0).dictionary.to_pylist() == ["value 7", "value 49999"]


def test_a_dictionary_larger_than_the_bound_is_not_repeated_endlessly() -> None:
    values = pa.array(["x" * 100 + str(number) for number in range(1_000)])
    codes = pa.array(np.arange(4_000) % 1_000, pa.int32())
    table = pa.table({"x": pa.DictionaryArray.from_arrays(codes, values)})
    rows = wire_rows(table, facts(0, 4_000), seq=0, max_blob_bytes=10_000)
    assert len(rows) == 1
    (part,) = read_parts(rows)
    assert part.table.equals(table)


def several() -> list[WireRow]:
    return wire_rows(ticks(100, seed=2), facts(0, 100), seq=sequence(0, 3), max_blob_bytes=2_000)


@pytest.mark.parametrize("lost", ["first", "middle", "last"])
def test_a_lost_piece_is_noticed(lost: str) -> None:
    rows = several()
    assert len(rows) >= 3
    del rows[{"first": 0, "middle": 1, "last": -1}[lost]]
    with pytest.raises(CorruptStoreError, match="is missing"):
        list(read_parts(rows))


def test_a_piece_that_is_there_twice_is_noticed() -> None:
    rows = several()
    with pytest.raises(CorruptStoreError):
        list(read_parts([*rows, rows[1]]))
    whole = wire_rows(ticks(3, seed=2), facts(0, 3), seq=0)
    with pytest.raises(CorruptStoreError, match="there twice"):
        list(read_parts([*whole, *whole]))


def test_a_row_that_lies_about_its_rows_is_refused() -> None:
    (row,) = wire_rows(ticks(3, seed=2), facts(0, 3), seq=0)
    with pytest.raises(CorruptStoreError, match="its row says 4"):
        list(read_parts([WireRow(row.bucket, row.seq, 4, row.blob)]))


def test_rows_of_another_schema_are_refused() -> None:
    with pytest.raises(CorruptStoreError, match="its row is not"):
        list(received([pa.record_batch({"x": pa.array([1])})]))
    missing = pa.record_batch([pa.nulls(1, kind) for kind in WIRE_SCHEMA.types], schema=WIRE_SCHEMA)
    with pytest.raises(CorruptStoreError, match="missing values"):
        list(received([missing]))


BUCKETS, UNITS = 3, 6


def _scatter(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for unit in reversed(batch.column(0).to_pylist()):
            table = ticks(300, seed=unit)
            for bucket in range(BUCKETS):
                share = table.filter(pa.array(np.arange(300) % BUCKETS == bucket))
                yield wire_batch(
                    wire_rows(
                        share,
                        facts(300 * unit, 300 * unit + 300),
                        seq=sequence(0, unit),
                        bucket=bucket,
                        max_blob_bytes=1_500,
                    )
                )


def _echo(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in read_parts(received(batches)):
        yield wire_batch(wire_rows(part.table, part.facts, seq=part.seq, bucket=part.bucket))


@pytest.mark.spark
def test_a_real_shuffle_brings_every_type_in_order(spark: SparkSession) -> None:
    ignore_pandas_notice()
    frame = spark.range(0, UNITS, 1, 3).mapInArrow(_scatter, WIRE_DDL)
    answer = frame.repartitionById(BUCKETS, frame["bucket"]).mapInArrow(_echo, WIRE_DDL).toArrow()
    rows = list(received(answer.to_batches()))
    assert [row.bucket for row in rows] == sorted(row.bucket for row in rows), "partition order"
    parts = list(read_parts(rows))
    assert len(parts) == BUCKETS * UNITS
    for part in parts:
        unit = part.facts.row_range.start // 300
        assert part.seq == sequence(0, unit)
        expected = ticks(300, seed=unit).filter(pa.array(np.arange(300) % BUCKETS == part.bucket))
        assert part.table.schema == expected.schema
        assert decoded(part.table).equals(decoded(expected))
