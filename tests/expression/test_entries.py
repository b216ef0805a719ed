"""Entries of dictionaries as numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tessel.expression.block_entries import Entries


def test_a_signalling_nan_is_no_number_and_warns_nobody() -> None:
    words = np.array([0x3FC00000, 0x7F800001, 0xFFC00000], np.uint32)  # 1.5 and two NaNs
    found = Entries(pa.array(words).view(pa.float32())).numbers
    assert found is not None
    numbers, least, greatest = found
    assert numbers.tolist() == [1.5, 0.0, 0.0]
    assert (least, greatest) == (1.5, 1.5)
