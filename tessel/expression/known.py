"""What statistics can say of one node in every row slice, and the small algebra on it.

Used by the rules of the statistics domain and by nothing else.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_scalar, fill_null, numpy_array
from tessel.expression.checking import NodeType
from tessel.expression.kernels.values import Value, coerce
from tessel.expression.node import Expression
from tessel.lazy import dataclass

__all__ = ["Asked", "Flags", "Known", "as_truth", "nothing_known", "null_flags"]

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a node in every slice.

    Attributes
    ----------
    low, high
        Bounds of the values present: arrays, or scalars for all slices; None where unknown.
    true, false
        Whether a row can be true or false, for truth values; None for other types.
    value, missing
        Whether a row can have a value, and whether one can be missing.
    exact
        Whether the bounds used may prove TRUE.
    """

    value: Flags
    missing: Flags
    exact: Flags
    low: Value | None = None
    high: Value | None = None
    true: Flags | None = None
    false: Flags | None = None


@dataclass(frozen=True, eq=False)
class Asked:
    """One node on its way through the rules."""

    node: Expression
    type: NodeType
    operands: tuple[Known, ...]
    slices: int

    def flags(self, value: bool) -> Flags:
        """Return one flag for every slice."""
        return np.full(self.slices, value)

    def exact(self) -> Flags:
        """Return where the bounds of all operands may prove TRUE."""
        together = self.flags(True)
        for operand in self.operands:
            together = together & operand.exact
        return together

    def missing(self) -> Flags:
        """Return where an operand can be missing."""
        together = self.flags(False)
        for operand in self.operands:
            together = together | operand.missing
        return together

    def present(self) -> Flags:
        """Return where all operands can have a value."""
        together = self.flags(True)
        for operand in self.operands:
            together = together & operand.value
        return together

    def proved(self, value: Value) -> Flags:
        """Return where a computed condition is true; null proves nothing."""
        if isinstance(value, pa.Scalar):
            return self.flags(value.as_py() is True)
        return np.asarray(numpy_array(fill_null(value, False)), dtype=bool)

    def truth(self, never_true: Flags, never_false: Flags) -> Known:
        """Return the outcome of a comparison of values that are present."""
        present, missing = self.present(), self.missing()
        true, false = present & ~never_true, present & ~never_false
        return Known(true | false, missing, self.exact(), true=true, false=false)


def nothing_known(asked: Asked) -> Known:
    """Return what is known without a rule: any row can be anything."""
    yes = asked.flags(True)
    return Known(yes, yes, yes)


def null_flags(values: pa.Array) -> Flags:
    """Return where values are null."""
    return np.asarray(numpy_array(values.is_null()), dtype=bool)


def as_truth(known: Known, slices: int) -> Known:
    """Return what is known of a truth value; its bounds say which of the two can be."""
    if known.true is not None:
        return known
    can = [known.value, known.value]
    for place, (bound, seen) in enumerate(((known.high, True), (known.low, False))):
        if bound is None:
            continue
        same = pc.equal(coerce(bound, pa.bool_()), arrow_scalar(seen))
        if isinstance(same, pa.Scalar):
            possible = np.full(slices, same.as_py() is not False)
        else:
            possible = numpy_array(fill_null(same, True))
        can[place] = known.value & possible
    return Known(known.value, known.missing, known.exact, true=can[0], false=can[1])
