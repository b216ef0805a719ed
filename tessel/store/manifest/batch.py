"""A batch: the rows of one row range that are not read yet, with what clauses have bound to them.

Units of a first stage are made of batches. A clause that filters, computes, renames or selects
binds that to the batch, which costs no reading; a predicate on stored columns and a bound on the
index rule out pages at once. What needs rows asks in one of two ways: :meth:`Batch.open` gives the
columns as they are stored, with everything that is bound compiled into one program over them;
:meth:`Batch.narrowed` gives the rows that conjuncts leave, whose other columns are then read for
these rows alone (late materialization).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel import telemetry
from tessel.expression.build import col
from tessel.expression.encoded import BlockProgram
from tessel.expression.node import Expression
from tessel.expression.raising import cannot_raise
from tessel.expression.rewriting import with_columns
from tessel.store.manifest.candidate_rows import KEPT, CandidateRows
from tessel.store.manifest.opened_batch import OpenedBatch
from tessel.store.manifest.stretch import RowPart

__all__ = ["Batch", "Bound", "Computed", "Conjunct", "IndexBounds"]


@dataclass(frozen=True, eq=False)
class Conjunct:
    """Rows pass where ``predicate`` is true.

    Attributes
    ----------
    predicate
        In the names inside of the batch.
    stored
        Whether it reads a column: those are stored ones, what is computed is part of it.
    proved
        Whether zone maps say that it is true of all rows that they leave.
    may_raise
        Whether it may have no result for a row.
    clause
        The name of the clause that wrote it.
    """

    predicate: Expression
    stored: bool
    proved: bool
    may_raise: bool
    clause: str


@dataclass(frozen=True, eq=False)
class IndexBounds:
    """Rows pass where the time index lies in ``[low, high)``; None is no bound."""

    low: int | None
    high: int | None
    clause: str


@dataclass(frozen=True, eq=False)
class Computed:
    """A column, under its name inside of the batch; it may have no result for a row."""

    name: str
    expression: Expression
    may_raise: bool
    clause: str


Bound = Conjunct | IndexBounds | Computed

_DEEPEST = 32
"""A predicate on columns computed in more steps waits for them: each would be done once more."""


class Batch:
    """The rows of one row range, over all pieces that hold its columns, and what is bound to them.

    Immutable: every operation returns a new batch, which shares what was read. One thread uses a
    batch at a time.

    Parameters
    ----------
    rows
        The rows, as nothing has narrowed them.

    Attributes
    ----------
    schema
        The columns that the next clause sees.
    source
        The rows as they were given.
    columns
        The name inside of the batch for every column of ``schema``: what is stored keeps the name
        that it is stored under, what is computed has one of its own.
    """

    def __init__(self, rows: CandidateRows) -> None:
        self.schema = rows.schema
        self.source = rows
        self.columns: Mapping[str, str] = {name: name for name in rows.schema.names}
        self._inlined: Mapping[str, tuple[Expression, int]] = {}
        self._bound: tuple[Bound, ...] = ()
        self._kept = rows
        self._pruned = rows
        self._narrowed: tuple[CandidateRows, tuple[Bound, ...]] | None = None

    # --- binding ----------------------------------------------------------------------------------

    def filter(self, predicate: Expression, clause: str = "filter") -> Batch:
        """Keep the rows where a predicate is true; pages in which it never is are ruled out.

        Parameters
        ----------
        predicate
            Of type bool, or of type null.
        clause
            The name of the clause that wrote it, for telemetry.
        """
        may_raise = not cannot_raise(predicate, self.schema)
        renamed = self._renamed(predicate)
        inside, _ = self._of_stored(renamed)
        stored = bool(inside.columns()) and self._are_stored(inside)
        pruned = copy.copy(self._pruned)
        proved = stored and pruned.rule_out(inside)
        inside = inside if stored else renamed
        found = self._with(Conjunct(inside, stored, proved, may_raise, clause))
        found._pruned = pruned
        return found

    def between(self, low: int | None, high: int | None, clause: str = "date_range") -> Batch:
        """Keep the rows whose time index lies in ``[low, high)``, in its own unit."""
        found = self._with(IndexBounds(low, high, clause))
        found._pruned = copy.copy(self._pruned)
        found._pruned.cut_index(low, high)
        return found

    def with_columns(self, columns: Mapping[str, Expression], clause: str = "apply") -> Batch:
        """Add columns, or replace them; each reads the columns before it."""
        types: dict[str, pa.DataType] = {}
        found = copy.copy(self)
        found._inlined, found.columns = inlined, names = dict(self._inlined), dict(self.columns)
        made = list(self._bound)
        for name, each in columns.items():
            schema = self.schema.of_columns(each.columns(), types)
            types[name], may_raise = each.result_type(schema), not cannot_raise(each, schema)
            inside = found._renamed(each)
            own, number = name, len(inlined)
            while own in inlined or own in self.source.schema:
                number += 1
                own = f"{name}\0{number}"
            made.append(Computed(own, inside, may_raise, clause))
            inlined[own] = found._of_stored(inside)
            names[name] = own
        found._bound, found._narrowed = tuple(made), None
        found.schema = self.schema.with_columns(types)
        return found

    def select(self, names: Sequence[str]) -> Batch:
        """Keep these columns, in this order."""
        found = copy.copy(self)
        found.schema = self.schema.select(names)
        found.columns = {name: self.columns[name] for name in names}
        return found

    def rename(self, names: Mapping[str, str]) -> Batch:
        """Give columns other names, all at once."""
        found = copy.copy(self)
        found.schema = self.schema.rename(names)
        found.columns = {names.get(name, name): own for name, own in self.columns.items()}
        return found

    def keep(self, places: npt.NDArray[np.int64]) -> Batch:
        """Keep the rows at these places of the row range, ascending, for which conjuncts hold."""
        rows = copy.copy(self.source)
        rows.keep(places)
        return self._of(rows)

    def keep_where(self, mask: npt.NDArray[np.bool_]) -> Batch:
        """Keep the rows where a mask is true, which has a value for each that conjuncts leave."""
        rows = copy.copy(self.narrowed()[0])
        rows.keep_where(mask)
        return self._of(rows)

    def unread(self) -> Batch:
        """Return the batch without what was read of it, for one that has to wait."""
        found = copy.copy(self)
        found._narrowed = None
        return found

    # --- looking ----------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether no row is left, by bounds of the index and by zone maps, and none may raise."""
        return not len(self._pruned) and not self.may_raise

    @property
    def may_raise(self) -> bool:
        """Whether something that is bound may have no result for a row."""
        return any(each.may_raise for each in self._bound if not isinstance(each, IndexBounds))

    @property
    def may_raise_behind(self) -> bool:
        """Whether a column may have no result for a row that :meth:`narrowed` leaves."""
        return any(each.may_raise for each in self._bound if isinstance(each, Computed))

    @property
    def first_row(self) -> int:
        """The place in the symbol of the row that places are counted from."""
        return self.source.first_row

    @property
    def first_place(self) -> int:
        """The place of the first row that zone maps leave; there must be one."""
        return self._pruned.first_place

    @property
    def keeps_names(self) -> bool:
        """Whether its columns are stored ones, under the names that they are stored under."""
        return all(name == own for name, own in self.columns.items()) and not any(
            isinstance(each, Computed) for each in self._bound
        )

    def parts(self, name: str) -> list[RowPart] | None:
        """Return the rows that are left page by page of a column; None for one that is computed."""
        own = self.columns[name]
        return self._pruned.parts(own) if own in self.source.schema else None

    def within(self, parts: Sequence[RowPart]) -> Batch:
        """Return the batch of some parts of the rows alone, to be opened."""
        found = copy.copy(self)
        found._pruned = self._pruned.within(parts)
        return found

    def narrowed(self, unit: int = 0) -> tuple[CandidateRows, tuple[Bound, ...]]:
        """Return the rows that conjuncts leave, and what is left to be done to their values.

        What is found stays with the batch. What may raise meets the rows that what was written
        before it leaves: from the first such column on everything is left.

        Parameters
        ----------
        unit
            Ordinal of the unit, for telemetry.

        Raises
        ------
        TesselError
            What evaluating a conjunct raises.
        """
        if self._narrowed is None:
            rows = self._kept.copied()
            left: list[Bound] = []
            for at, each in enumerate(self._bound):
                if isinstance(each, Computed):
                    left.append(each)
                    if not each.may_raise:
                        continue
                elif isinstance(each, IndexBounds) or each.stored:
                    _narrow(rows, each, unit)
                    continue
                else:
                    left.append(each)
                left += self._bound[at + 1 :]
                break
            self._narrowed = rows, tuple(left)
        return self._narrowed

    def open(self, names: Iterable[str]) -> OpenedBatch | None:
        """Return the stored columns that these are made of; None where values are needed.

        Raises
        ------
        CorruptSegmentError
            When a page that is looked at is damaged.
        """
        wanted = {name: self.columns[name] for name in names}
        needed = set(wanted.values())
        used: list[Conjunct | Computed] = []
        for each in reversed(self._bound):
            if (
                isinstance(each, IndexBounds)
                or (isinstance(each, Conjunct) and each.proved)
                or (isinstance(each, Computed) and not each.may_raise and each.name not in needed)
            ):
                continue
            needed |= (each.predicate if isinstance(each, Conjunct) else each.expression).columns()
            used.append(each)
        stored = self._pruned.stored(sorted(needed.intersection(self.source.schema.names)))
        if stored is None:
            return None
        columns, spans = stored
        schema = self.source.schema
        if KEPT in columns:
            schema = schema.with_column(KEPT, pa.bool_())
        program = BlockProgram(columns, schema, spans[0].facts.shape[2])
        select = program.truth(col(KEPT)) if KEPT in columns else None
        for each in reversed(used):
            if isinstance(each, Computed):
                if not program.define(each.name, each.expression):
                    return None
                continue
            truth = program.truth(each.predicate)
            if truth is None:
                return None
            select = program.both(select, truth)
        if any(name != own for name, own in wanted.items()):
            program.rename(wanted, self.schema)
        return OpenedBatch(program, select, spans, tuple(columns.values()))

    # --- inside -----------------------------------------------------------------------------------

    def _of(self, rows: CandidateRows) -> Batch:
        """Return the batch of rows for which all conjuncts hold."""
        found = copy.copy(self)
        found._bound = tuple(each for each in self._bound if isinstance(each, Computed))
        found._kept = found._pruned = rows
        found._narrowed = None
        return found

    def _with(self, bound: Bound) -> Batch:
        found = copy.copy(self)
        found._bound = (*self._bound, bound)
        found._narrowed = None
        return found

    def _of_stored(self, expression: Expression) -> tuple[Expression, int]:
        """Return an expression with what is computed put in its place, and how deep that goes."""
        used = {name: self._inlined[name] for name in expression.columns() & self._inlined.keys()}
        depth = 1 + max((depth for _, depth in used.values()), default=0)
        if depth > _DEEPEST:
            return expression, depth
        return with_columns(expression, {name: own for name, (own, _) in used.items()}), depth

    def _are_stored(self, expression: Expression) -> bool:
        return self._inlined.keys().isdisjoint(expression.columns())

    def _renamed(self, expression: Expression) -> Expression:
        """Return an expression in the names inside of the batch; unknown names raise."""
        names = expression.columns()
        if not names <= self.columns.keys():
            self.schema.require(sorted(names))
        others = {name: self.columns[name] for name in names if self.columns[name] != name}
        return with_columns(expression, {old: col(new) for old, new in others.items()})


def _narrow(rows: CandidateRows, bound: Conjunct | IndexBounds, unit: int) -> None:
    with telemetry.span("clause.process", clause=bound.clause, unit=unit) as facts:
        facts.update(rows_in=len(rows))
        if isinstance(bound, Conjunct):
            rows.filter(bound.predicate)
        else:
            rows.cut_index(bound.low, bound.high)
        facts.update(rows_out=len(rows))
