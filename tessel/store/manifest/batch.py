"""A batch: the rows of one row range that are not read yet, with what clauses have bound to them.

Units of a first stage are made of batches. A clause that filters, computes, renames or selects
binds that to the batch (:class:`tessel.store.manifest.bindings.Bindings`), which costs no reading;
a predicate on stored columns and a bound on the
index rule out pages at once. What needs rows asks in one of two ways: :meth:`Batch.open` gives the
columns as they are stored, with everything that is bound compiled into one program over them, once
for all segments whose columns are of equal forms;
:meth:`Batch.narrowed` gives the rows that conjuncts leave, whose other columns are then read for
these rows alone (late materialization).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel import telemetry
from tessel.cached import copied
from tessel.expression.schema import TableSchema
from tessel.store.manifest.bindings import Bindings, Bound, Computed, Conjunct, IndexBounds
from tessel.store.manifest.selected_rows import SELECTED, SelectedRows

if TYPE_CHECKING:
    from tessel.expression.block_columns import ColumnForm
    from tessel.expression.block_entries import Entries
    from tessel.expression.encoded import BlockProgram
    from tessel.expression.node import Expression
    from tessel.store.manifest.lazy_columns import OpenedBatch
    from tessel.store.manifest.selected_range import SelectedPages

Plan = TypeVar("Plan")

_EXACT_FORM, _PROGRAM_FORM = attrgetter("exact_form"), attrgetter("program_form")


class Batch:
    """The rows of one row range, over all pieces that hold its columns, and what is bound to them.

    Immutable: every operation returns a new batch, which shares what was read. One thread uses a
    batch at a time.

    Parameters
    ----------
    rows
        The rows, as nothing has narrowed them.
    bindings
        Those of their schema, to which nothing is bound: one object for all batches of a query.
    """

    def __init__(self, rows: SelectedRows, bindings: Bindings | None = None) -> None:
        self.source = rows
        self.bindings = Bindings(rows.schema) if bindings is None else bindings
        self.components: tuple[object, ...] = ()
        self._proved: tuple[Conjunct, ...] = ()
        self._unpruned = rows
        self._pruned = rows
        self._narrowed: tuple[SelectedRows, tuple[Bound, ...]] | None = None
        self._pages: tuple[SelectedRows, str, SelectedPages] | None = None

    # --- binding ----------------------------------------------------------------------------------

    def filter(self, predicate: Expression, clause: str = "filter") -> Batch:
        """Keep the rows where a predicate is true; pages in which it never is are ruled out.

        Parameters
        ----------
        predicate
            Of type bool, or of type null.
        """
        found = self._with(self.bindings.filter(predicate, clause))
        bound = found.bindings.steps[-1]
        if isinstance(bound, Conjunct) and bound.stored:
            found._pruned = copied(self._pruned)
            if found._pruned.prune_pages(bound.predicate):
                found._proved = (*self._proved, bound)
        return found

    def between(self, low: int | None, high: int | None, clause: str = "date_range") -> Batch:
        """Keep the rows whose time index lies in ``[low, high)``, in its own unit."""
        found = self._with(self.bindings.between(low, high, clause))
        found._pruned = copied(self._pruned)
        found._pruned.cut_index(low, high)
        return found

    def with_columns(self, columns: Mapping[str, Expression], clause: str = "apply") -> Batch:
        """Add columns, or replace them; each reads the columns before it."""
        return self._with(self.bindings.with_columns(columns, clause))

    def select(self, names: Sequence[str]) -> Batch:
        """Keep these columns, in this order."""
        return self._seen_as(self.bindings.select(names))

    def rename(self, names: Mapping[str, str]) -> Batch:
        """Give columns other names, all at once."""
        return self._seen_as(self.bindings.rename(names))

    def with_components(self, components: tuple[object, ...]) -> Batch:
        """Return the batch with other components."""
        found = copied(self)
        found.components = components
        return found

    def keep(self, places: npt.NDArray[np.int64]) -> Batch:
        """Keep the rows at these places of the row range, ascending, for which conjuncts hold."""
        rows = copied(self.source)
        rows.keep(places)
        return self._of(rows)

    def keep_where(self, mask: npt.NDArray[np.bool_]) -> Batch:
        """Keep the rows where a mask is true, which has a value for each that conjuncts leave."""
        rows = copied(self.narrowed()[0])
        rows.keep_where(mask)
        return self._of(rows)

    # --- looking ----------------------------------------------------------------------------------

    @property
    def schema(self) -> TableSchema:
        """The columns that the next clause sees."""
        return self.bindings.schema

    @property
    def columns(self) -> Mapping[str, str]:
        """The name inside of the batch for every column; see :class:`Bindings`."""
        return self.bindings.columns

    @property
    def is_empty(self) -> bool:
        """Whether no row is left, by bounds of the index and by zone maps, and none may raise."""
        return not len(self._pruned) and not self.bindings.may_raise

    @property
    def rows_unpruned(self) -> int:
        """How many rows bounds of the index and zone maps leave."""
        return len(self._pruned)

    @property
    def first_row(self) -> int:
        """The place in the symbol of the row that places are counted from."""
        return self.source.first_row

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """The rows that bounds of the index and zone maps leave, from the first row on; int64."""
        return self._pruned.places()

    @property
    def first_place(self) -> int:
        """The place of the first row that zone maps leave; there must be one."""
        return self._pruned.first_place

    def pages(self, name: str) -> SelectedPages | None:
        """Return the rows that are left page by page of a column; None for one that is computed."""
        own = self.columns[name]
        if own not in self.source.schema:
            return None
        found = self._pages
        if found is None or found[0] is not self._pruned or found[1] != own:
            self._pages = found = self._pruned, own, self._pruned.pages(own)
        return found[2]

    def within(self, pages: SelectedPages) -> Batch:
        """Return the batch of some pages of the rows alone, at least one, to be opened."""
        found = copied(self)
        found._pruned = self._pruned.within(pages)
        return found

    def narrowed(self, unit: int = 0) -> tuple[SelectedRows, tuple[Bound, ...]]:
        """Return the rows that conjuncts leave, and what is left to be done to their values.

        What is found stays with the batch. What may raise meets the rows that what was written
        before it leaves: from the first such column on everything is left.
        """
        if self._narrowed is None:
            rows = self._unpruned.copied()
            left: list[Bound] = []
            steps = self.bindings.steps
            for at, each in enumerate(steps):
                if isinstance(each, Computed):
                    left.append(each)
                    if not each.may_raise:
                        continue
                elif isinstance(each, IndexBounds) or each.stored:
                    _narrow(rows, each, unit)
                    continue
                else:
                    left.append(each)
                left += steps[at + 1 :]
                break
            self._narrowed = rows, tuple(left)
        return self._narrowed

    def rows_left(self, names: Sequence[str], unit: int = 0) -> SelectedRows | None:
        """Return the rows that conjuncts leave, a copy; None where values are needed.

        That is also where one of some columns is computed, by the names inside of the batch, and
        where a computed column may have no result for a row: then all rows have to be met.
        """
        stored = all(name in self.source.schema for name in names)
        if not stored or self.bindings.may_raise_behind:
            return None
        rows, left = self.narrowed(unit)
        return rows.copied() if all(isinstance(each, Computed) for each in left) else None

    def open(
        self,
        names: Sequence[str],
        question: Hashable,
        plan: Callable[[BlockProgram, int | None], Plan | None],
        *,
        exact: bool = False,
    ) -> OpenedBatch[Plan] | None:
        """Return the stored columns that these are made of; None where values are needed.

        What is done to them is compiled once for all batches with the same bindings whose columns
        are of equal forms.

        Raises CorruptSegmentError when a page that is looked at is damaged.

        Parameters
        ----------
        question
            What is planned, and all that the plan depends on but these columns and their schema:
            for an object that the plan keeps, its id will do.
        plan
            Adds what the rows are needed for to a program that has conjuncts and computed columns.
            It is given the truth register of the rows that are left, None for all; it returns None
            where values are needed.
        exact
            Whether the plan depends on the very bounds of the columns.
        """
        from tessel.store.manifest.lazy_columns import OpenedBatch

        used, needed = self.bindings.needed(tuple(names), self._proved)
        stored = self._pruned.stored(needed)
        if stored is None:
            return None
        columns, spans = stored
        forms = tuple(map(_EXACT_FORM if exact else _PROGRAM_FORM, columns))
        own: Entries | None = None
        for form in forms:
            if form.entries is not None and not form.entries.are_shared:
                own = form.entries
                break

        def compiled() -> tuple[Plan | None]:
            by_name = dict(zip([*needed, SELECTED], forms, strict=False))
            return (self._compiled(names, used, by_name, plan),)

        key = question, tuple(names), self._proved
        if own is None:
            found = self.bindings.compiled.get_or_make((*key, forms), compiled)
        else:  # what no other segment can use does not outlive this one
            found = own.memo((weakref.ref(self.bindings), *key, *map(_unheld, forms)), compiled)
        return None if found[0] is None else OpenedBatch(found[0], spans, columns)

    # --- inside -----------------------------------------------------------------------------------

    def _compiled(
        self,
        names: Sequence[str],
        used: Sequence[Conjunct | Computed],
        columns: Mapping[str, ColumnForm],
        plan: Callable[[BlockProgram, int | None], Plan | None],
    ) -> Plan | None:
        """Compile what is bound, in the order of ``used``, and then what a plan adds to it."""
        from tessel.expression.build import col
        from tessel.expression.encoded import BlockProgram

        schema = self.source.schema
        if SELECTED in columns:
            schema = schema.with_column(SELECTED, pa.bool_())
        program = BlockProgram(columns, schema)
        select = program.truth(col(SELECTED)) if SELECTED in columns else None
        for each in used:
            if isinstance(each, Computed):
                if not program.define(each.name, each.expression):
                    return None
                continue
            truth = program.truth(each.predicate)
            if truth is None:
                return None
            select = program.both(select, truth)
        program.rename({name: self.columns[name] for name in names}, self.schema)
        return plan(program, select)

    def _of(self, rows: SelectedRows) -> Batch:
        """Return the batch of rows for which all conjuncts hold."""
        found = self._with(self.bindings.without_conditions())
        found._proved = ()
        found._unpruned = found._pruned = rows
        return found

    def _with(self, bindings: Bindings) -> Batch:
        found = self._seen_as(bindings)
        found._narrowed = None
        return found

    def _seen_as(self, bindings: Bindings) -> Batch:
        """Return the batch with bindings under which what was read of it stays."""
        found = copied(self)
        found.bindings = bindings
        return found


def _unheld(form: ColumnForm) -> Hashable:
    """Return what tells a form from others without keeping its dictionary alive."""
    entries = form.entries
    return form if entries is None else (form._replace(entries=None), weakref.ref(entries))


def _narrow(rows: SelectedRows, bound: Conjunct | IndexBounds, unit: int) -> None:
    with telemetry.span("clause.process", clause=bound.clause, unit=unit) as facts:
        facts.update(rows_in=len(rows))
        if isinstance(bound, Conjunct):
            rows.filter(bound.predicate)
        else:
            rows.cut_index(bound.low, bound.high)
        facts.update(rows_out=len(rows), columns=rows.take_forms())
