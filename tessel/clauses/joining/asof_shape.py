"""What an as-of join makes of two schemas, and how it counts their times.

Finding, for a time and a key, the row of an ordered table that is nearest on one side.

The rows of each key are brought together, in their order, which is that of time; among them the
kernel :func:`tessel.kernels.match_rows.nearest_rows` finds the place of a time. Times are compared
as whole numbers, and nothing overflows whatever they are.

Which pieces of the right an as-of join may want for a piece of the left, from their times alone.

The times that are known of a piece are those between which its rows lie; they may lie closer. A
piece without rows is of no use, and one whose times are not known may have any.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import numpy_array
from tessel.cached import cached
from tessel.clauses.buckets.rules import parse_span
from tessel.clauses.joining.lookup import KeyTable
from tessel.clauses.joining.shape import Sides, as_keys
from tessel.clauses.structures import UnitFacts
from tessel.errors import IntegerOverflowError, PlanError
from tessel.expression.schema import TableSchema
from tessel.expression.types import DAY_NANOSECONDS, UNIT_NANOSECONDS, counted_nanoseconds
from tessel.kernels.match_rows import Looks, NearestRows
from tessel.lazy import dataclass
from tessel.store.index_column import index_integers

Direction = Literal["backward", "forward", "nearest"]
DIRECTIONS: tuple[str, ...] = get_args(Direction)

Times = NDArray[np.int64]
Rows = NDArray[np.int64]


def check_tolerance(tolerance: object) -> None:
    """Raise ``PlanError`` for what is neither a span of text nor a whole number from 0 on."""
    if isinstance(tolerance, str):
        parse_span(tolerance, "tolerance")
    elif tolerance is not None:
        whole = isinstance(tolerance, int) and not isinstance(tolerance, bool)
        if not whole or tolerance < 0:  # type: ignore[operator]
            raise PlanError(
                f"join_asof: tolerance is {tolerance!r}",
                hint='it is a span such as "5s", or a whole number in the unit of the time index',
            )


@dataclass(frozen=True)
class AsofShape(Sides):
    """Two schemas, each with a time index, and which row of the right goes beside one of the left.

    Attributes
    ----------
    on
        Pairs of columns that must be equal besides.
    direction, tolerance, allow_exact_matches
        As in :class:`tessel.clauses.join_asof.JoinAsof`.
    """

    verb: ClassVar[str] = "join_asof"
    keeps_left: ClassVar[bool] = True
    keeps_right: ClassVar[bool] = False
    left: TableSchema
    right: TableSchema
    on: tuple[tuple[str, str], ...]
    direction: Direction
    tolerance: str | int | None
    allow_exact_matches: bool
    suffix: str

    def describe(self) -> str:
        """Return one line for people: the times, the keys and the direction."""
        one, two = self.index
        shown = one if one == two else f"{one}={two}"
        by = ", ".join(a if a == b else f"{a}={b}" for a, b in self.on)
        within = "" if self.tolerance is None else f", tolerance={self.tolerance}"
        return f"on={shown}{f', by={by}' if by else ''}, {self.direction}{within}"

    @property
    def index(self) -> tuple[str, str]:
        """The time indexes of both sides."""
        assert self.left.index is not None
        assert self.right.index is not None
        return self.left.index, self.right.index

    @cached
    def time_type(self) -> pa.DataType:
        """The type in which times are compared: that of the finer unit."""
        return self.compared_as(*self.index)

    @cached
    def right_names(self) -> dict[str, str]:
        """The right's columns that come out, each with its name there."""
        one, two = self.index
        keys = {name for _, name in self.on}
        return self._right_without(keys | {two} if one == two else keys)

    @cached
    def schema(self) -> TableSchema:
        """The columns that come out; two of one name raise ``DuplicateColumnError``."""
        fields = [*self.left.arrow, *self._fields_of_right()]
        return TableSchema(pa.schema(fields), self.left.index)

    @cached
    def most_apart(self) -> int | None:
        """The tolerance in the unit in which times are compared.

        Raises PlanError for a span of time where times are whole numbers.
        """
        if self.tolerance is None:
            return None
        kind = self.time_type
        if isinstance(self.tolerance, int):
            own = self.left.type_of(self.index[0])
            if pa.types.is_timestamp(own):
                return self.tolerance * UNIT_NANOSECONDS[own.unit] // UNIT_NANOSECONDS[kind.unit]
            return self.tolerance
        if pa.types.is_integer(kind):
            raise PlanError(
                f"join_asof: the tolerance is {self.tolerance!r}, and the index counts in {kind}",
                hint="give a whole number",
            )
        length, days = parse_span(self.tolerance, "tolerance")
        unit = DAY_NANOSECONDS if pa.types.is_date(kind) else UNIT_NANOSECONDS[kind.unit]
        return length * (DAY_NANOSECONDS if days else 1) // unit

    def times(self, table: pa.Table, side: Literal[0, 1]) -> Times:
        """Return the times of the left (0) or the right (1) as they are compared, int64.

        Raises IndexColumnError where one is missing; IntegerOverflowError for one that the finer
        unit cannot count.
        """
        name = self.index[side]
        column = table.column(name)
        own: Times = index_integers(column, name)  # says where one is missing
        if column.type == self.time_type and not pa.types.is_date64(column.type):
            return own
        (found,) = as_keys([column], [self.time_type])
        if found.null_count:
            raise IntegerOverflowError(
                f"join_asof compares times in {self.time_type}, which cannot hold all of {name!r}",
                hint=f'cast the other side, for instance apply("{name}", '
                f'col("{name}").cast("{column.type}")), or filter such times away',
                column=name,
            )
        counts: Times = numpy_array(found.cast(pa.int64()))
        return counts


Numbers = NDArray[np.int64]


class AsofTable:
    """The right side of an as-of join, ready to be asked.

    Parameters
    ----------
    right
        Its rows, ordered by time.
    times
        Their times, as ``shape.times`` gives them, where these are here already.
    """

    def __init__(self, shape: AsofShape, right: pa.Table, times: Numbers | None = None) -> None:
        if times is None:
            times = shape.times(right, 1)
        self._shape = shape
        self._keys = KeyTable(shape.keys(right, 1)) if shape.on else None
        self._rows = None if self._keys is None else self._keys.rows
        starts = np.array([0, len(times)], np.int64) if self._keys is None else self._keys.starts
        self._nearest = NearestRows(
            times if self._rows is None else times[self._rows],
            starts,
            looks=Looks[shape.direction.upper()],
            exact=shape.allow_exact_matches,
            most_apart=shape.most_apart,
        )

    def find(self, left: pa.Table) -> Numbers:
        """Return the row of the right that goes beside each row of the left, −1 for none."""
        codes = None
        if self._keys is not None:
            codes = self._keys.find(self._shape.keys(left, 0))
        places = self._nearest.find(self._shape.times(left, 0), codes)
        if self._rows is None or not len(self._rows):
            return places
        # No row is found at place −1, which takes the last row and is put right after.
        rows = self._rows[places]
        rows[places < 0] = -1
        return rows


def pieces_in_reach(shape: AsofShape, units: Sequence[UnitFacts]) -> list[list[int]]:
    """Return groups of pieces, one for each unit of the left, as positions among all pieces.

    Parameters
    ----------
    units
        Facts of the pieces of both sides, symbol 0 and symbol 1, each in plan order.
    """
    right = [at for at, facts in enumerate(units) if facts.symbol == 1 and facts.rows]
    left = [at for at, facts in enumerate(units) if facts.symbol == 0 and facts.rows]
    one, two = shape.index
    # By what times are multiplied, so that those of both sides count the same unit.
    kinds = shape.left.type_of(one), shape.right.type_of(two)
    scales = [counted_nanoseconds(kind) or 1 for kind in kinds]
    spans = _spans(units, right, scales[1])
    # Where they do not follow one another each gets all, and finds what is not in order.
    ordered = spans is not None and all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    groups = []
    for _, members in itertools.groupby(left, key=lambda at: units[at].unit):
        group = list(members)
        own = _spans(units, group, scales[0])
        wanted = range(len(right))
        if ordered and own is not None and spans is not None:
            first, last = min(span[0] for span in own), max(span[1] for span in own)
            wanted = _in_reach(shape, first, last, spans)
        groups.append([*group, *(right[at] for at in wanted)])
    return groups


def _in_reach(shape: AsofShape, first: int, last: int, spans: Sequence[tuple[int, int]]) -> range:
    """Return the pieces that rows of times from ``first`` to ``last`` may want."""
    # Pieces before this one end before the first time; all rows of the last of them do.
    start = bisect.bisect_left(spans, first, key=lambda span: span[1])
    stop = bisect.bisect_right(spans, last, key=lambda span: span[0])
    if shape.direction != "forward":
        start = max(0, start - 1)
    if shape.direction != "backward" and stop < len(spans):
        # The first piece behind has the first row behind; of rows of its time the last is taken.
        stop += 1
        while stop < len(spans) and spans[stop][0] <= spans[stop - 1][1]:
            stop += 1
    return range(start, stop)


def _spans(
    units: Sequence[UnitFacts], pieces: Sequence[int], scale: int
) -> list[tuple[int, int]] | None:
    """Return between which times the rows of pieces lie; None where that is not known of all."""
    times = [units[at].time_range for at in pieces]
    known = [(each.first * scale, each.last * scale) for each in times if each is not None]
    return known if len(known) == len(pieces) else None
