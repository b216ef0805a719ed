"""What is found out of units that tasks have before they are grouped anew: samples, and facts.

By samples of rows the driver finds ranges of keys. By facts of parts, which all go to one task, a
clause finds which units want which parts.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, concat_tables, numpy_array
from tessel.clauses.base import Structure
from tessel.clauses.structures import UnitFacts
from tessel.ecs.piece import ColRange, RowRange, TimeRange
from tessel.spark_exec.blobs import PartFacts, decode, encode
from tessel.spark_exec.chains import chain_from_text
from tessel.spark_exec.parts import packed, place_of_unit, unit_number, unpacked
from tessel.spark_exec.plugins import kinds_of, load_plugins, received_components
from tessel.spark_exec.tasks import (
    NO_DATA,
    TaskFunction,
    each_row,
    guarded,
    packed_rows,
    typed_errors,
)
from tessel.spark_exec.wire import ERROR_ROWS, WireRow, read_parts, received, sequences, wire_rows

_PLACE, _WEIGHT = "__tessel_place", "__tessel_weight"
"""The last columns of a sample: the unit of each row, and how many rows it stands for."""


def sample_task(most: int) -> TaskFunction:
    """Return the task that sends, of all its rows, at most so many at equal distances; errors too.

    The distance is doubled whenever there are more, and stands beside the rows as their weight,
    behind the ``seq`` of their unit.
    """

    def place_of(row: WireRow) -> int | None:
        return None if row.rows in NO_DATA else place_of_unit(row.seq)

    def sample(batches: Iterator[pa.RecordBatch]) -> Iterator[list[WireRow]]:
        held: list[pa.Table] = []
        step, passed, rows_held, seq = 1, 0, 0, 0
        for place, rows in itertools.groupby(received(batches), place_of):
            if place is None:
                yield list(rows)
                continue
            seq = seq or place
            # Of one unit, in order, whatever buckets its parts came in.
            for part in read_parts(WireRow(0, row.seq, row.rows, row.blob) for row in rows):
                places = np.arange(-passed % step, part.table.num_rows, step)
                passed += part.table.num_rows
                unit = arrow_array(np.full(len(places), place))
                held.append(part.table.take(arrow_array(places)).append_column(_PLACE, unit))
                rows_held += len(places)
                while rows_held > most:
                    whole = concat_tables(held)
                    held = [whole.take(arrow_array(np.arange(0, rows_held, 2)))]
                    step, rows_held = 2 * step, held[0].num_rows
        if rows_held:
            weights = arrow_array(np.full(rows_held, step))
            table = concat_tables(held).append_column(_WEIGHT, weights)
            yield wire_rows(table, PartFacts(RowRange(0, rows_held)), seq=seq)

    return typed_errors(lambda batches: packed_rows(sample(batches)))


# --- facts ----------------------------------------------------------------------------------------

_NUMBERS = (
    *("seq", "rows", "piece", "bytes"),  # of a wire row; the others are of a part
    *("columns", "start", "stop", "is_timed", "first", "last", "symbol", "bucket"),
)
_KNOWN: pa.Schema = pa.schema(
    [(name, pa.int64()) for name in _NUMBERS]
    + [("segments", pa.list_(pa.string())), ("components", pa.list_(pa.string()))]
)
_FACTS = ("seq", *_NUMBERS[4:], "segments", "components")
_NO_BUCKET = -1


def known_of(rows: Iterable[WireRow]) -> WireRow | None:
    """Return a wire row with the facts of the parts in other rows, without their data."""
    told: list[tuple[Any, ...]] = []
    for row in rows:
        part = decode(row.blob)
        facts, times = part.facts, part.facts.time_range
        told.append(
            (
                *(row.seq, row.rows, part.piece, len(row.blob), part.table.num_columns),
                *(facts.row_range.start, facts.row_range.end, times is not None),
                *((times.first, times.last) if times is not None else (0, 0)),
                *(facts.symbol, _NO_BUCKET if facts.bucket is None else facts.bucket),
                *(facts.segments, list(itertools.chain.from_iterable(facts.components))),
            )
        )
    if not told:
        return None
    columns = [
        pa.array(map(int, values) if pa.types.is_int64(field.type) else values, field.type)
        for field, values in zip(_KNOWN, zip(*told, strict=True), strict=True)
    ]
    table = pa.table(columns, schema=_KNOWN)
    return WireRow(0, told[0][0], len(told), encode(table, PartFacts(RowRange(0, len(told)))))


def routed(
    rows: Iterable[WireRow],
    kinds: Mapping[str, type],
    group: Callable[[Sequence[UnitFacts]], Sequence[Sequence[int]]],
) -> list[WireRow]:
    """Return where wire rows go, for units that want the parts at some positions each.

    Parameters
    ----------
    rows
        Of :func:`known_of`.
    kinds
        The classes of components by name.
    group
        Returns the positions of the parts of each unit.

    Returns
    -------
    list of WireRow
        Integers, packed: how many units, parts and bytes there are, and the units without parts;
        the ``seq`` of rows, ascending, once for each unit that wants it, with the unit and the
        ``seq`` there.
    """
    tables = [_KNOWN.empty_table(), *(decode(row.blob).table for row in rows)]
    table = concat_tables(tables)
    del tables
    order = np.argsort(numpy_array(table.column("seq")))
    sent, counts, pieces = (numpy_array(table.column(name))[order] for name in _NUMBERS[:3])
    size = int(numpy_array(table.column("bytes")).sum())
    starts = np.flatnonzero(pieces == 0)
    counts = np.add.reduceat(counts, starts) if len(starts) else counts
    table = table.select(_FACTS).take(arrow_array(order[starts]))
    del order, pieces
    groups = group(_Parts(table, counts, kinds))
    del table  # what is made from here on takes as much again
    counts = np.fromiter(map(len, groups), np.int64, len(groups))
    wanted = np.fromiter(itertools.chain.from_iterable(groups), np.int64, int(counts.sum()))
    del groups
    units = np.repeat(np.arange(len(counts)), counts)
    places = np.arange(len(wanted)) - np.repeat(np.cumsum(counts) - counts, counts)
    seqs = sequences(np.zeros_like(places), places)
    del places
    own = np.diff(starts, append=len(sent))[wanted]
    piece = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
    sources = sent[np.repeat(starts[wanted], own) + piece]
    order = np.argsort(sources, kind="stable")
    to = (sources, np.repeat(units, own), np.repeat(seqs, own) + piece)
    totals = np.array([len(counts), len(starts), size]), np.flatnonzero(counts == 0)
    told = packed(totals), packed(each[order] for each in to)
    return [WireRow(0, seq, 0, blob) for seq, blob in enumerate(told)]


class _Parts(Sequence[UnitFacts]):
    """The facts of parts, each made of columns when it is asked for: as objects all take 1 KB each.

    Parameters
    ----------
    table
        The columns ``_FACTS``, a row a part.
    counts
        The rows of each.
    kinds
        The classes of components by name.
    """

    def __init__(
        self, table: pa.Table, counts: NDArray[np.int64], kinds: Mapping[str, type]
    ) -> None:
        *numbers, segments, components = table.columns
        self._numbers = counts, *map(numpy_array, numbers)
        self._lists = segments.combine_chunks(), components.combine_chunks()
        self._kinds = kinds

    def __len__(self) -> int:
        return len(self._numbers[0])

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[each] for each in range(len(self))[at]]
        rows, seq, columns, start, stop, is_timed, first, last, symbol, bucket = (
            each.item(at) for each in self._numbers
        )
        segments, components = (
            each[at].as_py() if len(each.values) else () for each in self._lists
        )
        return UnitFacts(
            unit_number(seq),
            rows,
            RowRange(start, stop),
            ColRange(0, columns),
            TimeRange(first, last) if is_timed else None,
            symbol,
            None if bucket == _NO_BUCKET else bucket,
            tuple(segments),
            received_components(zip(components[::2], components[1::2], strict=True), self._kinds),
        )


def facts_task() -> TaskFunction:
    """Return the task that sends one row with the facts of its parts instead of their data."""

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[list[WireRow]]:
        others: list[WireRow] = []

        def parts() -> Iterator[WireRow]:
            for row in received(batches):
                if row.rows not in NO_DATA:
                    yield row
                else:
                    others.append(row)

        known = known_of(parts())
        yield others if known is None else [*others, known]

    return typed_errors(lambda batches: packed_rows(told(batches)))


def group_task(chain: str, plugins: bytes, barriers: int) -> TaskFunction:
    """Return the task that lets the first clause of a chain group all parts, by their facts.

    It sends what :func:`routed` tells, or errors that came.
    """

    def work(facts: Iterable[WireRow]) -> list[WireRow]:
        ready = chain_from_text(chain, plugins)
        clause, schema = ready.clauses[0], ready.schemas[0]
        # A clause over everything also answers for nothing.
        nothing: list[list[int]] = [[]] if clause.structure.input is Structure.ALL else []
        kinds = kinds_of(load_plugins(plugins).values())
        return routed(facts, kinds, lambda parts: clause.restructure(parts, schema) or nothing)

    def grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[list[WireRow]]:
        rows = list(received(batches))
        errors = [row for row in rows if row.rows == ERROR_ROWS]
        facts = (row for row in rows if row.rows not in NO_DATA)
        yield errors or guarded(lambda: work(facts), 0, barriers)

    return typed_errors(lambda batches: packed_rows(grouped(batches)))


def route_task(routes: bytes) -> TaskFunction:
    """Return the task that sends each wire row to the units that want it, as ``routed`` tells.

    The facts of a part that several want say how many.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sources, *to = unpacked(routes)
        units = np.stack(to)

        def sent(row: WireRow) -> list[WireRow]:
            low, high = np.searchsorted(sources, [row.seq, row.seq + 1]).tolist()
            blob = row.blob
            if high - low > 1:
                part = decode(blob)
                facts = dataclasses.replace(part.facts, fetches=high - low)
                blob = encode(part.table, facts, piece=part.piece, pieces=part.pieces)
            wanted = units[:, low:high].T.tolist()
            return [WireRow(unit, seq, row.rows, blob) for unit, seq in wanted]

        yield from each_row(sent)(batches)

    return run
