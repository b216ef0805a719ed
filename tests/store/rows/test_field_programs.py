"""Programs on the fields of rows: filters on rows where they lie, against columns."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.errors import IntegerOverflowError
from tessel.expression import Expression, col, lit, parse
from tessel.expression.evaluate import evaluate
from tessel.expression.schema import TableSchema
from tessel.store.rows import RowArena, RowPipeline, Rows, RowSchema
from tests.kernels.forced import FORMS, LEVELS, in_form
from tests.store.rows.tables import FIXED
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
        expression.result_type(TableSchema(SCHEMA))
    except tessel_errors:
        return False
    return True


tessel_errors = (TypeError, ValueError, OverflowError)


def bits(batch: pa.RecordBatch) -> dict[str, object]:
    """Return values as what they are stored as: a NaN equals itself, any date is one."""
    found: dict[str, object] = {"": str(batch.schema)}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_floating(column.type) or pa.types.is_temporal(column.type):
            column = column.view(pa.int64() if column.type.bit_width == 64 else pa.int32())
        found[name] = column.to_pylist()
    return found


def of_columns(
    table: pa.Table, where: Expression | None, select: dict[str, Expression | str]
) -> pa.RecordBatch:
    """Return what columns say."""
    if where is not None:
        table = table.filter(evaluate(where, table))
    columns = {
        name: table.column(each) if isinstance(each, str) else evaluate(each, table)
        for name, each in select.items()
    }
    return whole(pa.table(columns))


def on_columns(
    table: pa.Table, where: Expression | None, select: dict[str, Expression | str]
) -> object:
    """Return what columns say: the values, or the error."""
    try:
        return bits(of_columns(table, where, select))
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
    assert bits(found) == bits(of_columns(table, WHERE, SELECT))
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


def left_of(where: str, schema: pa.Schema = SCHEMA) -> str | None:
    """Return what of a condition is left to columns."""
    left = RowPipeline(RowSchema.from_arrow(schema), where=where)._program.left
    return None if left is None else str(left)


@pytest.mark.parametrize(
    "where",
    [
        "f8 > 100",
        "text == 'A' and i4 < 5",
        "text in ('A', 'B') or flag",
        "not (text != 'A')",
        "i8 > 1.5",
        "i8 < i4",
        "i1 * 2 + i1 >= f8 / 3",
        "f8 * f8 - f8 * f8 is missing",
        "at > '2020-01-01'",
        "f4 is missing",
        "text is missing or u8 is missing",
        "(i8 in (1, 2)) ^ (f4 in (0.5, null))",
    ],
)
def test_what_is_computed_where_it_lies(where):
    assert left_of(where) is None


@pytest.mark.parametrize(
    "where",
    [
        "text > 'A'",
        "length(text) > 1",
        "i8 == f8",
        "year(at) == 2020",
        "round(f8, 1) == 1",
        "f4 + f4 > 1",
        "i8 + i8 > 1",
        "u8 > 1",
    ],
)
def test_what_is_left_to_columns(where):
    assert left_of(where) == str(parse(where))


def test_conjuncts_are_left_to_columns_by_themselves():
    assert left_of("f8 > 1 and text > 'A' and i4 < 5") == str(parse("text > 'A'"))
    assert left_of("f8 > 1 and text > 'A' and u8 < 5") == str(parse("text > 'A' and u8 < 5"))
    # Of a row that another conjunct rules out, this one may be an error.
    assert left_of("i8 + i8 > 1 and f8 > 1") == str(parse("i8 + i8 > 1 and f8 > 1"))


@WAYS
def test_conjuncts_that_are_left_are_asked_of_the_rows_that_are_kept(form):
    table = many(3000)
    rows = Rows.from_batch(RowSchema.from_arrow(table.schema), table)
    where = parse("price > 50 and name > 'A' and small < 90")
    with way(form):
        found = RowPipeline(rows.schema, where=where, select=SELECT).run(rows)
    assert bits(found) == bits(of_columns(table, where, SELECT))
    assert 0 < found.num_rows < 3000


def test_what_was_begun_of_an_output_that_is_left_to_columns_is_forgotten():
    table = many(100)
    rows = Rows.from_batch(RowSchema.from_arrow(table.schema), table)
    select = {"one": "(price is missing) and length(name) > 1", "two": "not (name == 'A')"}
    pipeline = RowPipeline(rows.schema, select=select)
    alone = RowPipeline(rows.schema, select={"two": select["two"]})
    assert len(pipeline._program._program.steps) == len(alone._program._program.steps) > 0
    found = pipeline.run(rows)
    for name, text in select.items():
        assert found.column(name) == evaluate(parse(text), table)


def test_a_program_that_would_be_too_long_leaves_the_rest_to_columns():
    table = many(50)
    rows = Rows.from_batch(RowSchema.from_arrow(table.schema), table)
    where = parse(" and ".join(f"price + {n} != price * {n}" for n in range(200)))
    pipeline = RowPipeline(rows.schema, where=where)
    left = pipeline._program.left
    assert left is not None
    assert 0 < len(left.children) < 200
    assert pipeline.run(rows) == RowPipeline(rows.schema).run(rows).filter(evaluate(where, table))


# --- bytes that nobody checked --------------------------------------------------------------------


@WAYS
def test_texts_outside_of_their_heap_are_equal_to_none(form):
    """And none of what lies there is read."""
    schema = RowSchema.from_arrow(pa.schema([("name", pa.string()), ("n", pa.int64())]))
    table = pa.table({"name": ["A", "B", None, ""], "n": [0, 1, 2, 3]})
    rows = Rows.from_batch(schema, table)
    pipelines = [
        RowPipeline(schema, where=f"name == {text}", select={"n": "n"}) for text in ("'B'", "''")
    ]

    def found(forged: Rows) -> list[list[int]]:
        with way(form):
            return [each.run(forged).column("n").to_pylist() for each in pipelines]

    assert found(rows) == [[1], [3]]
    assert found(Rows(schema, rows.records, rows.heap[:1])) == [[], [3]]
    for offset in (2, 2**31, 2**32 - 1):
        records = rows.records.copy()
        records["name"][:, 0] = offset
        assert found(Rows(schema, records, rows.heap)) == [[], [3]]
    records["name"][:, 1] = 2**32 - 1
    assert found(Rows(schema, records, rows.heap)) == [[], []]


@WAYS
@given(data=st.data())
def test_any_bytes_are_filtered_as_their_columns_are(form, data):
    """Bits of null over any values, truths that are neither 0 nor 1, rows of any layout."""
    layout = data.draw(st.sampled_from(["packed", "aligned"]))
    fields = data.draw(st.lists(st.sampled_from(FIXED), min_size=1, max_size=9))
    names = [f"f{at}" for at in range(len(fields))]
    schema = RowSchema.from_arrow(pa.schema(list(zip(names, fields, strict=True))), layout)
    size = data.draw(st.integers(1, 20)) * schema.fixed_size
    seed = data.draw(st.integers(0, 2**32))
    octets = np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)
    octets[octets > 250] = 255
    rows = Rows(schema, octets.view(schema.dtype), np.zeros(0, np.uint8))
    table = pa.table(rows.to_batch())
    name = data.draw(st.sampled_from(names))
    kind = schema.arrow.field(name).type
    where = col(name).is_missing()
    if pa.types.is_boolean(kind):
        where = data.draw(st.sampled_from([where, ~where, col(name), ~col(name)]))
    elif not pa.types.is_temporal(kind):
        bound = data.draw(st.sampled_from([0, 100, 2**31, 0.5]))
        compare = data.draw(st.sampled_from(COMPARED))
        where = data.draw(st.sampled_from([where, ~compare(col(name), lit(bound))]))
    select = {each: each for each in names} | {"truth": where}
    with way(form):
        found = in_rows(rows, where, select)
    chosen = table.filter(evaluate(where, table))
    assert found == bits(of_columns(chosen, None, select))


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


@WAYS
@given(data=st.data())
def test_a_field_is_found_wherever_it_lies_in_a_struct(form, data):
    size = data.draw(st.integers(2, 40))
    kind = data.draw(st.sampled_from([each for each in FIXED if each.bit_width <= 8 * size]))
    width = 1 if pa.types.is_boolean(kind) else kind.bit_width // 8
    offsets = {
        "field": data.draw(st.integers(0, size - width)),
        "n": data.draw(st.integers(0, size - 2)),
    }
    byte_order = data.draw(st.sampled_from(["little", "little", "big"]))
    fields = pa.schema([("field", kind), ("n", pa.int16())])
    schema = RowSchema.from_struct(fields, offsets, size, byte_order=byte_order)
    seed = data.draw(st.integers(0, 2**32))
    octets = np.random.default_rng(seed).integers(0, 256, 20 * size).astype(np.uint8).tobytes()
    rows = Rows.from_bytes(schema, octets)
    table = pa.table(rows.to_batch())
    select = {"less": parse("n - 1"), "there": col("field").is_missing(), "field": "field"}
    where = parse("n > 0 or n * 2 in (-2, -4, -6)")
    with way(form):
        found = RowPipeline(schema, where=where, select=select).run(rows)
    assert bits(found) == bits(of_columns(table, where, select))
