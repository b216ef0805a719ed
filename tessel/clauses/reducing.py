"""The first halves of groupby and resample: the rows of a unit become groups with partial states.

A unit is reduced as it is stored. Where kernels cannot do that for an aggregate (the least of texts
that are no dictionary, a deviation of doubles), values of its own inputs are read, and the others
are still made of stored integers: both see the same rows, and give groups in the order in which
they first appear. Where kernels cannot do it for the keys, all are made of values.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence

from tessel import telemetry
from tessel.clauses.aggregates.base import has_compact_state
from tessel.clauses.base import LoweredClause
from tessel.clauses.grouped.group_states import GroupShape
from tessel.clauses.grouped.kernel_reductions import all_reducible
from tessel.clauses.grouped.partial_groups import PartialGroups, joined_groups
from tessel.clauses.results import NamedAggregate
from tessel.clauses.units.bound_unit import BoundUnit, is_bound
from tessel.clauses.units.reduced import ReducedUnit
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.lazy_columns import forms_of


class Reducing(LoweredClause):
    """A clause that gives one row a group of a unit: keys, and the state of each aggregate."""

    aggregates: tuple[NamedAggregate, ...]

    @abstractmethod
    def shape_of(self, schema: TableSchema) -> GroupShape:
        """Return the keys and the aggregates of a table of a schema."""

    @abstractmethod
    def of_stored(
        self, rows: Sequence[Batch], shape: GroupShape, *, by_appearance: bool
    ) -> list[PartialGroups] | None:
        """Return the groups of rows that are not read; None where values are needed.

        Parameters
        ----------
        rows
            Those of a unit.
        shape
            That of the clause, or with some of its aggregates.
        by_appearance
            Whether groups are wanted in the order of first appearance.
        """

    @abstractmethod
    def of_values(self, unit: ProcessingUnit, shape: GroupShape) -> list[PartialGroups]:
        """Return the groups of a unit in the order of first appearance."""

    def shape(self, schema: TableSchema) -> GroupShape:
        """Return what :meth:`shape_of` gives, kept for the next unit: all have one schema."""
        found: GroupShape | None = self.__dict__.get("_last")
        if found is None or found.source is not schema:
            found = self.__dict__["_last"] = self.shape_of(schema)
        return found

    @property
    def is_reducible(self) -> bool:
        """Whether states of all aggregates can be made of stored integers, and do not grow."""
        return all_reducible(self.aggregates) and all(
            has_compact_state(each.aggregate) for each in self.aggregates
        )

    def reduced(self, unit: ProcessingUnit) -> ProcessingUnit | None:
        """Reduce a unit that is not read, as it is stored, where all of its columns allow it."""
        if not is_bound(unit):
            return None
        shape = self.shape(unit.schema)
        groups = unit.reduced_by(lambda rows: self.of_stored(rows, shape, by_appearance=False))
        return None if groups is None else self._unit(unit, groups)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Reduce the unit."""
        found = self.reduced(unit)
        if found is not None:
            return found
        shape = self.shape(unit.schema)
        groups = self._of_both(unit, shape) if is_bound(unit) else None
        return self._unit(unit, groups or self.of_values(unit, shape))

    def _unit(self, unit: ProcessingUnit, groups: Sequence[PartialGroups]) -> ProcessingUnit:
        return ReducedUnit.of(unit, self.output_schema(unit.schema), groups)

    def _of_both(self, unit: BoundUnit, shape: GroupShape) -> list[PartialGroups] | None:
        """Reduce a unit as it is stored for some aggregates, by values for the others.

        Which can be reduced as they are stored is tried one by one for the first unit, and assumed
        of the next. None where that is none of them.
        """
        parts: list[PartialGroups] = []
        told: dict[str, str] = {}

        def is_stored(part: GroupShape) -> bool:
            found = unit.reduced_by(lambda rows: self.of_stored(rows, part, by_appearance=True))
            if found is not None:
                parts.append(joined_groups(found))
                told.update(unit.told)
            return found is not None

        halves = shape.halves
        if halves is None or (halves[0].aggregates and not is_stored(halves[0])):
            ones = shape.aggregates if len(shape.aggregates) > 1 else ()
            found = [each for each in ones if is_stored(shape.of([each]))]
            left = [each for each in shape.aggregates if each not in found]
            halves = shape.halves = shape.of(found), shape.of(left)
        if not parts:
            return None
        others = halves[1]
        if others.aggregates:
            wanted = {*shape.keys, *(name for each in others.aggregates for name in each.inputs)}
            values = unit.select([name for name in unit.schema.names if name in wanted])
            parts.append(joined_groups(self.of_values(values, others)))
            if telemetry.is_followed():
                told = forms_of(values.schema.arrow) | told
        if len({part.num_rows for part in parts}) > 1:
            return None  # page tables that say otherwise than values are forged
        unit.was_reduced, unit.told = True, told
        states = {key: state for part in parts for key, state in part.states.items()}
        return [dataclasses.replace(parts[0], shape=shape, states=states)]
