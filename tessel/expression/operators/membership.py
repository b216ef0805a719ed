"""Whether a value is in a set, what a table has beside it, and whether there is a value at all."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from tessel.cached import cached
from tessel.errors import PlanFormatError
from tessel.expression.comparable import comparison_inputs, fitted_literal
from tessel.expression.leaves import Literal, ValueSet
from tessel.expression.node import Expression, require_text
from tessel.expression.operators.shapes import Unary
from tessel.expression.printing import Piece, Sub
from tessel.expression.types import Operand, Signature, refuse, type_name


class IsIn(Expression, name="is_in", precedence=4):
    """True where the operand equals one of the values; Kleene where a value is null."""

    operand: Expression
    values: ValueSet

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return a truth value, where every value can be compared with the operand."""
        (operand,) = operands
        for kind, contents in self.values.by_kind.items():
            for content in contents:
                value = Literal(kind, content)
                comparison_inputs(operand, Operand(value.type, value, value), orders=False)
                if fitted_literal(value, operand) is value:
                    break  # what is not read anew beside the operand is refused by its kind alone
        return Signature((operand.type,), pa.bool_())

    def pieces(self) -> Iterable[Piece]:
        """Return ``x in (1, 2)``."""
        return (Sub(self.operand, 5), f" in {self.values}")

    def label(self) -> Iterable[Piece]:
        """Return ``(x IN (Int64(1), …))``."""
        yield "("
        yield Sub(self.operand)
        yield " IN ("
        for place, value in enumerate(self.values):
            yield ", " if place else ""
            yield from value.label()
        yield "))"


class Lookup(Expression, name="lookup"):
    """The value that a table has beside a key; missing where the table does not have the key.

    The planner makes it of a join with few rows, each of which has a key of its own.

    Attributes
    ----------
    operand
        The key, of exactly the type of the table's keys.
    table
        An Arrow IPC stream in base64, of two columns: keys, each once and none missing, and the
        values beside them.
    """

    operand: Expression
    table: str

    @classmethod
    def of_columns(cls, operand: Expression, keys: pa.Array, values: pa.Array) -> Self:
        """Make the look-up of an operand from both columns of the table."""
        batch = pa.record_batch([keys, values], names=["key", "value"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return cls(operand, base64.b64encode(sink.getvalue()).decode())

    def check(self) -> None:
        """Raise where the table is none, or a key stands in it twice."""
        require_text(self.table, "the table of a lookup")
        keys, _ = self.columns_of_table
        if keys.null_count or pc.count_distinct(keys).as_py() < len(keys):
            raise PlanFormatError(f"{self.name}: a key is missing, or stands in the table twice")

    @cached
    def columns_of_table(self) -> tuple[pa.Array, pa.Array]:
        """The keys, and the values beside them."""
        try:
            with pa.ipc.open_stream(base64.b64decode(self.table, validate=True)) as reader:
                table = reader.read_all().combine_chunks()
            table.validate(full=True)
            keys, values = (column.combine_chunks() for column in table.columns)
        except (ValueError, OSError, MemoryError, pa.ArrowException) as error:
            raise PlanFormatError(f"{self.name} holds no table of two columns: {error}") from error
        return keys, values

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the type of the values, for an operand of the type of the keys."""
        (operand,) = operands
        keys, values = self.columns_of_table
        if operand.type != keys.type:
            hint = f"the keys of the table are {type_name(keys.type)}; cast the operand to it"
            refuse("look up", operands, hint)
        return Signature((keys.type,), values.type)

    def label(self) -> Iterable[Piece]:
        """Return ``LOOKUP(x, 12 keys)``."""
        yield "LOOKUP("
        yield Sub(self.operand)
        yield f", {len(self.columns_of_table[0])} keys)"


class IsMissing(Unary, name="is_missing", precedence=4):
    """True where the operand is null or NaN; never missing itself."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return a truth value; every type is taken."""
        return Signature((operands[0].type,), pa.bool_())

    def pieces(self) -> Iterable[Piece]:
        """Return ``x is missing``."""
        return (Sub(self.operand, 5), " is missing")
