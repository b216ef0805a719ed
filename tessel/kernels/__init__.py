"""Loops over arrays, each written once in Python and compiled by the build of the package.

The clauses and the store enter here with the bytes of a segment and tables of plain integers that
say where its values lie (:class:`StoredBlocks`), and with a :class:`Program`: what is computed of a
block of rows while it is in the cache. Rows that arrive as structs enter with a
:class:`RowProgram`. A family of kernels is one file here: functions that allocate answers and
scratch memory, and below them the loops (:mod:`tessel.kernels.declare`). This package knows numbers
and nothing else: no types and no files. What is compiled, and how, is in
:mod:`tessel.kernels.build`; at run time its library is loaded by :mod:`tessel.kernels.library`.
"""

from __future__ import annotations

from tessel.kernels.best_rows import NO_LIMIT, BestRows, best_rows, ordered_doubles
from tessel.kernels.blocks import (
    ALL_MISSING,
    ALL_PRESENT,
    SINGLE_BITS,
    SINGLE_SCALED,
    Gap,
    StoredBlocks,
    beside,
    floats_of,
)
from tessel.kernels.count_repeats import count_repeats
from tessel.kernels.count_values import add_counts, count_values, runs_of_counts
from tessel.kernels.decimal_bounds import DecimalBounds
from tessel.kernels.decimal_sums import DecimalSum
from tessel.kernels.decode_rows import TextTable, decode_numbers, decode_texts
from tessel.kernels.exact_spreads import exact_spreads
from tessel.kernels.exact_sums import (
    NEGATIVE,
    POSITIVE,
    ExactSums,
    add_by_group,
    decimal_steps,
)
from tessel.kernels.fade_rows import Fading, fade_rows, new_states
from tessel.kernels.fields import EXTREMES, Fact, FieldKind, SumField
from tessel.kernels.filter_rows import FilteredRows, StructRows, filter_rows
from tessel.kernels.first_of_groups import first_of_groups
from tessel.kernels.group_rows import group_range, group_words
from tessel.kernels.group_sums import GroupSums, group_sums
from tessel.kernels.group_texts import Texts, group_texts
from tessel.kernels.load_rows import load_rows
from tessel.kernels.match_rows import match_ends, match_rows
from tessel.kernels.nearest_rows import Looks, NearestRows
from tessel.kernels.program import RESIDUAL_SHIFT, Op, Program
from tessel.kernels.register_rows import register_rows
from tessel.kernels.row_program import RowOp, RowProgram, RowStatus, field_load
from tessel.kernels.rows_by_code import order_of_codes, rows_by_code
from tessel.kernels.run_facts import run_facts
from tessel.kernels.running_rows import (
    REST_BITS,
    exponent_range,
    run_best,
    run_counts,
    run_doubles,
    run_integers,
)
from tessel.kernels.search_rows import search_rows
from tessel.kernels.select_rows import select_places, select_rows
from tessel.kernels.sort_runs import sort_runs
from tessel.kernels.source_rows import edges_of_gaps, nearest_present, rows_away
from tessel.kernels.text_numbers import TextNumbers
from tessel.kernels.window_rows import rows_until, short_window_sums, window_best, window_sums
from tessel.kernels.window_spreads import window_spreads
from tessel.kernels.word_numbers import WordNumbers

__all__ = [
    "ALL_MISSING",
    "ALL_PRESENT",
    "EXTREMES",
    "NEGATIVE",
    "NO_LIMIT",
    "POSITIVE",
    "RESIDUAL_SHIFT",
    "REST_BITS",
    "SINGLE_BITS",
    "SINGLE_SCALED",
    "BestRows",
    "DecimalBounds",
    "DecimalSum",
    "ExactSums",
    "Fact",
    "Fading",
    "FieldKind",
    "FilteredRows",
    "Gap",
    "GroupSums",
    "Looks",
    "NearestRows",
    "Op",
    "Program",
    "RowOp",
    "RowProgram",
    "RowStatus",
    "StoredBlocks",
    "StructRows",
    "SumField",
    "TextNumbers",
    "TextTable",
    "Texts",
    "WordNumbers",
    "add_by_group",
    "add_counts",
    "beside",
    "best_rows",
    "count_repeats",
    "count_values",
    "decimal_steps",
    "decode_numbers",
    "decode_texts",
    "edges_of_gaps",
    "exact_spreads",
    "exponent_range",
    "fade_rows",
    "field_load",
    "filter_rows",
    "first_of_groups",
    "floats_of",
    "group_range",
    "group_sums",
    "group_texts",
    "group_words",
    "load_rows",
    "match_ends",
    "match_rows",
    "nearest_present",
    "new_states",
    "order_of_codes",
    "ordered_doubles",
    "register_rows",
    "rows_away",
    "rows_by_code",
    "rows_until",
    "run_best",
    "run_counts",
    "run_doubles",
    "run_facts",
    "run_integers",
    "runs_of_counts",
    "search_rows",
    "select_places",
    "select_rows",
    "short_window_sums",
    "sort_runs",
    "window_best",
    "window_spreads",
    "window_sums",
]
