"""in_zone: the time index in another time zone, the instants as they are."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from tessel.clauses.base import Clause, ClauseInfo, IndexEffect
from tessel.clauses.registry import register
from tessel.ecs import ProcessingUnit
from tessel.errors import IndexColumnError, PlanError
from tessel.expression.schema import TableSchema
from tessel.expression.types import check_zone
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class InZone(Clause):
    """The time index on the clocks of another time zone; instants and their order stay.

    Attributes
    ----------
    tz
        The zone's name, such as ``"Europe/Berlin"``, or an offset: ``"+01:00"``.
    """

    name: ClassVar[str] = "in_zone"
    tz: str

    def __post_init__(self) -> None:
        if not isinstance(self.tz, str):
            raise PlanError(f"a time zone is text, not {self.tz!r:.80}", hint='"Europe/Berlin"')
        check_zone(self.tz)

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out, order and count kept."""
        return ClauseInfo(
            columns=frozenset(), uses_index=True, keeps_count=True, index=IndexEffect.REPLACE
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the schema with the index in the zone; an index without a zone is refused."""
        if input_schema.index is None:
            raise IndexColumnError.required("in_zone")
        kind = input_schema.type_of(input_schema.index)
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            raise IndexColumnError(
                f"the index {input_schema.index!r} has no time zone: it is {kind}",
                hint="tz= takes instants from one zone to another; write the symbol with times "
                "that have a zone",
                type=str(kind),
            )
        place = input_schema.names.index(input_schema.index)
        field = pa.field(input_schema.index, pa.timestamp(kind.unit, self.tz))
        return TableSchema(input_schema.arrow.set(place, field), input_schema.index)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Put the zone into the type of the index: no value changes."""
        schema = self.output_schema(unit.schema)
        return unit.replace(unit.table.cast(schema.arrow), index=schema.index)
