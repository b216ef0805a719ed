"""How much a new value counts where older ones fade, from whichever measure of it is given."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from tessel.errors import PlanError, shown


def fading_of(
    alpha: float | None, span: float | None, halflife: float | str | None, com: float | None
) -> tuple[float | None, str | None]:
    """Return how much a new value counts, or a half-life in time, from whichever is given.

    Raises
    ------
    PlanError
        Unless exactly one is given, a number in its range.
    """
    given = {"alpha": alpha, "span": span, "halflife": halflife, "com": com}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) != 1:
        raise PlanError(
            f"ewm takes one of alpha, span, halflife and com, not {sorted(named) or 'none'}",
            hint="ewm(span=20)",
        )
    name, given_value = next(iter(named.items()))
    value: Any = given_value
    if isinstance(value, np.number):
        value = value.item()
    if name == "halflife" and isinstance(value, str):
        return None, value
    least, inclusive = {"alpha": (0, 0), "span": (1, 1), "halflife": (0, 0), "com": (0, 1)}[name]
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) <= sys.float_info.max  # neither NaN nor past what a float holds
    ):
        raise PlanError(f"ewm: {name} is a number, not {shown(value)}")
    if value < least or (value == least and not inclusive) or (name == "alpha" and value > 1):
        raise PlanError(
            f"ewm: {name} is {value!r}",
            hint="alpha lies above 0, up to 1; span from 1 on; halflife above 0; com from 0 on",
        )
    if name == "alpha":
        return float(value), None
    if name == "halflife":
        value = 1 / (1 - math.exp(-math.log(2) / value)) - 1
    return 1 / (1 + ((value - 1) / 2 if name == "span" else value)), None
