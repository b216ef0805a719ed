"""Processing units against one plain Arrow table: any cut into pieces gives the same answers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessel.ecs import ColRange, Piece, ProcessingUnit, RowRange, TimeRange
from tessel.errors import ColumnNotFoundError, DuplicateColumnError, ExecutionError
from tessel.expression import col, lit
from tessel.expression.schema import TableSchema

TYPES = (pa.int64(), pa.string(), pa.bool_(), pa.float64())


@dataclass(frozen=True)
class Case:
    """A table, and a unit that holds it in pieces."""

    whole: pa.Table
    unit: ProcessingUnit


def cut_points(draw: st.DrawFn, length: int) -> list[int]:
    inner = draw(st.lists(st.integers(0, length), max_size=3))
    return sorted({0, length, *inner})


def pieces_of(whole: pa.Table, row_cuts: list[int], column_cuts: list[int]) -> list[Piece]:
    return [
        Piece(
            whole.slice(low, high - low).select(list(range(left, right))),
            RowRange(low, high),
            ColRange(left, right),
        )
        for low, high in itertools.pairwise(row_cuts)
        for left, right in itertools.pairwise(column_cuts)
    ]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rows = draw(st.integers(0, 12))
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5))
    values = {
        pa.int64(): st.integers(-5, 5),
        pa.string(): st.sampled_from(["", "a", "ß"]),
        pa.bool_(): st.booleans(),
        pa.float64(): st.sampled_from([0.5, -1.0, float("inf")]),
    }
    columns = {
        f"c{at}": pa.array(
            draw(st.lists(st.none() | values[type_], min_size=rows, max_size=rows)), type_
        )
        for at, type_ in enumerate(types)
    }
    whole = pa.table(columns)
    pieces = pieces_of(whole, cut_points(draw, rows), cut_points(draw, len(types)))
    index = draw(st.none() | st.sampled_from(whole.column_names))
    return Case(whole, ProcessingUnit(3, TableSchema(whole.schema, index), pieces))


def check(unit: ProcessingUnit, expected: pa.Table) -> None:
    """The unit holds exactly this table, seen from every side."""
    assert unit.schema.arrow.equals(expected.schema)
    assert unit.num_rows == expected.num_rows
    table = unit.table
    table.validate(full=True)
    assert table.schema.equals(expected.schema)
    assert table.num_rows == expected.num_rows
    assert table.equals(expected)
    for name in expected.column_names:
        column = unit.column(name)
        assert column.type == expected.schema.field(name).type
        assert column.equals(expected.column(name))


@given(cases())
def test_a_unit_is_its_table(case: Case):
    check(case.unit, case.whole)
    assert case.unit.nbytes == sum(piece.table.nbytes for piece in case.unit.pieces)


@given(cases(), st.data())
def test_filter(case: Case, data: st.DataObject):
    rows = case.whole.num_rows
    mask = pa.array(
        data.draw(st.lists(st.sampled_from([True, False, None]), min_size=rows, max_size=rows)),
        pa.bool_(),
    )
    kept = [at for at, keep in enumerate(mask.to_pylist()) if keep]
    expected = case.whole.take(pa.array(kept, pa.int64()))
    cut = data.draw(st.integers(0, rows))
    check(case.unit.filter(mask), expected)
    check(case.unit.filter(pa.chunked_array([mask[:cut], mask[cut:]])), expected)
    # Without columns the count of rows stays right.
    assert case.unit.select([]).filter(mask).num_rows == len(kept)


@given(cases(), st.integers(0, 15), st.integers(0, 15))
def test_slice(case: Case, offset: int, length: int):
    check(case.unit.slice(offset, length), case.whole.slice(offset, length))
    sliced = case.unit.select([]).slice(offset, length)
    assert sliced.num_rows == sliced.table.num_rows == case.whole.slice(offset, length).num_rows


@given(cases(), st.data())
def test_select(case: Case, data: st.DataObject):
    names = data.draw(st.lists(st.sampled_from(case.whole.column_names), unique=True))
    chosen = case.unit.select(names)
    check(chosen, case.whole.select(names))
    assert chosen.schema.index == (
        case.unit.schema.index if case.unit.schema.index in names else None
    )
    held = [name for piece in chosen.pieces for name in piece.table.column_names]
    assert set(held) == (set(names) if case.unit.pieces else set())


@given(cases(), st.data())
def test_with_column(case: Case, data: st.DataObject):
    rows = case.whole.num_rows
    name = data.draw(st.sampled_from([*case.whole.column_names, "new"]))
    values = pa.array([None if at % 3 == 2 else at / 2 for at in range(rows)], pa.float32())
    if name in case.whole.column_names:
        expected = case.whole.set_column(case.whole.column_names.index(name), name, values)
    else:
        expected = case.whole.append_column(name, values)
    changed = case.unit.with_column(name, values)
    check(changed, expected)
    assert changed.schema.index == (
        None if name == case.unit.schema.index else case.unit.schema.index
    )
    cut = data.draw(st.integers(0, rows))
    check(case.unit.with_column(name, pa.chunked_array([values[:cut], values[cut:]])), expected)
    # A unit that lost all its columns takes new ones.
    check(case.unit.select([]).with_column("new", values), pa.table({"new": values}))


@given(cases(), st.data())
def test_rename(case: Case, data: st.DataObject):
    old = data.draw(st.lists(st.sampled_from(case.whole.column_names), unique=True))
    # A rotation: names may move onto names that go away in the same call.
    names = dict(zip(old, [*old[1:], *old[:1]], strict=True))
    names[case.whole.column_names[0]] = "other"
    if len(set(renamed := [names.get(n, n) for n in case.whole.column_names])) < len(renamed):
        with pytest.raises(DuplicateColumnError):
            case.unit.rename(names)
        return
    changed = case.unit.rename(names)
    check(changed, case.whole.rename_columns(renamed))
    index = case.unit.schema.index
    assert changed.schema.index == (None if index is None else names.get(index, index))


@given(cases(), st.data())
def test_take(case: Case, data: st.DataObject):
    rows = case.whole.num_rows
    positions = data.draw(st.lists(st.integers(0, rows - 1), max_size=20) if rows else st.just([]))
    taken = case.unit.take(np.array(positions, dtype=np.int64))
    check(taken, case.whole.take(pa.array(positions, pa.int64())))
    assert len(taken.pieces) == 1
    assert case.unit.select([]).take(np.array(positions, dtype=np.int64)).num_rows == len(positions)


@given(cases(), st.sampled_from([None, "x"]))
def test_replace(case: Case, index: str | None):
    table = pa.table({"x": [1, 2, 3], "y": ["a", None, "c"]})
    replaced = case.unit.replace(table, index=index, bucket=4)
    check(replaced, table)
    (piece,) = replaced.pieces
    assert replaced.ordinal == case.unit.ordinal
    assert replaced.schema.index == index
    assert piece.col_range == ColRange(0, 2)
    assert piece.bucket == 4
    # The one piece spans the rows of all: what restructuring goes by.
    assert piece.row_range == RowRange(0, case.whole.num_rows)
    kept = case.unit.replace(case.whole)
    assert kept.schema == case.unit.schema


@given(cases())
def test_evaluate(case: Case):
    values = [row["c0"] for row in case.whole.to_pylist()]
    missing = case.unit.evaluate(col("c0").is_missing())
    assert missing.type == pa.bool_()
    assert missing.to_pylist() == [value is None for value in values]
    # A second expression on the same unit, which shares a part with the first.
    assert case.unit.evaluate(~col("c0").is_missing()).to_pylist() == [
        v is not None for v in values
    ]
    assert case.unit.select([]).evaluate(lit(7)).to_pylist() == [7] * len(values)
    kept = case.unit.filter(case.unit.evaluate(col("c0").is_missing()))
    assert kept.num_rows == values.count(None)
    # The filtered unit remembers nothing of the whole one.
    assert kept.evaluate(col("c0").is_missing()).to_pylist() == [True] * kept.num_rows


def test_a_sub_expression_is_computed_once_a_unit(monkeypatch: pytest.MonkeyPatch):
    unit = unit_of(*pieces_of(WHOLE, [0, 2, 4], [0, 1, 3]))
    first = unit.evaluate(col("t") + 1)
    # If the second call computed ``t + 1`` again, it would see other data and another answer.
    monkeypatch.setattr(unit, "table", WHOLE.set_column(0, "t", pa.array([10, 20, 30, 40])))
    assert unit.evaluate(col("t") + 1).equals(first)


@given(cases(), st.integers(0, 12))
def test_methods_never_change_the_unit_they_are_called_on(case: Case, offset: int):
    before = case.unit.pieces
    case.unit.slice(offset, 2)
    case.unit.select(case.whole.column_names[:1])
    case.unit.with_column("c0", pa.nulls(case.whole.num_rows, pa.int8()))
    case.unit.rename({"c0": "z"})
    case.unit.filter(pa.array([False] * case.whole.num_rows, pa.bool_()))
    assert case.unit.pieces is before
    check(case.unit, case.whole)


# --- what the model does not reach --------------------------------------------------------------

WHOLE = pa.table({"t": [1, 2, 3, 4], "a": [1.0, None, 3.0, 4.0], "b": list("wxyz")})
SCHEMA = TableSchema(WHOLE.schema, "t")


def unit_of(*pieces: Piece, schema: TableSchema = SCHEMA) -> ProcessingUnit:
    return ProcessingUnit(0, schema, pieces)


def test_a_unit_without_pieces_is_an_empty_table_of_its_schema():
    unit = unit_of()
    check(unit, WHOLE.slice(0, 0))
    check(unit.select(["b"]), WHOLE.slice(0, 0).select(["b"]))
    assert unit.select([]).num_rows == 0
    assert unit.select([]).table.num_rows == 0
    check(unit.replace(WHOLE), WHOLE)


def test_filter_and_slice_copy_nothing_where_all_rows_stay():
    unit = unit_of(*pieces_of(WHOLE, [0, 2, 4], [0, 1, 3]))
    assert unit.filter(pa.array([True] * 4)) is unit
    address = WHOLE["t"].chunk(0).buffers()[1].address
    assert unit.slice(1, 3).column("t").chunk(0).buffers()[1].address == address
    assert unit.table["t"].chunk(0).buffers()[1].address == address


def test_pieces_of_one_row_range_in_two_buckets_are_stacked():
    first, second = WHOLE.take(pa.array([0, 2])), WHOLE.take(pa.array([1, 3]))
    rows, columns = RowRange(0, 4), ColRange(0, 3)
    unit = unit_of(Piece(first, rows, columns, bucket=0), Piece(second, rows, columns, bucket=1))
    check(unit, pa.concat_tables([first, second]))


def test_two_whole_results_of_one_row_range_are_stacked():
    rows, columns = RowRange(0, 0), ColRange(0, 3)
    unit = unit_of(Piece(WHOLE, rows, columns), Piece(WHOLE.slice(0, 1), rows, columns))
    check(unit, pa.concat_tables([WHOLE, WHOLE.slice(0, 1)]))


def test_pieces_of_two_symbols_are_stacked():
    rows = RowRange(0, 4)
    one = Piece(WHOLE, rows, ColRange(0, 3), symbol=0)
    check(
        unit_of(one, Piece(WHOLE, rows, ColRange(0, 3), symbol=1)),
        pa.concat_tables([WHOLE, WHOLE]),
    )


def test_column_slices_in_column_major_order_find_their_strips():
    by_row = pieces_of(WHOLE, [0, 2, 4], [0, 1, 3])
    check(unit_of(by_row[0], by_row[2], by_row[1], by_row[3]), WHOLE)


def test_column_slices_that_differ_in_rows_are_refused():
    left, right = pieces_of(WHOLE, [0, 4], [0, 1, 3])
    unit = unit_of(left, right.with_table(right.table.slice(1)))
    with pytest.raises(ExecutionError, match="have 4 and 3 rows"):
        _ = unit.num_rows


def test_take_keeps_the_bucket_that_all_pieces_share():
    def taken(*buckets: int) -> int | None:
        pieces = [Piece(WHOLE, RowRange(0, 4), ColRange(0, 3), bucket=b) for b in buckets]
        return unit_of(*pieces).take(np.array([0, 1])).pieces[0].bucket

    assert taken(5, 5) == 5
    assert taken(5, 6) is None


def test_replace_spans_times_only_where_all_are_known():
    def spanned(*times: TimeRange | None) -> TimeRange | None:
        pieces = [
            Piece(WHOLE, RowRange(at, at + 4), ColRange(0, 3), time)
            for at, time in zip(range(0, 40, 4), times, strict=False)
        ]
        return unit_of(*pieces).replace(WHOLE).pieces[0].time_range

    assert spanned(TimeRange(5, 9), TimeRange(2, 7)) == TimeRange(2, 9)
    assert spanned(TimeRange(5, 9), None) is None
    left, right = pieces_of(WHOLE, [0, 4], [0, 1, 3])
    timed = Piece(left.table, left.row_range, left.col_range, TimeRange(1, 4))
    assert unit_of(timed, right).replace(WHOLE).pieces[0].time_range == TimeRange(1, 4)


def test_replace_forgets_field_metadata_and_nullability():
    field = pa.field("x", pa.int64(), nullable=False, metadata={"a": "b"})
    table = pa.table({"x": [1]}, schema=pa.schema([field], metadata={"c": "d"}))
    replaced = unit_of().replace(table)
    plain = pa.schema([("x", pa.int64())])
    assert replaced.schema.arrow.equals(plain, check_metadata=True)
    assert replaced.table.schema.equals(plain, check_metadata=True)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda u: u.column("c"), ColumnNotFoundError),
        (lambda u: u.select(["a", "c"]), ColumnNotFoundError),
        (lambda u: u.select(["a", "a"]), DuplicateColumnError),
        (lambda u: u.rename({"c": "d"}), ColumnNotFoundError),
        (lambda u: u.rename({"a": "b"}), DuplicateColumnError),
        (lambda u: u.filter(pa.array([True] * 5)), ExecutionError),
        (lambda u: u.filter(pa.array([True] * 3)), ExecutionError),
        (lambda u: u.with_column("n", pa.array([1] * 5)), ExecutionError),
        (lambda u: u.with_column("n", pa.array([1])), ExecutionError),
        (lambda u: u.slice(-1, 2), ExecutionError),
        (lambda u: u.slice(0, -1), ExecutionError),
    ],
)
def test_misuse_raises(call, error):
    with pytest.raises(error):
        call(unit_of(*pieces_of(WHOLE, [0, 1, 4], [0, 2, 3])))


def test_a_piece_without_a_promised_column_is_named_when_it_is_asked_for():
    unit = unit_of(Piece(WHOLE.select(["t", "a"]), RowRange(0, 4), ColRange(0, 3)))
    with pytest.raises(ColumnNotFoundError, match="no column 'b' in the pieces of a unit"):
        _ = unit.table


def test_the_repr_tells_place_rows_and_pieces():
    pieces = pieces_of(WHOLE, [0, 1, 4], [0, 2, 3])
    assert repr(unit_of(*pieces)) == (
        "<ProcessingUnit 0: 4 rows, pieces [(0, 1), (0, 1), (1, 4), (1, 4)]>"
    )
    assert repr(unit_of(*pieces, Piece(WHOLE, RowRange(4, 8), ColRange(0, 3)))).endswith(" …>")
