"""Why tests of ArcticDB fail here: a pattern of the test and of its error, and the reason.

The first that is found counts. What none is found for is a defect of ours, or was not looked at.
"""

from __future__ import annotations

import re

REASONS = [
    (
        r"pickle|Pickle|is no table|JSON serializable|recursive|custom_thing|normaliz"
        r"|unfilterable_data|numpy_array|mismatched_object_kind|ndarray",
        "objects that are no tables are refused by name; metadata are JSON",
    ),
    (
        r"_dev_tools|data_type|library_tool|version_store\b'|_lib_cfg|lib_cfg|get_backing_store|staged_segments"
        r"|_encoding_version|_set_allow_arrow_input|_collect_schema|ManualClock|query_stats"
        r"|TABLE_DATA|has no setter|restore_version|to_strings|missing_keys|add_to_snapshot"
        r"|test_lib_has|column_stats|storage_op|sort_index",
        "asks for inner objects of theirs, or counts their reads",
    ),
    (
        r"FixtureLookupError|place in a cloud|s3|azur|mongo|lmdb_|test_lmdb|StoreNotVisible",
        "storage fixtures: clouds that are simulated, and LMDB itself",
    ),
    (
        r"versions? of|takes no (versions|skip_symbols|metadata)|VersionedItem.*\.version|as_of"
        r"|prune|snapshot|tombstone|version_|list_versions|RefNameError|RefExistsError"
        r"|at version|_versions|latest_live",
        "numbers of versions by symbol from 0, single versions and snapshots of some symbols: 10.5",
    ),
    (
        r"UNSORTED|UNKNOWN|DESCENDING|UnsortedIndexError|unsorted|not_sorted|out_of_order",
        "a time index is in order: validate_index=False is no way round it",
    ),
    (
        r"Rang|range_index",
        "a RangeIndex that is not whole begins at 0, and is not compared when rows are appended",
    ),
    (
        r"dtype|Attribute.* are different|Attributes of|dynamic_missing|_missing_|not_in_segment"
        r"|null_filtering|expected NaN|isnan",
        "a missing value stays missing (theirs is 0 for integers, and some counts are floats)",
    ),
    (
        r"int\d+.*uint|uint\d+.*int|float.*int|double.*int|int64.*(float|double)|type_promotion"
        r"|cannot choose|not of one kind",
        "types that no common type holds are refused: int64 with uint64, 64 bits with floats",
    ),
    (r"'' is no column name", "a column without a name is not renamed"),
    (r"no column in common", "an inner join of symbols without a common column is refused"),
    (r"sorts by the index alone", "staged rows are sorted by the index alone"),
    (r"two columns are named|column-duplicate|None is no text", "columns of one name are refused"),
    (r"a table without columns", "a table without columns is refused"),
    (
        r"resample needs a time index",
        "rows of several symbols are in no order of time, so that they are not resampled",
    ),
    (
        r"frequency_strings|DID NOT RAISE",
        "theirs refuses what is offered here: calendar rules, order of text, other types",
    ),
    (r"ends before it begins", "a range whose ends are exchanged is an error, not empty"),
    (r"do not all lie", "rows outside the range of an update are refused, not left out"),
    (r"single versions", "single versions are not deleted"),
    (r"staged other columns|staged", "staged rows have the columns of their symbol"),
    (
        r"DataError|version_request|error_code|enterprise|ModifiableEnterprise|not offered",
        "a DataError holds the error itself; enterprise options are none here",
    ),
    (r"assert .* in |Regex pattern|Expected regex|match", "the words of an error are other ones"),
]


def reason_of(test: str, why: str) -> str:
    """Return the reason of a failed test."""
    text = f"{test.rpartition('/')[2]} {why}"
    for pattern, reason in REASONS:
        if re.search(pattern, text):
            return reason
    return "no reason: a defect, or not looked at"
