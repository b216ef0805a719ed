"""The compiled twins; imported where numba is there and wanted, see :mod:`tessel.kernels.jit`.

Each takes arrays of fixed types, so that there is one machine code of each and no more: whatever
the widths, encodings and numbers of columns, they are data here.
"""

from __future__ import annotations

from tessel.kernels.compiled.best_rows import best_rows
from tessel.kernels.compiled.count_repeats import count_repeats
from tessel.kernels.compiled.count_values import add_counts, count_values, runs_of_counts
from tessel.kernels.compiled.decode_rows import decode_numbers, decode_texts
from tessel.kernels.compiled.fade_rows import fade_rows
from tessel.kernels.compiled.filter_rows import filter_rows
from tessel.kernels.compiled.first_of_groups import first_of_groups
from tessel.kernels.compiled.group_rows import group_range
from tessel.kernels.compiled.group_sums import add_groups
from tessel.kernels.compiled.group_texts import group_texts, grown_texts
from tessel.kernels.compiled.limb_lines import (
    add_doubles,
    add_integers,
    add_limbs,
    add_shifted,
    double_range,
    round_sums,
    trim_lines,
)
from tessel.kernels.compiled.load_rows import load_rows
from tessel.kernels.compiled.match_rows import match_ends, match_rows
from tessel.kernels.compiled.nearest_rows import choose_rows, last_of_runs, rows_before
from tessel.kernels.compiled.register_rows import register_rows
from tessel.kernels.compiled.rows_by_code import count_codes, place_rows
from tessel.kernels.compiled.run_facts import add_runs
from tessel.kernels.compiled.running_rows import (
    exponent_range,
    run_best,
    run_counts,
    run_doubles,
    run_integers,
)
from tessel.kernels.compiled.search_rows import search_rows
from tessel.kernels.compiled.select_rows import select_ranges, select_rows
from tessel.kernels.compiled.sort_runs import sort_short_runs
from tessel.kernels.compiled.source_rows import edges_of_gaps, nearest_present, rows_away
from tessel.kernels.compiled.text_numbers import find_texts, number_texts
from tessel.kernels.compiled.window_rows import rows_until, window_best, window_sums
from tessel.kernels.compiled.window_spreads import window_spreads
from tessel.kernels.compiled.word_numbers import (
    find_in_range,
    find_in_slots,
    move_slots,
    number_in_range,
    number_in_slots,
)

__all__ = [
    "add_counts",
    "add_doubles",
    "add_groups",
    "add_integers",
    "add_limbs",
    "add_runs",
    "add_shifted",
    "best_rows",
    "choose_rows",
    "count_codes",
    "count_repeats",
    "count_values",
    "decode_numbers",
    "decode_texts",
    "double_range",
    "edges_of_gaps",
    "exponent_range",
    "fade_rows",
    "filter_rows",
    "find_in_range",
    "find_in_slots",
    "find_texts",
    "first_of_groups",
    "group_range",
    "group_texts",
    "grown_texts",
    "last_of_runs",
    "load_rows",
    "match_ends",
    "match_rows",
    "move_slots",
    "nearest_present",
    "number_in_range",
    "number_in_slots",
    "number_texts",
    "place_rows",
    "register_rows",
    "round_sums",
    "rows_away",
    "rows_before",
    "rows_until",
    "run_best",
    "run_counts",
    "run_doubles",
    "run_integers",
    "runs_of_counts",
    "search_rows",
    "select_ranges",
    "select_rows",
    "sort_short_runs",
    "trim_lines",
    "window_best",
    "window_spreads",
    "window_sums",
]
