"""Parts of instants and dates, on the clock of the column's zone, and time buckets."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.errors import ExpressionError, shown
from tessel.expression.node import Expression, require_text
from tessel.expression.operators.shapes import Unary, require
from tessel.expression.types import UNIT_NANOSECONDS, Family, Operand, Signature, refuse


class TimePart(Unary):
    """A number read from the calendar or the clock."""

    families: ClassVar[tuple[Family, ...]] = (Family.TIMESTAMP, Family.DATE)

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return int32."""
        (operand,) = operands
        require(self.name, operand, *self.families)
        taken = pa.timestamp("us") if operand.family is Family.NULL else operand.type
        return Signature((taken,), pa.int32())


class ClockPart(TimePart):
    """A number read from the clock: dates have none."""

    families: ClassVar[tuple[Family, ...]] = (Family.TIMESTAMP, Family.TIME)


class Year(TimePart, name="year"):
    """The year."""


class Month(TimePart, name="month"):
    """The month, 1 to 12."""


class Day(TimePart, name="day"):
    """The day of the month."""


class Weekday(TimePart, name="weekday"):
    """The day of the week, Monday 0 to Sunday 6."""


class Hour(ClockPart, name="hour"):
    """The hour, 0 to 23."""


class Minute(ClockPart, name="minute"):
    """The minute."""


class Second(ClockPart, name="second"):
    """The whole second."""


class DateOf(Unary, name="date"):
    """The date on the clock of the column's zone."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return a date."""
        (operand,) = operands
        require("date", operand, Family.TIMESTAMP, Family.DATE)
        taken = pa.date32() if operand.family is Family.NULL else operand.type
        return Signature((taken,), pa.date32())


class Floor(Expression, name="floor"):
    """The start of the time bucket that an instant lies in.

    A rule of ``h min s ms us ns`` is elapsed time counted from the epoch; a rule of days is a
    calendar: whole local days counted from 1970-01-01, beginning at their first instant.
    """

    operand: Expression
    rule: str

    @property
    def nanoseconds(self) -> int:
        """The length of the bucket; of a calendar rule, as if no clock ever changed."""
        from tessel.expression.temporal import parse_duration

        found = parse_duration(self.rule)
        return 0 if found is None else found

    @property
    def calendar_days(self) -> int:
        """The number of days of a calendar rule; 0 for elapsed time."""
        stripped = self.rule.strip().lower()
        digits = stripped[:-1].strip()
        return int(digits) if stripped.endswith("d") and digits.isdecimal() else 0

    def check(self) -> None:
        """Raise where the rule is not a duration above zero."""
        require_text(self.rule, "the rule of floor")
        if self.nanoseconds <= 0:
            raise ExpressionError(
                f"{shown(self.rule)} is not a bucket length",
                hint="write a duration like '15min', '1h30min' or '1d' (units d h min s ms us ns)",
                rule=shown(self.rule),
            )

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the operand's type."""
        (operand,) = operands
        require(self.name, operand, Family.TIMESTAMP)
        if operand.family is Family.NULL:
            return Signature((pa.timestamp("us"),), pa.timestamp("us"))
        unit = UNIT_NANOSECONDS[operand.type.unit]
        if unit % self.nanoseconds and self.nanoseconds % unit:
            refuse(
                f"floor to {self.rule}",
                (operand,),
                "bucket starts are not whole units of the column; cast it to a finer unit",
            )
        return Signature((operand.type,), operand.type)
