"""Errors of workers arrive as what they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel import errors
from tessel.errors import (
    ClauseFailedError,
    ColumnNotFoundError,
    CorruptSegmentError,
    ExpressionTypeError,
    SparkError,
    StoreError,
    TesselError,
)
from tessel.spark_exec.errors_wire import (
    WorkerError,
    as_tessel_error,
    error_row,
    from_driver_exception,
    may_pass,
    raise_error_rows,
)
from tessel.spark_exec.runtime import ignore_pandas_notice
from tessel.spark_exec.wire import ERROR_ROWS, WIRE_DDL, WireRow, received, wire_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASSES = [
    found
    for name in errors.__all__
    if isinstance(found := getattr(errors, name), type) and issubclass(found, TesselError)
]


def made(kind: type[TesselError]) -> TesselError:
    error = kind("what <was> asked", hint="try\nthis", detail="a\n ^", column="x", number=3)
    return error.with_context(clause="filter", symbol="ticks", segment="7", expression="x > 'é'")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_survives_both_ways(kind: type[TesselError]) -> None:
    error = made(kind)
    marked = from_driver_exception(RuntimeError(f"Job aborted\n\tat x\n{WorkerError(error)}\nat"))
    assert type(marked) is kind
    assert marked.to_json() == error.to_json()
    if not may_pass(error):
        with pytest.raises(kind) as caught:
            raise_error_rows([error_row(error, seq=4, bucket=2)])
        assert caught.value.to_json() == error.to_json()


@given(st.text(st.characters(codec="utf-8"), max_size=3_000), st.booleans())
def test_any_message_keeps_kind_and_beginning_and_stays_small(text: str, nested: bool) -> None:
    error = ExpressionTypeError(text, detail=text, hint=text, value=text)
    raised: BaseException = RuntimeError(f"org.apache: {WorkerError(error)}")
    if nested:
        outer = RuntimeError("An error occurred while calling o63")
        outer.__cause__ = raised
        raised = outer
    assert str(WorkerError(error)).index(":tessel-error>") < 2_200
    found = from_driver_exception(raised)
    assert type(found) is ExpressionTypeError
    assert text.startswith(found.message)
    assert found.message or not text


def test_the_earliest_error_of_the_plan_is_raised() -> None:
    rows = [
        WireRow(0, 1, 3, b"data"),
        error_row(ValueError("later"), seq=9),
        error_row(ColumnNotFoundError.for_name("pirce", ["price"]), seq=5, bucket=1),
    ]
    with pytest.raises(ColumnNotFoundError, match="pirce"):
        raise_error_rows(rows)
    assert raise_error_rows(rows[:1]) == rows[:1]


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (StoreError("no answer"), True),
        (ConnectionResetError("reset"), True),
        (TimeoutError("slow"), True),
        (MemoryError(), True),
        (CorruptSegmentError("damaged"), False),
        (ClauseFailedError("user code"), False),
        (ValueError("user code"), False),
        (FileNotFoundError("gone"), False),
        (SparkError("other"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_may_pass_is_repeated(error: BaseException, passing: bool) -> None:
    assert may_pass(error) is passing
    if passing:
        with pytest.raises(WorkerError):
            error_row(error, seq=0)
    else:
        assert error_row(error, seq=0).rows == ERROR_ROWS


def test_errors_that_are_not_ours_say_type_text_and_place() -> None:
    try:
        {}["missing"]
    except KeyError as failure:
        error = as_tessel_error(failure)
    assert type(error) is SparkError
    assert "KeyError: 'missing'" in error.message
    assert "test_errors_wire.py" in error.attributes["where"]


def test_text_without_marks_gives_the_innermost_python_message() -> None:
    text = (
        "An exception was thrown from the Python worker.\n"
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in f\n'
        "ValueError: first\n\nDuring handling of the above exception, another occurred:\n"
        "pyarrow.lib.ArrowNotImplementedError: innermost told here\n"
        "\tat org.apache.spark.Task.run(Task.scala:1)\n"
    )
    error = from_driver_exception(RuntimeError(text))
    assert type(error) is SparkError
    assert "ArrowNotImplementedError: innermost told here" in error.message
    plain = from_driver_exception(RuntimeError("Job 3 cancelled\nmore"))
    assert "Job 3 cancelled" in plain.message


def test_a_cut_payload_is_not_an_error_of_its_own() -> None:
    whole = str(WorkerError(made(ClauseFailedError)))
    cut = from_driver_exception(RuntimeError("ValueError: " + whole[:60] + ":tessel-error>"))
    assert type(cut) is SparkError
    both = from_driver_exception(RuntimeError(whole[:60] + ":tessel-error>\n" + whole))
    assert type(both) is ClauseFailedError


def _raises(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        raise WorkerError(made(StoreError))
    yield from ()


def _raises_untyped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        raise LookupError("plain trouble")
    yield from ()


def _answers_with_errors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for unit in batch.column(0).to_pylist():
            failure = made(ExpressionTypeError).with_context(unit=str(unit))
            yield wire_batch([error_row(failure, seq=unit, bucket=unit % 2)])


@pytest.mark.spark
def test_a_raised_error_arrives_typed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors.exceptions import captured

    ignore_pandas_notice()
    # As pyspark converts it, whether or not the data source was registered before.
    convert = captured.convert_exception
    monkeypatch.setattr(captured, "convert_exception", getattr(convert, "__wrapped__", convert))
    with pytest.raises(Exception, match="tessel-error") as caught:
        spark.range(0, 2, 1, 2).mapInArrow(_raises, WIRE_DDL).toArrow()
    found = from_driver_exception(caught.value)
    assert type(found) is StoreError
    assert found.to_json() == made(StoreError).to_json()


@pytest.mark.spark
def test_an_untyped_error_arrives_with_its_message(spark: SparkSession) -> None:
    ignore_pandas_notice()
    with pytest.raises(Exception, match="plain trouble") as caught:
        spark.range(0, 1, 1, 1).mapInArrow(_raises_untyped, WIRE_DDL).toArrow()
    assert (
        from_driver_exception(caught.value).message == "a task failed: LookupError: plain trouble"
    )


@pytest.mark.spark
def test_error_rows_pass_the_shuffle_and_the_first_is_raised(spark: SparkSession) -> None:
    ignore_pandas_notice()
    frame = spark.range(0, 6, 1, 3).mapInArrow(_answers_with_errors, WIRE_DDL)
    answer = frame.repartitionById(2, frame["bucket"]).toArrow()
    with pytest.raises(ExpressionTypeError) as caught:
        raise_error_rows(received(answer.to_batches()))
    assert caught.value.context["unit"] == "0"
    assert caught.value.context["clause"] == "filter"
