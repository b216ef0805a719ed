"""What is found out of units that tasks have before they are grouped anew: samples, and facts.

By samples of rows the driver finds ranges of keys. By facts of parts, which all go to one task, a
clause finds which units want which parts.
"""

from __future__ import annotations

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
from tessel.spark_exec.wire import (
    ERROR_ROWS,
    WireRow,
    read_parts,
    received,
    sequences,
    wire_rows,
)

WEIGHT = "__tessel_weight"
"""The last column of a sample: how many rows each row of it stands for."""


def sample_task(most: int) -> TaskFunction:
    """Return the task that sends, of all its rows, at most so many at equal distances; errors too.

    The distance is doubled whenever there are more, and stands beside the rows as their weight.
    """

    def sample(batches: Iterator[pa.RecordBatch]) -> Iterator[list[WireRow]]:
        held: list[pa.Table] = []
        step, passed, rows_held, seq = 1, 0, 0, 0
        for place, rows in itertools.groupby(received(batches), _place):
            if place is None:
                yield list(rows)
                continue
            seq = seq or place
            # Of one unit, in order, whatever buckets its parts came in.
            for part in read_parts(WireRow(0, row.seq, row.rows, row.blob) for row in rows):
                places = np.arange(-passed % step, part.table.num_rows, step)
                passed += part.table.num_rows
                held.append(part.table.take(arrow_array(places)))
                rows_held += len(places)
                while rows_held > most:
                    whole = concat_tables(held)
                    held = [whole.take(arrow_array(np.arange(0, rows_held, 2)))]
                    step, rows_held = 2 * step, held[0].num_rows
        if rows_held:
            weights = arrow_array(np.full(rows_held, step))
            table = concat_tables(held).append_column(WEIGHT, weights)
            yield wire_rows(table, PartFacts(RowRange(0, rows_held)), seq=seq)

    return typed_errors(lambda batches: packed_rows(sample(batches)))


def _place(row: WireRow) -> int | None:
    return None if row.rows in NO_DATA else place_of_unit(row.seq)


# --- facts ----------------------------------------------------------------------------------------

_NUMBERS = (
    *("seq", "rows", "piece", "bytes"),  # of a wire row; the others are of a part
    *("columns", "start", "stop", "is_timed", "first", "last", "symbol", "bucket"),
)
_KNOWN: pa.Schema = pa.schema(
    [(name, pa.int64()) for name in _NUMBERS]
    + [("segments", pa.list_(pa.string())), ("components", pa.list_(pa.string()))]
)
_NO_BUCKET = -1
_BATCH_PARTS = 4096


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
    group: Callable[[list[UnitFacts]], Sequence[Sequence[int]]],
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
        ``seq`` there; the fields of :class:`~tessel.spark_exec.parts.Fetches`.
    """
    told = [_KNOWN.empty_table(), *(decode(row.blob).table for row in rows)]
    table = concat_tables(told).sort_by("seq")
    sent, counts, pieces, sizes = (numpy_array(table.column(name)) for name in _NUMBERS[:4])
    starts = np.flatnonzero(pieces == 0)
    stops = np.append(starts, len(sent))[1:]
    before = np.append(0, np.cumsum(counts))
    parts = [
        UnitFacts(
            unit_number(seq),
            count,
            RowRange(start, stop),
            ColRange(0, columns),
            TimeRange(first, last) if is_timed else None,
            symbol,
            None if bucket == _NO_BUCKET else bucket,
            tuple(segments),
            received_components(zip(components[::2], components[1::2], strict=True), kinds),
        )
        for count, (seq, _, _, _, columns, start, stop, is_timed, first, last, *others) in zip(
            (before[stops] - before[starts]).tolist(),
            _tuples(table.take(arrow_array(starts))),
            strict=True,
        )
        for symbol, bucket, segments, components in [others]
    ]
    groups = group(parts)
    counts = np.fromiter(map(len, groups), np.int64, len(groups))
    wanted = np.fromiter(itertools.chain.from_iterable(groups), np.int64, int(counts.sum()))
    units = np.repeat(np.arange(len(groups)), counts)
    places = np.arange(len(wanted)) - np.repeat(np.cumsum(counts) - counts, counts)
    seqs = sequences(np.zeros_like(places), places)
    times = np.bincount(wanted, minlength=len(parts))[wanted]
    own = (stops - starts)[wanted]
    piece = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
    sources = sent[np.repeat(starts[wanted], own) + piece]
    order = np.argsort(sources, kind="stable")
    to = np.stack([sources, np.repeat(units, own), np.repeat(seqs, own) + piece])
    arrays: tuple[Iterable[NDArray[np.int64]], ...] = (
        [np.array([len(groups), len(parts), sizes.sum()]), np.flatnonzero(counts == 0)],
        to[:, order],
        np.stack([units, seqs, times])[:, times > 1],
    )
    return [WireRow(0, seq, 0, packed(each)) for seq, each in enumerate(arrays)]


def _tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=_BATCH_PARTS):
        yield from zip(*batch.to_pydict().values(), strict=True)


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
    """Return the task that sends each wire row to the units that want it, as ``routed`` tells."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sources, *to = unpacked(routes)
        units = np.stack(to)

        def sent(row: WireRow) -> list[WireRow]:
            low, high = np.searchsorted(sources, [row.seq, row.seq + 1])
            wanted = units[:, low:high].T.tolist()
            return [WireRow(unit, seq, row.rows, row.blob) for unit, seq in wanted]

        yield from each_row(sent)(batches)

    return run
