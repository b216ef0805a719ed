"""Row programs: filters on rows where they lie, against columns."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessel.store.rows.pipeline as pipelines
from tessel.errors import IntegerOverflowError
from tessel.expression import Expression, col, lit, parse
from tessel.expression.evaluate import evaluate
from tessel.kernels.filter_rows import FilteredRows, StructRows, filter_rows
from tessel.kernels.row_program import RowStatus, field_load
from tessel.store.rows import RowArena, RowPipeline, Rows, RowSchema
from tests.kernels.forced import FORMS, LEVELS, in_form
from tests.store.rows.test_columns import whole

WAYS = pytest.mark.parametrize("form", FORMS)


@contextlib.contextmanager
def way(form: str) -> Iterator[None]:
    """Run the kernel in one form; as Python it warns of what floats do."""
    with in_form(form), np.errstate(all="ignore"):
        yield


# --- random expressions on random rows ------------------------------------------------------------

SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("i1", pa.int8()),
        ("text", pa.string()),
        ("u2", pa.uint16()),
        ("i4", pa.int32()),
        ("u4", pa.uint32()),
        ("f4", pa.float32()),
        ("i8", pa.int64()),
        ("f8", pa.float64()),
        ("u8", pa.uint64()),
        ("raw", pa.large_binary()),
        ("at", pa.timestamp("us", "UTC")),
        ("second", pa.timestamp("s", "UTC")),
        ("day", pa.date32()),
        ("span", pa.duration("ms")),
    ]
)
FLOATS = [0.0, -0.0, 1.0, 1.5, -2.5, float("nan"), float("inf"), -float("inf"), 1e300, 3.4e38]


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    near = [low, low + 1, -1, 0, 1, 2, 3, high - 1, high]
    return st.sampled_from([each for each in near if low <= each <= high])


VALUES: dict[str, st.SearchStrategy[object]] = {
    "flag": st.booleans(),
    "i1": integers(-(2**7), 2**7 - 1),
    "text": st.sampled_from(["", "A", "AB", "Ä", "A" * 20]),
    "u2": integers(0, 2**16 - 1),
    "i4": integers(-(2**31), 2**31 - 1),
    "u4": integers(0, 2**32 - 1),
    "f4": st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.5, float("nan"), float("inf"), 2.0**127, 0.1]),
    "i8": integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53, 2**53 + 1]),
    "f8": st.sampled_from(FLOATS) | st.sampled_from([2.0**53, 2.0**63, 0.1]),
    "u8": integers(0, 2**64 - 1) | st.sampled_from([2**63, 2**63 - 1]),
    "raw": st.sampled_from([b"", b"A", b"\0\xff"]),
    "at": st.sampled_from([-1, 0, 1, 1_500_000, 10**15]),
    "second": st.sampled_from([-1, 0, 1, 2, 10**9]),
    "day": st.sampled_from([-1, 0, 1, 20_000]),
    "span": st.sampled_from([-1, 0, 1500, 10**9]),
}
NUMBERS = ["i1", "u2", "i4", "u4", "f4", "i8", "f8", "u8"]
LITERALS = [0, 1, -1, 2, 127, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 1.5, -0.0, 1e300, float("inf")]
COMPARED = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
]
COMPUTED = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b]
TEMPORAL = [
    parse(text)
    for text in (
        "at > '1970-01-01T00:00:01'",
        "at <= '1970-01-01T00:00:00.0000005'",
        "second == '1970-01-01T00:00:01'",
        "second < '1970-01-01T00:00:00.5'",
        "at == second",
        "second != second",
        "day >= '1970-01-01'",
        "span > '1s'",
        "at in ('1970-01-01T00:00:00', null)",
        "day is missing",
        "span is not missing",
    )
]


@st.composite
def numbers(draw: st.DrawFn, depth: int = 2) -> Expression:
    if depth and draw(st.booleans()):
        one, two = draw(numbers(depth - 1)), draw(numbers(depth - 1))
        return draw(st.sampled_from([*COMPUTED, lambda a, b: -a]))(one, two)
    name = draw(st.sampled_from(NUMBERS))
    return draw(st.sampled_from([col(name), col(name), lit(draw(st.sampled_from(LITERALS)))]))


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> Expression:
    kind = draw(st.integers(0, 8 if depth else 5))
    if kind <= 1:
        compare = draw(st.sampled_from(COMPARED))
        return compare(draw(numbers()), draw(numbers()))
    if kind == 2:
        name, sign = draw(st.sampled_from(["text", "raw"])), draw(st.sampled_from(COMPARED[:2]))
        return sign(col(name), lit(draw(VALUES[name])))
    if kind == 3:
        name = draw(st.sampled_from(["i1", "i8", "f8", "f4", "u8", "text", "u2"]))
        values = draw(st.lists(st.none() | VALUES[name], min_size=1, max_size=4))
        return col(name).is_in(values)
    if kind == 4:
        return col(draw(st.sampled_from(list(VALUES)))).is_missing()
    if kind == 5:
        return draw(st.sampled_from([col("flag"), col("flag") == lit(False), *TEMPORAL]))
    one, two = draw(conditions(depth - 1)), draw(conditions(depth - 1))
    joins = [lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: ~a]
    return draw(st.sampled_from(joins))(one, two)


ROW = st.fixed_dictionaries({name: st.none() | each for name, each in VALUES.items()})


def table_of(rows: list[dict[str, object]]) -> pa.Table:
    columns = {}
    for field in SCHEMA:
        values = [row[field.name] for row in rows]
        if pa.types.is_temporal(field.type):
            stored = pa.int64() if field.type.bit_width == 64 else pa.int32()
            columns[field.name] = pa.array(values, stored).view(field.type)
        else:
            columns[field.name] = pa.array(values, field.type, from_pandas=False)
    return pa.table(columns, schema=SCHEMA)


def fits(expression: Expression) -> bool:
    try:
        expression.result_type(pipelines.TableSchema(SCHEMA))
    except tessel_errors:
        return False
    return True


tessel_errors = (TypeError, ValueError, OverflowError)


def bits(batch: pa.RecordBatch) -> dict[str, object]:
    """Return values of which a NaN equals itself."""
    found: dict[str, object] = {"": str(batch.schema)}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_floating(column.type):
            column = column.view(pa.int64() if column.type.bit_width == 64 else pa.int32())
        found[name] = column.to_pylist()
    return found


def on_columns(
    table: pa.Table, where: Expression | None, select: dict[str, Expression | str] | None
) -> object:
    """Return what columns say: the batch, or the error."""
    try:
        if where is not None:
            table = table.filter(evaluate(where, table))
        chosen = {n: n for n in SCHEMA.names} if select is None else select
        return bits(
            whole(
                pa.table(
                    {
                        name: table.column(each) if isinstance(each, str) else evaluate(each, table)
                        for name, each in chosen.items()
                    }
                )
            )
        )
    except IntegerOverflowError as error:
        return error.message


def in_rows(rows: Rows, where: Expression | None, select: object) -> object:
    try:
        return bits(RowPipeline(rows.schema, where=where, select=select).run(rows))
    except IntegerOverflowError as error:
        return error.message


@WAYS
@given(
    st.lists(ROW, min_size=1, max_size=12),
    st.none() | conditions().filter(fits),
    st.lists((numbers() | conditions()).filter(fits), max_size=3),
)
def test_answers_are_those_of_columns(form, rows, where, computed):
    table = table_of(rows)
    select: dict[str, Expression | str] = {f"c{n}": each for n, each in enumerate(computed)}
    select |= {"text": "text", "i8": "i8"}
    expected = on_columns(table, where, select)
    held = Rows.from_batch(RowSchema.from_arrow(SCHEMA), table)
    with way(form):
        assert in_rows(held, where, select) == expected


# --- other layouts, more rows ---------------------------------------------------------------------


def many(count: int) -> pa.Table:
    random = np.random.default_rng(11)
    null = random.random(count) < 0.1
    return pa.table(
        {
            "name": pa.array([["A", "BB", "Ä", ""][n % 4] for n in range(count)], mask=null),
            "small": pa.array(random.integers(-100, 100, count).astype(np.int16)),
            "price": pa.array(random.random(count) * 200, mask=random.random(count) < 0.1),
            "quantity": pa.array(random.integers(-(2**31), 2**31, count).astype(np.int32)),
            "buy": pa.array(random.random(count) < 0.5),
        }
    )


def aligned(table: pa.Table) -> Rows:
    """Return rows each of which has its own text."""
    schema = RowSchema.from_arrow(table.schema, "aligned")
    arena = RowArena(schema, var_capacity=16, row_capacity=len(table))
    for values in table.to_pylist():
        row = arena.new_row()
        for name, value in values.items():
            if value is None:
                row.set_null(name)
            else:
                row.set(name, value)
    return arena.rows()


WHERE = parse("price > 50 and (name == 'A' or name == 'Ä' or not buy) and small * 3 < quantity")
SELECT: dict[str, Expression | str] = {
    "name": "name",
    "cost": parse("price * quantity"),
    "less": parse("small - 1"),
    "quantity": "quantity",
    "other": parse("name != 'BB'"),
    "half": parse("round(price / 2, 1)"),  # has no step
}


@pytest.mark.parametrize(
    ("form", "count"),
    [
        *itertools.product(FORMS, [1, 7, 2048, 2049]),
        *itertools.product(LEVELS, [40_000]),
    ],
)
def test_rows_of_many_blocks(form, count):
    table = many(count)
    rows = Rows.from_batch(RowSchema.from_arrow(table.schema), table)
    with way(form):
        found = RowPipeline(rows.schema, where=WHERE, select=SELECT).run(rows)
    chosen = table.filter(evaluate(WHERE, table))
    assert bits(found) == bits(
        whole(
            pa.table(
                {
                    name: chosen.column(each) if isinstance(each, str) else evaluate(each, chosen)
                    for name, each in SELECT.items()
                }
            )
        )
    )
    assert count < 2048 or 0 < found.num_rows < count


@WAYS
def test_rows_with_texts_of_their_own(form):
    table = many(500)
    rows = aligned(table)
    with way(form):
        found = RowPipeline(rows.schema, where=WHERE, select=SELECT).run(rows)
    packed = Rows.from_batch(RowSchema.from_arrow(table.schema), table)
    assert found == RowPipeline(packed.schema, where=WHERE, select=SELECT).run(packed)


@WAYS
@pytest.mark.parametrize("size", [4, 7, 8, 9, 40])
@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_structs_of_others(form, size, byte_order):
    """Without nulls, some shorter than a word, some in the other order of bytes."""
    schema = RowSchema.from_struct(
        pa.schema([("a", pa.int16()), ("b", pa.uint8())]),
        offsets={"a": size - 2, "b": 1},
        row_size=size,
        byte_order=byte_order,
    )
    data = np.random.default_rng(size).integers(0, 256, 100 * size).astype(np.uint8).tobytes()
    rows = Rows.from_bytes(schema, data)
    table = pa.table(rows.to_batch())
    with way(form):
        found = RowPipeline(schema, where="a + b > 5", select={"a": "a", "c": "a - b"}).run(rows)
    chosen = table.filter(evaluate(parse("a + b > 5"), table))
    assert found.column("a").to_pylist() == chosen.column("a").to_pylist()
    assert found.column("c").to_pylist() == evaluate(parse("a - b"), chosen).to_pylist()
    assert 0 < found.num_rows < 100


# --- what runs how --------------------------------------------------------------------------------


def program_of(where: str, schema: pa.Schema = SCHEMA) -> object:
    return RowPipeline(RowSchema.from_arrow(schema), where=where)._program


@pytest.mark.parametrize(
    "where",
    [
        "f8 > 100",
        "text == 'A' and i4 < 5",
        "text in ('A', 'B') or flag",
        "not (u8 >= 18446744073709551615)",
        "i8 > 1.5",
        "i1 * 2 + i1 >= f8 / 3",
        "at > '2020-01-01'",
        "f4 is missing",
        "true",
    ],
)
def test_what_has_steps(where):
    assert program_of(where) is not None


@pytest.mark.parametrize(
    "where",
    [
        "text > 'A'",
        "length(text) > 1",
        "i8 == f8",
        "year(at) == 2020",
        "round(f8, 1) == 1",
        "f4 + f4 > 1",
    ],
)
def test_what_is_left_to_columns(where):
    assert program_of(where) is None


@WAYS
def test_what_was_begun_of_an_output_without_steps_is_forgotten(form):
    table = many(100)
    rows = Rows.from_batch(RowSchema.from_arrow(table.schema), table)
    select = {"one": "(price is missing) and length(name) > 1", "two": "not (name == 'A')"}
    with way(form):
        pipeline = RowPipeline(rows.schema, select=select)
        assert pipeline._program is not None
        assert pipeline._program.registers.tolist() == [0, 0, 2]
        found = pipeline.run(rows)
    for name, text in select.items():
        assert found.column(name) == evaluate(parse(text), table)


# --- the kernel itself ----------------------------------------------------------------------------


@WAYS
def test_a_text_outside_its_heap_ends_the_program(form):
    schema = RowSchema.from_arrow(pa.schema([("name", pa.string())]))
    rows = Rows.from_batch(schema, pa.table({"name": ["A", "B", None]}))
    program = RowPipeline(schema, where="name == 'B'")._program
    assert program is not None

    def run(heap: np.ndarray, starts: Sequence[int] = ()) -> FilteredRows:
        data = rows.records.view(np.uint8)
        structs = StructRows(data, schema.fixed_size, heap, np.array(starts, np.int64))
        return filter_rows(structs, program)

    with way(form):
        assert run(rows.heap).rows.tolist() == [1]
        assert run(rows.heap[:1]).status == RowStatus.OUTSIDE
        assert run(rows.heap, [-9, 0, 0]).status == RowStatus.OUTSIDE
        assert run(rows.heap, [0, 2**40, 0]).status == RowStatus.OUTSIDE
        assert run(rows.heap, [0, 0, 2**40]).rows.tolist() == [1]


@WAYS
def test_sums_past_64_bits_raise_in_rows_that_are_kept_alone(form):
    schema = RowSchema.from_arrow(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    table = pa.table({"a": [2**62, 3, 2**62], "b": [2**62, 4, 1]})
    rows = Rows.from_batch(schema, table)
    with way(form):
        select = {"c": "a + b", "d": "a * b"}
        found = RowPipeline(schema, where="b < 2**62", select=select).run(rows)
        assert found.to_pydict() == {"c": [7, 2**62 + 1], "d": [12, 2**62]}
        with pytest.raises(IntegerOverflowError, match=r"a \+ b"):
            RowPipeline(schema, select={"c": "a + b"}).run(rows)


@given(st.integers(1, 40), st.data())
def test_a_load_finds_a_field_wherever_it_lies_and_stays_inside_the_rows(row_size, data):
    size = data.draw(st.sampled_from([n for n in (1, 2, 4, 8) if n <= row_size]))
    offset = data.draw(st.integers(0, row_size - size))
    start, left, right = field_load(offset, size, row_size)
    row = data.draw(st.binary(min_size=row_size, max_size=row_size))
    assert start + 8 <= max(row_size, 8)
    word = int.from_bytes(row[start : start + 8].ljust(8, b"\0"), "little")
    found = ((word << left) & (2**64 - 1)) >> right
    assert found == int.from_bytes(row[offset : offset + size], "little")
