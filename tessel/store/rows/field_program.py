"""The program of a pipeline: which rows are kept, and what is computed of these, where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessel.expression.encoded import BlockProgram, Output
from tessel.expression.node import Expression
from tessel.expression.operators.boolean import And
from tessel.expression.raising import cannot_raise
from tessel.expression.schema import TableSchema
from tessel.kernels.program import Op
from tessel.kernels.register_rows import register_rows
from tessel.store.rows.field_columns import FieldColumns
from tessel.store.rows.rows import Rows
from tessel.store.rows.schema import RowSchema

__all__ = ["FieldProgram"]


class FieldProgram:
    """Conjuncts and outputs as one program on the fields of rows.

    Parameters
    ----------
    schema
        Of the rows.
    where
        What is true of the rows that are kept; None keeps all.
    select
        What is computed of them, by name, each with its type.

    Attributes
    ----------
    left
        What has to be true, too, of the rows that the program keeps; None where that is all.
    """

    def __init__(
        self,
        schema: RowSchema,
        where: Expression | None,
        select: Mapping[str, tuple[Expression, pa.DataType]],
    ) -> None:
        self._fields, self._table = FieldColumns(schema), TableSchema(schema.arrow)
        program = self._empty()
        self._kept: int | None = None
        left = []
        for conjunct, is_computed in self._conjuncts(where):
            truth = program.truth(conjunct) if is_computed else None
            if truth is None:
                left.append(conjunct)
            else:
                self._kept = program.both(self._kept, truth)
        self.left = And(tuple(left)) if len(left) > 1 else left[0] if left else None
        self._registers = [] if self._kept is None else [program.rows()]
        self._outputs: dict[str, tuple[Output, pa.DataType]] = {}
        for name, (expression, kind) in select.items():
            output = program.output(expression) if self._is_computed(expression) else None
            if output is not None:
                self._outputs[name] = output, kind
                self._registers += [output.register]
                self._registers += [] if output.valid is None else [output.valid]
        self._program = program.program().bind(list(self._fields.columns.values()), 1)
        self._has_texts = bool((self._program.steps[:, 0] == Op.TEXT_EQUAL).any())

    def run(self, rows: Rows) -> tuple[Rows, dict[str, pa.Array]]:
        """Return the rows that are kept, and what is computed of them."""
        if not self._registers or not len(rows):
            return rows, {}
        blocks = self._fields.blocks(rows, with_texts=self._has_texts)
        lines = register_rows([blocks], self._program, select=self._kept, registers=self._registers)
        found = iter(lines)
        if self._kept is not None:
            places = next(found)
            rows = rows if len(places) == len(rows) else rows.taken(places)
        columns = {
            name: _array(next(found), None if output.valid is None else next(found), kind)
            for name, (output, kind) in self._outputs.items()
        }
        return rows, columns

    def _conjuncts(self, where: Expression | None) -> list[tuple[Expression, bool]]:
        """Return the conjuncts of a condition, each with whether the program computes it."""
        conjuncts = where.operands if isinstance(where, And) else () if where is None else (where,)
        found = [(conjunct, self._is_computed(conjunct)) for conjunct in conjuncts]
        if all(is_computed or cannot_raise(each, self._table) for each, is_computed in found):
            return found
        # Rows that the program leaves out might be without a result, which is an error.
        return [(conjunct, False) for conjunct in conjuncts]

    def _is_computed(self, expression: Expression) -> bool:
        """Return whether an expression can be in a program: what is begun of it stays there."""
        return self._empty().output(expression) is not None

    def _empty(self) -> BlockProgram:
        forms = {name: column.exact_form for name, column in self._fields.columns.items()}
        return BlockProgram(forms, self._table)


def _array(
    bits: npt.NDArray[np.int64], valid: npt.NDArray[np.int64] | None, kind: pa.DataType
) -> pa.Array:
    """Return an output of a program as an array of its type."""
    values: npt.NDArray[Any]
    if pa.types.is_boolean(kind):
        values = np.packbits(bits != 0, bitorder="little")
    elif pa.types.is_floating(kind):
        values = bits.view(np.float64).copy()
    else:
        values = bits.astype(f"i{kind.bit_width // 8}")
    nulls = 0 if valid is None else len(valid) - int(np.count_nonzero(valid))
    validity = pa.py_buffer(np.packbits(valid != 0, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(kind, len(bits), [validity, pa.py_buffer(values)], nulls)
