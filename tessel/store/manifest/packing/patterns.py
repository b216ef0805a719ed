"""Regular expressions over names of symbols: checked, anchored, and matched in linear time.

The expressions are RE2's, as pyarrow has it: no expression can make it backtrack, whatever the
name, and what RE2 cannot do in linear time (back-references, looking around) it refuses to
compile. So a configuration that a stranger wrote into a store costs no more than its length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, numpy_array

__all__ = ["EVERYTHING", "PATTERN_LENGTH", "fault_of", "full_matches"]

EVERYTHING = ".*"
"""The pattern of every name."""

PATTERN_LENGTH = 1_000
"""Characters of the longest pattern."""


def fault_of(pattern: object) -> str | None:
    """Return why ``pattern`` is no regular expression, or None where it is one."""
    if not isinstance(pattern, str):
        return f"it is a {type(pattern).__name__}, not text"
    if len(pattern) > PATTERN_LENGTH:
        return f"it has {len(pattern)} characters; {PATTERN_LENGTH} are the most"
    # Alone as well as anchored: "a)|(b" is sound only between the anchors, where it would no
    # longer be anchored.
    for form in (pattern, _anchored(pattern)):
        try:
            pc.match_substring_regex(arrow_array([""], pa.string()), form)
        except (pa.ArrowInvalid, UnicodeEncodeError) as error:
            return str(error).splitlines()[0]
    return None


def full_matches(pattern: str, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return for each name whether all of it matches; bool, shape ``(len(names),)``."""
    if pattern == EVERYTHING:
        return np.ones(len(names), dtype=bool)
    found = pc.match_substring_regex(arrow_array(names, pa.string()), _anchored(pattern))
    matches: npt.NDArray[np.bool_] = numpy_array(found)
    return matches


def _anchored(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"
