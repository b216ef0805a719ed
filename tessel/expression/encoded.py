"""The encoded domain: an expression on the integers that are stored, block by block.

What reads segments enters here with columns whose pages are integers, and gets a
:class:`~tessel.kernels.Program` for what it asks. A threshold on decimals is translated into the
integers that they are kept as; a predicate on a dictionary is computed on its entries once, by the
values domain, and looked up by code. Where values are missing, a register says in which rows there
are some, and truths are three-valued: of a predicate, the rows where it is true and those where it
is false are computed apart, each only where it is asked for. What cannot be shown to give the very
answer of the values domain (integers that might overflow, an operator without a step) is refused
with None: nothing is ever approximated. Fields of rows that arrive are columns like those of
segments, with the bounds of their types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.arrays import fill_null, numpy_array, one_array
from tessel.errors import TesselError
from tessel.expression.block_arithmetic import ARITHMETIC
from tessel.expression.block_columns import ColumnForm, Number, Stored
from tessel.expression.block_comparisons import BlockComparisons, Truth, Wanted
from tessel.expression.block_entries import Computed
from tessel.expression.block_steps import GREATEST
from tessel.expression.checking import NodeType, node_types
from tessel.expression.context import ExpressionContext
from tessel.expression.leaves import Column, Literal
from tessel.expression.node import Expression, post_order
from tessel.expression.operators.boolean import And, Not, Or, Xor
from tessel.expression.operators.comparison import Comparison
from tessel.expression.schema import TableSchema
from tessel.kernels.program import Op
from tessel.lazy import dataclass

if TYPE_CHECKING:
    from tessel.expression.operators.membership import IsIn, Lookup

_MOST_ENTRIES = 1 << 16
_MOST_STEPS = 256
"""More steps a block cost more than kernels on whole columns."""


_Value = Number | Stored | Truth | Literal | None
_TRUE, _BOTH = frozenset([True]), frozenset([True, False])

_STRICT = frozenset(("column", "literal", "cast", *ARITHMETIC))
"""What is null where one of its operands is null, and nowhere else."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a program computes of each row.

    Attributes
    ----------
    register
        Of integers, truths among them as 1 and 0; or the complement of one of floats.
    valid
        The register of integers that are 1 where it is not null, else 0; None where none is null.
    """

    register: int
    valid: int | None


class BlockProgram(BlockComparisons):
    """Makes one program for several questions about the same rows.

    Parameters
    ----------
    columns
        The columns at hand, by name, in the order of their number.
    schema
        Names and types that expressions see; the columns at hand are among them.
    """

    def __init__(self, columns: Mapping[str, ColumnForm], schema: TableSchema) -> None:
        super().__init__(columns)
        self._schema = schema

    # --- questions --------------------------------------------------------------------------------

    def truth(self, predicate: Expression) -> int | None:
        """Return the truth register of the rows where a predicate is true; None where it is left.

        What is left has to be computed on values.
        """
        found = self._compiled(predicate)
        return found.true if isinstance(found, Truth) else None

    def output(self, expression: Expression) -> Output | None:
        """Return the registers of what an expression is in each row; None where it is left."""
        found = self._compiled(expression, _BOTH)
        if isinstance(found, Truth):
            true, false = _there(found.true), _there(found.false)
            return Output(self.ones(true), self.ones(self._steps.step(Op.OR, true, false)))
        if not isinstance(found, Number) or not _is_strict(expression):
            return None
        valid: int | None = None
        for name in sorted(expression.columns()):
            valid = self.both(valid, self._known(self._values[name], nans=True))
        register = ~found.register if found.is_float else found.register
        return Output(register, None if valid is None else self.ones(valid))

    def define(self, name: str, expression: Expression) -> bool:
        """Let later questions see an expression as a column; False where it has to be left."""
        found = self._compiled(expression)
        if not isinstance(found, Number | Stored):
            return False
        kind = expression.result_type(self._schema)
        self._values[name] = found
        self._schema = self._schema.with_column(name, kind)
        return True

    def rename(self, names: Mapping[str, str], schema: TableSchema) -> None:
        """Let later questions see columns under other names.

        Parameters
        ----------
        names
            The name so far of each column that they see.
        """
        self._values = {name: self._values[old] for name, old in names.items()}
        self._schema = schema

    # --- nodes ------------------------------------------------------------------------------------

    def _compiled(self, expression: Expression, asked: Wanted = _TRUE) -> _Value:
        """Compile every node, operands first; what cannot be is None, and so is what needs it."""
        context = ExpressionContext.of(expression)
        types = node_types(context, self._schema)
        wanted = _wanted_truths(context, asked)
        found: dict[str, _Value] = {}
        is_asked = self._functions_of_entries(context)
        for name in context.order:
            node = context.expression(name)
            operands = [found[child] for child in context.children(name)]
            found[name] = None
            if is_asked.get(name, True):
                found[name] = self._node(node, types[name], operands, wanted[name])
            if len(self._steps) > _MOST_STEPS:
                return None
        return found[context.root]

    def _functions_of_entries(self, context: ExpressionContext) -> dict[str, bool]:
        """Return the nodes that read one dictionary and nothing else, and which are asked for.

        What is asked for is computed of the entries at once; nobody asks for what is within it.
        """
        within = {
            name: False
            for name in context.order
            if not isinstance(context.expression(name), Column | Literal)
            and self._dictionary(context.expression(name)) is not None
        }
        others = [context.children(name) for name in context.order if name not in within]
        asked = {context.root, *(child for children in others for child in children)}
        return {name: name in asked for name in within}

    def _node(
        self, node: Expression, kind: NodeType, operands: list[_Value], wanted: Wanted
    ) -> _Value:
        if isinstance(node, Column):
            value = self._values.get(node.column)
            if not isinstance(value, Stored) or not pa.types.is_boolean(value.column.type):
                return value
            if value.column.entries is None:
                return self._flag(value, wanted)
            return self._on_dictionary(node, wanted)  # a code is no truth value
        if isinstance(node, Literal):
            return node
        if pa.types.is_boolean(kind.result):
            looked_up = self._on_dictionary(node, wanted)
            if looked_up is not None:
                return looked_up
        elif (computed := self._of_entries(node)) is not None:
            return computed
        if isinstance(node, And | Or | Xor | Not):
            return self._boolean(node, operands, wanted)
        if isinstance(node, Comparison):
            return self._comparison(node, kind, operands, wanted)
        if node.name == "is_missing":
            (asked,) = node.children
            held = self._values.get(asked.column) if isinstance(asked, Column) else operands[0]
            return self._is_missing(held, wanted)
        if node.name == "is_in":
            return self._is_in(cast("IsIn", node), kind, operands[0], wanted)
        if node.name == "lookup":
            return self._looked_up_number(cast("Lookup", node), operands[0])
        if node.name == "coalesce":
            return self._first_known(kind, operands)
        if node.name in ARITHMETIC:
            return self._arithmetic(node, kind, operands)
        if node.name == "abs":
            return self._absolute(kind, operands[0])
        if node.name == "cast":
            return self._as_type(kind, operands[0])
        return None

    # --- truths -----------------------------------------------------------------------------------

    def _flag(self, stored: Stored, wanted: Wanted) -> Truth:
        """Return where a column of truths is true, which is all but 0, and false."""
        known = self._known(stored)

        def register(side: bool) -> int:
            ends = (1, GREATEST) if side else (0, 0)
            return self._where(self._column_range(stored.name, ends), known)

        return Truth.of(wanted, register)

    def _on_dictionary(self, node: Expression, wanted: Wanted) -> Truth | None:
        """Compute a predicate on the entries of the one dictionary that it reads."""
        found = self._computed(node)
        if found is None or not pa.types.is_boolean(found[1].entries.values.type):
            return None
        value, (answers, of_null) = found
        numbers = numpy_array(fill_null(answers.values.cast(pa.int8()), -1))
        held = np.append(numbers, of_null.as_py() if of_null.is_valid else -1).astype(np.int8)
        return Truth.of(wanted, lambda side: self._looked_up_side(value, held, side))

    def _of_entries(self, node: Expression) -> Stored | None:
        """Compute what is no predicate on the entries of the one dictionary that it reads."""
        found = self._computed(node)
        if found is None or not _may_be_entries(found[1].entries.values.type):
            return None
        value, (answers, of_null) = found
        if value.column.has_missing and of_null.is_valid:
            return None  # a row without a value has one then
        kind, has_missing = answers.values.type, value.column.has_missing
        return replace(value, column=ColumnForm(kind, answers, None, None, has_missing))

    def _dictionary(self, node: Expression) -> Stored | None:
        """Return the column of a dictionary that is all that an expression reads."""
        names = node.columns()
        if len(names) != 1:
            return None
        (name,) = names
        value = self._values.get(name)
        if not isinstance(value, Stored) or value.column.entries is None:
            return None
        entries = value.column.entries.values
        kind = self._schema.type_of(name)
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return value if 0 < len(entries) <= _MOST_ENTRIES and entries.type == kind else None

    def _computed(self, node: Expression) -> tuple[Stored, Computed] | None:
        """Return the dictionary that is all that an expression reads, and what it is of that."""
        stored = self._dictionary(node)
        if stored is None or stored.column.entries is None:
            return None
        (name,) = node.columns()

        def make(asked: pa.Array) -> pa.Array | None:
            from tessel.expression.evaluate import evaluate

            try:
                return one_array(evaluate(node, pa.table({name: asked})))
            except TesselError:
                return None  # maybe of an entry that no row has

        found = stored.column.entries.computed(node.digest, make)
        return None if found is None else (stored, found)

    def _looked_up_side(self, stored: Stored, answers: npt.NDArray[np.int8], side: bool) -> int:
        table = (answers[:-1] == side).astype(np.uint8)
        true = np.flatnonzero(table)
        if len(true) == 0 or true[-1] - true[0] + 1 == len(true):
            # One run of codes, as one text is: a range, which takes no look-up a row.
            pair = (int(true[0]), int(true[-1])) if len(true) else (1, 0)
            if stored.codes is None:
                found = self._column_range(stored.name, pair)
            else:
                found = self._steps.range(stored.codes.register, pair)
        else:
            found = self._steps.table(self._integers(stored), table)
        known = self._known(stored)
        if known is None:
            return found
        if answers[-1] == side:  # also where there is no value
            return self._steps.step(Op.OR, found, self._steps.step(Op.NOT, known))
        return self._steps.step(Op.AND, found, known)

    def _boolean(self, node: Expression, operands: list[_Value], wanted: Wanted) -> Truth | None:
        truths = [operand for operand in operands if isinstance(operand, Truth)]
        if len(truths) != len(operands) or not truths:
            return None
        if isinstance(node, Not):
            return Truth(truths[0].false, truths[0].true)

        def register(side: bool) -> int:
            if isinstance(node, Xor):
                return self._exclusive(truths, side)
            own = [_there(truth.true if side else truth.false) for truth in truths]
            # Kleene: an "and" is false where one of its operands is, an "or" where all are.
            return self._steps.joined(Op.AND if isinstance(node, And) == side else Op.OR, own)

        return Truth.of(wanted, register)

    def _exclusive(self, truths: list[Truth], side: bool) -> int:
        """Return where an odd number of truths is true, or an even one, and all are known."""
        steps = self._steps
        odd, even = _there(truths[0].true), _there(truths[0].false)
        for truth in truths[1:]:
            true, false = _there(truth.true), _there(truth.false)
            mixed = steps.step(Op.AND, odd, false), steps.step(Op.AND, even, true)
            alike = steps.step(Op.AND, odd, true), steps.step(Op.AND, even, false)
            odd, even = steps.step(Op.OR, *mixed), steps.step(Op.OR, *alike)
        return odd if side else even

    def _is_missing(self, operand: _Value, wanted: Wanted) -> Truth | None:
        if isinstance(operand, Stored):
            if operand.column.entries is not None:
                return None  # an entry may be missing too
        elif not isinstance(operand, Number):
            return None
        known = self._known(operand)

        def register(side: bool) -> int:
            if known is None:
                return self._steps.always(not side)
            return self._steps.step(Op.NOT, known) if side else known

        return Truth.of(wanted, register)


def _may_be_entries(kind: pa.DataType) -> bool:
    types = pa.types
    counted = types.is_integer(kind) or types.is_timestamp(kind) or types.is_duration(kind)
    counted = counted or types.is_date(kind) or types.is_time(kind)
    return bool(counted or types.is_string(kind) or types.is_binary(kind) or types.is_float64(kind))


def _wanted_truths(context: ExpressionContext, asked: Wanted) -> dict[str, Wanted]:
    """Return of each node whether it is asked where it is true, or where it is false."""
    wanted: dict[str, Wanted] = dict.fromkeys(context.order, frozenset())
    wanted[context.root] = asked
    for name in reversed(context.order):
        node, own = context.expression(name), wanted[name]
        if isinstance(node, Xor):
            own = _BOTH
        elif isinstance(node, Not):
            own = frozenset(not side for side in own)
        elif not isinstance(node, And | Or):
            continue
        for child in context.children(name):
            wanted[child] |= own
    return wanted


def _is_strict(expression: Expression) -> bool:
    return all(node.name in _STRICT for node in post_order(expression))


def _there(register: int | None) -> int:
    assert register is not None  # it was asked for
    return register
